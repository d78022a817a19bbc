"""What differs between two versions of an object: one entry per field, with a path that people can read. Pure.

    {"spec": {"containers": [{"name": "web", "image": "a"}]}}  ->  {... "image": "b"}
    [FieldChange(path="spec.containers[web].image", before="a", after="b")]

Items of lists are told apart by their `name`, `type`, `key` or `ip`, whichever all of them have; by their position otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

_UNSHOWN: Final = frozenset(
    {
        "metadata.managedFields",
        "metadata.resourceVersion",
        "metadata.uid",
        "metadata.creationTimestamp",
        "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
    }
)
"""Fields that the server and kubectl keep for themselves."""
_NAMES: Final = ("name", "type", "key", "ip")


class FieldChange(msgspec.Struct, frozen=True):
    """A field with another value; None stands for none."""

    path: str
    before: Any
    after: Any


def tree_difference(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[FieldChange]:
    """The fields in which two versions differ, in the order of the newer one. None: the object was not there, or is not any more."""
    return [one for one in _of(before or {}, after or {}, "") if one.path not in _UNSHOWN]


def _of(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    if before == after or path in _UNSHOWN:
        return
    if _is_tree(before) and _is_tree(after):
        yield from _of_fields(before, after, path + "." if path else "")
        return
    lists = _items(before), _items(after)
    if lists[0] is not None and lists[1] is not None and any(lists):
        old, new = _named(lists[0], lists[1])
        yield from _of_items(old, new, path)
    else:
        yield FieldChange(path, before, after)


def _is_tree(value: Any) -> bool:
    return isinstance(value, Mapping) or value is None


def _of_fields(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, prefix: str) -> Iterator[FieldChange]:
    old, new = before or {}, after or {}
    if not old and not new:  # a field of its own that says nothing more, such as emptyDir
        yield FieldChange(prefix.rstrip("."), before, after)
    for name in (*new, *(name for name in old if name not in new)):
        yield from _of(old.get(name), new.get(name), prefix + name)


def _of_items(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[FieldChange]:
    for name in (*after, *(name for name in before if name not in after)):
        yield from _of(before.get(name), after.get(name), f"{path}[{name}]")


def _items(value: Any) -> list[Mapping[str, Any]] | None:
    """The items of a list of objects, or of none; None for what is something else."""
    if value is None:
        return []
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return list(value) if is_list and all(isinstance(one, Mapping) for one in value) else None


def _named(*lists: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The items of lists by what tells them apart in all of them."""
    for field in _NAMES:
        names = [[one.get(field) for one in items] for items in lists]
        if all(None not in each and len(set(each)) == len(each) for each in names):
            return [dict(zip(map(str, each), items, strict=True)) for each, items in zip(names, lists, strict=True)]
    return [{str(place): one for place, one in enumerate(items)} for items in lists]
