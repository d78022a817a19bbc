"""Values as Go's `%#v` prints them, which go-yaml does with maps and lists that stand where a key should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bayplan.api.errors import quoted

_MOST: Final = 1000
"""Characters that are told at most: a document of a few bytes may stand for a value of any size."""


def go_syntax(value: Any) -> str:
    """A value of YAML, cut off where it gets long."""
    found, length = [], 0
    for piece in _pieces(value):
        found.append(piece)
        length += len(piece)
        if length > _MOST:
            break
    return "".join(found)[:_MOST]


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield "map[interface {}]interface {}{"
        for at, (key, item) in enumerate(sorted(value.items(), key=lambda pair: str(pair[0]))):
            yield ", " if at else ""
            yield from _pieces(key)
            yield ":"
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list):
        yield "[]interface {}{"
        for at, item in enumerate(value):
            yield ", " if at else ""
            yield from _pieces(item)
        yield "}"
    elif value is None:
        yield "interface {}(nil)"
    elif isinstance(value, bool):
        yield "true" if value else "false"
    else:
        yield quoted(value) if isinstance(value, str) else _number(value)


def _number(value: Any) -> str:
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value)
