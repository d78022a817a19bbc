"""Copies of an object with some texts of their own, which share all parts in which no such text is.

    pod ─ metadata ─ name          own: copied, as is all that it is in
        │          └ owner_references
        ├ spec ─ containers                 shared, unless a text of their own is in them
        └ status                            shared

A decoded object is some hundred small ones: to make and free them for each of many that are equal but for a few texts takes longer than to store it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Copy = Callable[[Sequence[str]], Any]
"""Makes a copy; it is given its own texts, by number."""

_replace = msgspec.structs.replace


class OpaqueError(Exception):
    """Some of the texts are where they cannot be replaced."""


def copy_of(value: Any, texts: Mapping[str, int]) -> Copy | None:
    """What copies a value in which some texts stand for others, by their numbers; None if there is none in it. Raises OpaqueError."""
    finds = re.compile("|".join(map(re.escape, texts)))
    return _copy_of(value, finds, texts)


def _copy_of(value: Any, finds: re.Pattern[str], texts: Mapping[str, int]) -> Copy | None:
    if isinstance(value, str):
        return _text(value, finds, texts)
    if isinstance(value, msgspec.Struct):
        fields = _parts({name: getattr(value, name) for name in value.__struct_fields__}, finds, texts)
        return (lambda own: _replace(value, **{name: copy(own) for name, copy in fields})) if fields else None
    if isinstance(value, tuple):
        items = _parts(dict(enumerate(value)), finds, texts)
        return (lambda own: _with_items(value, items, own)) if items else None
    if isinstance(value, dict):
        if any(isinstance(key, str) and finds.search(key) for key in value):
            raise OpaqueError
        members = _parts(value, finds, texts)
        return (lambda own: value | {key: copy(own) for key, copy in members}) if members else None
    if value is not None and finds.search(msgspec.json.encode(value).decode()):
        raise OpaqueError
    return None


def _parts(parts: Mapping[Any, Any], finds: re.Pattern[str], texts: Mapping[str, int]) -> list[tuple[Any, Copy]]:
    """Those parts of something that are not shared."""
    copies = [(key, _copy_of(part, finds, texts)) for key, part in parts.items()]
    return [(key, copy) for key, copy in copies if copy is not None]


def _with_items(value: tuple[Any, ...], items: list[tuple[int, Copy]], own: Sequence[str]) -> tuple[Any, ...]:
    changed = list(value)
    for at, copy in items:
        changed[at] = copy(own)
    return tuple(changed)


def _text(value: str, finds: re.Pattern[str], texts: Mapping[str, int]) -> Copy | None:
    numbers = [texts[found] for found in finds.findall(value)]
    if not numbers:
        return None
    if finds.fullmatch(value):
        (number,) = numbers
        return lambda own: own[number]
    form = "%s".join([part.replace("%", "%%") for part in finds.split(value)])
    return lambda own: form % tuple([own[number] for number in numbers])
