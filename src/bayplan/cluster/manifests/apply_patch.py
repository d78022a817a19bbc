"""The patch that `kubectl apply` would send, as a pure function of what was applied before and what is to be applied now.

    before    {"data": {"a": "1", "b": "2"}}
    now       {"data": {"a": "3"}}
    patch     {"data": {"a": "3", "b": null}}

What others have written into the live object, and was never applied, is not named in the patch and so stays.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.schema import Schema, definitions, resolve

Tree = dict[str, Any]


def strategic_apply_patch(before: Tree, now: Tree, definition: str) -> Tree:
    """A strategic merge patch for an object of the kind with this schema definition."""
    return _map(before, now, definitions()[definition], retain=False)


def merge_apply_patch(before: Tree, now: Tree) -> Tree:
    """A JSON merge patch, for kinds without schema: lists are taken as they are."""
    patch: Tree = {key: None for key in before if key not in now}
    for key, value in now.items():
        former = before.get(key)
        patch[key] = (
            merge_apply_patch(former if isinstance(former, dict) else {}, value) if isinstance(value, dict) else value
        )
    return patch


def _map(before: Tree, now: Tree, schema: Schema, *, retain: bool) -> Tree:
    """`retain` is for unions such as a deployment's strategy: members that are not named go, also those that the server filled in."""
    patch: Tree = {"$retainKeys": sorted(now)} if retain else {key: None for key in before if key not in now}
    properties = resolve(schema).get("properties", {})
    others = resolve(schema).get("additionalProperties")
    for key, value in now.items():
        inner = properties.get(key, others if isinstance(others, dict) else {})
        former, facts = before.get(key), inner.get("x-kubernetes-patch-strategy", "").split(",")
        if isinstance(value, dict):
            replaced = {**value, "$patch": "replace"} if "replace" in facts else None
            patch[key] = replaced or _map(
                former if isinstance(former, dict) else {}, value, inner, retain="retainKeys" in facts
            )
        elif isinstance(value, list) and "merge" in facts:
            patch.update(_list(key, former if isinstance(former, list) else [], value, inner))
        else:
            patch[key] = value
    return patch


def _list(name: str, before: list[Any], now: list[Any], schema: Schema) -> Tree:
    """Members of the patch for a list that is merged item by item."""
    key = schema.get("x-kubernetes-patch-merge-key")
    order = f"$setElementOrder/{name}"
    if key is None:
        gone = [item for item in before if item not in now]
        return {name: now, order: now, **({f"$deleteFromPrimitiveList/{name}": gone} if gone else {})}
    if not all(isinstance(item, dict) and key in item for item in now):
        return {name: now}  # the server says what is wrong with it
    former = {item[key]: item for item in before if isinstance(item, dict) and key in item}
    retain = "retainKeys" in schema.get("x-kubernetes-patch-strategy", "").split(",")
    items = [_map(former.get(item[key], {}), item, schema.get("items", {}), retain=retain) for item in now]
    present = {item[key] for item in now}
    gone = [{"$patch": "delete", key: value} for value in former if value not in present]
    return {name: [*items, *gone], order: [{key: item[key]} for item in now]}
