"""Sets of field paths in their stored form, FieldsV1, and the algebra on them.

A set is a trie of dicts. Keys are path elements: `f:NAME` a field, `k:{...}` an item of a list by its keys, `v:VALUE` an item of a set, `i:N` an index.
A path is in the set if its node is empty or holds the key `.`; other nodes are only on the way:

    {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}}}}
    holds  .spec.containers[name="c"]  and  .spec.containers[name="c"].image,  neither .spec nor .spec.containers

Sets are never changed once made; results share nodes with their operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

FieldSet = dict[str, Any]

LEAF: FieldSet = {}
"""The node of a path that is in the set and has nothing below it. Shared: do not change it."""
_SELF = "."


def _is_member(node: FieldSet) -> bool:
    return not node or _SELF in node


def _node(children: FieldSet, *, member: bool) -> FieldSet | None:
    """The node with these children; None if it would hold nothing."""
    if not member:
        return children or None
    return {_SELF: LEAF, **children} if children else LEAF


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Paths that are in either set."""
    if not other:
        return one
    if not one:
        return other
    result = dict(one)
    for key, node in other.items():
        known = one.get(key)
        result[key] = node if known is None else _joined(known, node)
    return dict(sorted(result.items())) if len(result) > len(one) else result


def union_of(sets: Sequence[FieldSet]) -> FieldSet:
    """Paths that are in any of the sets. Thousands are joined in pairs, pairs of pairs and so on, so that no path is copied more than a few times."""
    left = list(sets)
    while len(left) > 1:
        odd = left[len(left) & ~1 :]
        left = [union(one, other) for one, other in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0] if left else {}


def _joined(one: FieldSet, other: FieldSet) -> FieldSet:
    if one is other:
        return one
    if not one or not other:
        return {_SELF: LEAF, **one, **other} if one or other else LEAF
    return union(one, other)


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Paths of one set that are not in the other. What lies below a path of the other stays."""
    return _without(one, other, recursive=False)


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Paths of one set that are neither in the other nor below one of its paths."""
    return _without(one, other, recursive=True)


def _without(one: FieldSet, other: FieldSet, *, recursive: bool) -> FieldSet:
    if not other:
        return one
    result: FieldSet = {}
    for key, node in one.items():
        if key == _SELF:
            continue  # whether the path itself stays is decided where its key is
        taken = other.get(key)
        if taken is None:
            result[key] = node
            continue
        if taken is node or taken == node or (recursive and _is_member(taken)):
            continue
        left = _node(
            _without(node, taken, recursive=recursive) if taken else _children(node),
            member=_is_member(node) and not _is_member(taken),
        )
        if left is not None:
            result[key] = left
    return result


def _children(node: FieldSet) -> FieldSet:
    return {key: item for key, item in node.items() if key != _SELF} if _SELF in node else node


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Paths that are in both sets."""
    result: FieldSet = {}
    for key, node in one.items():
        match = other.get(key)
        if match is None or key == _SELF:
            continue
        common = _node(intersection(node, match), member=_is_member(node) and _is_member(match))
        if common is not None:
            result[key] = common
    return result


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Whether the path is in the set."""
    node = fields
    for element in path:
        found = node.get(element)
        if found is None:
            return False
        node = found
    return bool(path) and _is_member(node)


def of_paths(*paths: tuple[str, ...]) -> FieldSet:
    """The set of some paths."""
    branches: list[FieldSet] = []
    for path in paths:
        branch: FieldSet = LEAF
        for element in reversed(path):
            branch = {element: branch}
        branches.append(branch)
    return union_of(branches)


def within(fields: FieldSet, path: tuple[str, ...]) -> FieldSet:
    """The part of the set at and below a path, in which `*` stands for any element."""
    if not path:
        return fields
    kept = {}
    for key, node in fields.items():
        if key != _SELF and path[0] in ("*", key):
            part = node if len(path) == 1 else within(_children(node), path[1:])
            if part or len(path) == 1:
                kept[key] = part
    return kept


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All paths: those of a level before those below it."""
    ordered = sorted((key, node) for key, node in fields.items() if key != _SELF) if len(fields) > 1 else fields.items()
    for key, node in ordered:
        if _is_member(node):
            yield (*prefix, key)
    for key, node in ordered:
        if node:
            yield from paths(_children(node), (*prefix, key))


def path_text(path: tuple[str, ...]) -> str:
    """A path as messages show it: `.spec.containers[name="c"].image`."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return f"[{','.join(f'{name}={_value_text(keys[name])}' for name in sorted(keys))}]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def _value_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
