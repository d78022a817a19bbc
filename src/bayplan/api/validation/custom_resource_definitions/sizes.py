"""How large values of a schema can become in one request: what estimates of the cost of rules begin with.

Source: `k8s.io/apiserver/pkg/cel/common/schemas.go` and `.../pkg/cel/types.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.api.cel.schema_types import escaped
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.form import NOTHING
from bayplan.api.validation.custom_resource_definitions.structural import INT_OR_STRING

REQUEST_BYTES = 3 * 1024 * 1024
"""The largest request that is taken."""
MOST = 2**64 - 1
"""Stands for more than can be counted."""
_QUOTES = 2
_BYTES_OF_A_CHARACTER = 4
_TIMES = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}
"""Fewest and most bytes of a time, by its format."""
_KEY: Schema = {"type": "boolean"}
"""Stands for the keys of maps, whose length nobody limits and nobody counts."""


class Size(NamedTuple):
    """How many characters, items or entries there are."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        """Both together."""
        return Size(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Size) -> Size:
        """So many of the other."""
        return Size(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def joined(self, other: Size) -> Size:
        """Either of them."""
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN = Size(0, MOST)


def exactly(number: int) -> Size:
    """A size that is known."""
    return Size(number, number)


def most_elements(schema: Schema) -> int:
    """The most characters, items or entries of a value; 0 for what has none."""
    kind = schema.get("type", "")
    if schema.get(INT_OR_STRING):
        return _longest(schema, REQUEST_BYTES - _QUOTES)
    if kind == "array":
        given = schema.get("maxItems")
        fitting = (REQUEST_BYTES - 2) // (least_bytes(schema.get("items", NOTHING)) + 1)
        return fitting if given is None else max(given, 0)
    if kind == "object":
        values, given = schema.get("additionalProperties"), schema.get("maxProperties")
        if not isinstance(values, dict):
            return 0
        return (REQUEST_BYTES - 2) // (least_bytes(values) + 6) if given is None else max(given, 0)
    return _most_characters(schema) if kind == "string" else 0


def _most_characters(schema: Schema) -> int:
    form = schema.get("format", "")
    if form in _TIMES:
        return _TIMES[form][1]
    if form == "byte":
        given = schema.get("maxLength")
        return REQUEST_BYTES - _QUOTES if given is None else max(given, 0)
    texts = schema.get("enum")
    if texts:
        return _longest(schema, max((len(one.encode()) for one in texts if isinstance(one, str)), default=0))
    return _longest(schema, REQUEST_BYTES - _QUOTES)


def _longest(schema: Schema, otherwise: int) -> int:
    given = schema.get("maxLength")
    return otherwise if given is None else max(given, 0) * _BYTES_OF_A_CHARACTER


def least_bytes(schema: Schema) -> int:
    """The fewest bytes of a value in JSON."""
    if schema.get(INT_OR_STRING):
        return 1
    kind = schema.get("type", "")
    if kind == "object" and not isinstance(schema.get("additionalProperties"), dict):
        needed = schema.get("required", ())
        fields = schema.get("properties", NOTHING).items()
        return 2 + sum(
            len(name.encode()) + least_bytes(one) + 4
            for name, one in fields
            if name in needed and one.get("default") is None and _has_type(one)
        )
    if kind == "string":
        return _TIMES.get(schema.get("format", ""), (2, 0))[0]
    return {"boolean": 4, "array": 2, "object": 2}.get(kind, 1)


def _has_type(schema: Schema) -> bool:
    return bool(schema.get("type") or schema.get(INT_OR_STRING))


def size_at(schema: Schema, path: Sequence[str]) -> Size | None:
    """The size of what a path such as `self, spec, items, @items` leads to; None if that is not known.

    The schema is that of the first name; `@items`, `@values` and `@keys` stand for whatever is in a list or map.
    """
    if not path:
        return None
    here: Schema | None = schema
    for name in path[1:]:
        here = _below(here or NOTHING, name)
        if here is None:
            return None
    return Size(0, most_elements(here or NOTHING))


def _below(schema: Schema, name: str) -> Schema | None:
    values = schema.get("additionalProperties")
    is_map = schema.get("type") == "object" and isinstance(values, dict)
    if name in ("@items", "@values"):
        inner = schema.get("items") if schema.get("type") == "array" else values
        return inner if isinstance(inner, dict) else None
    if name == "@keys":
        return _KEY if is_map else None
    if is_map:
        return None
    return next((one for key, one in schema.get("properties", NOTHING).items() if escaped(key) == name), None)


def cardinality(schema: Schema) -> int | None:
    """How many values the schema has for each field or item inside it; None if nothing limits that."""
    kind, given = schema.get("type"), None
    if kind == "array":
        given = schema.get("maxItems")
    elif kind == "object" and "additionalProperties" in schema:
        given = schema.get("maxProperties")
    else:
        return 1
    return None if given is None else max(given, 0)


def most_in_a_request(schema: Schema) -> int:
    """How many values of a schema fit into one request."""
    return REQUEST_BYTES // (least_bytes(schema) + 1)
