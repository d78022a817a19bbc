"""What is left of a strategic merge patch once Kubernetes has merged it, as messages about the result show it.

Kubernetes takes out of a patch what it has followed: directives, lists that have an order, nulls in what is new. Source: `mergeMap` in apimachinery's
`util/strategicpatch/patch.go`.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.patching.json_patches import PatchError
from bayplan.api.patching.strategic_patch import DIRECTIVE, RETAIN_KEYS, SET_ORDER, Facts, facts_of
from bayplan.api.schema import Schema


def left_of(patch: dict[str, Any], tree: dict[str, Any], definition: str) -> dict[str, Any]:
    """What is left of a patch for an object, a tree of the kind with this schema definition. Neither is changed."""
    return _left_of_map(patch, tree, {"$ref": definition})


def _left_of_map(patch: dict[str, Any], tree: dict[str, Any], schema: Schema) -> dict[str, Any]:
    if DIRECTIVE in patch:
        is_followed = patch[DIRECTIVE] == "replace"
        return {key: value for key, value in patch.items() if key != DIRECTIVE} if is_followed else patch
    ordered = {key.partition("/")[2] for key in patch if key.startswith(SET_ORDER)}
    return {
        key: _left_of_member(value, tree[key], schema, key) if key in tree else _as_added(value)
        for key, value in patch.items()
        if key != RETAIN_KEYS and key not in ordered and not key.startswith(SET_ORDER)
    }


def _left_of_member(value: Any, live: Any, schema: Schema, key: str) -> Any:
    if type(value) is not type(live):
        return _as_added(value)
    if not isinstance(value, dict | list):
        return value
    try:
        facts = facts_of(schema, key)
    except PatchError:
        return value
    if isinstance(value, dict):
        return value if facts.strategy == "replace" else _left_of_map(value, live, facts.schema)
    return [_left_of_item(item, live, facts) for item in value] if facts.key else value


def _left_of_item(item: Any, live: list[Any], facts: Facts) -> Any:
    if not isinstance(item, dict) or DIRECTIVE in item or facts.key not in item:
        return item
    found = next((one for one in live if isinstance(one, dict) and one.get(facts.key) == item[facts.key]), None)
    return item if found is None else _left_of_map(item, found, facts.schema)


def _as_added(value: Any) -> Any:
    """A value that the object did not have: without nulls, and without maps that have a directive."""
    if isinstance(value, dict):
        return {key: _as_added(inner) for key, inner in value.items() if inner is not None and not _is_directive(inner)}
    if isinstance(value, list):
        return [_as_added(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and value.get(DIRECTIVE) is not None
