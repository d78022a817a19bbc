"""A lower bound of what the managed fields of a configuration take, found without making them: for configurations that no store would hold."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from bayplan.api.managedfields.typed import LIST, SCALAR, Type

_FIELD: Final = len('"f:":{},')
_ITEM_WITH_KEYS: Final = len('"k:{}":{},')
_ITEM_OF_SET: Final = len('"v:":{},')


def exceeds(tree: Any, kind: Type, most: int) -> bool:
    """Whether the FieldsV1 of a configuration (JSON or an object) without repeated keys take more than `most` bytes, as far as a lower bound tells.

    Looks at no more of the configuration than makes up these bytes.
    """
    return _left(tree, kind, most) < 0


def _left(value: Any, kind: Type, left: int) -> int:
    """What is left of a number of bytes after those of a value; what lies beyond a negative number is not looked at."""
    if kind.kind == SCALAR or kind.atomic:
        return left
    if isinstance(value, (list, tuple)) and kind.kind == LIST:
        return _left_after_items(value, kind, left)
    if isinstance(value, (dict, msgspec.Struct)) and kind.kind != LIST:
        for name, item in value.items() if isinstance(value, dict) else _members(value):
            left -= _FIELD + len(name)
            inner = kind.field(name)
            if inner is not None:
                left = _left(item, inner, left)
            if left < 0:
                break
    return left


def _members(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """The fields of a struct that say something, by their names in JSON."""
    for name, attribute in _names(type(value)):
        if item := getattr(value, attribute):
            yield name, item


@functools.cache
def _names(cls: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.encode_name, field.name) for field in msgspec.structs.fields(cls))


def _left_after_items(items: Sequence[Any], kind: Type, left: int) -> int:
    element = kind.element
    assert element is not None
    for item in items:
        if kind.keys:
            left = _left(item, element, left - _ITEM_WITH_KEYS)
        else:
            left -= _ITEM_OF_SET + (len(item) if isinstance(item, str) else 0)
        if left < 0:
            break
    return left
