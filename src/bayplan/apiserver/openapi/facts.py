"""What servers say in their OpenAPI documents besides the published definitions: defaults, values and query parameters.

`types/openapi.json.gz` is read when the first document is made.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from bayplan.api.schema import unpacked

_ABSENT: Any = msgspec.UNSET


class Field(msgspec.Struct):
    """What is added to a field. values: what each value means, to be added to the description. inner: of the items of a list or the values of a map."""

    default: Any = _ABSENT
    enum: list[str] = []
    values: str = ""
    inner: Field | None = None


class Definition(msgspec.Struct):
    """What is added to a definition."""

    description: str = ""
    properties: dict[str, Field] = {}


class Facts(msgspec.Struct):
    """The file. options: type of options -> query parameter -> its type and description."""

    definitions: dict[str, Definition]
    options: dict[str, dict[str, tuple[str, str]]]


@functools.lru_cache(maxsize=1)
def facts() -> Facts:
    """The facts of the built-in definitions and options."""
    return msgspec.json.decode(unpacked("openapi"), type=Facts)


def added(field: Field) -> dict[str, Any]:
    """The members that a field gets, but for its description."""
    found: dict[str, Any] = {}
    if field.default is not _ABSENT:
        found["default"] = field.default
    return {**found, "enum": field.enum} if field.enum else found
