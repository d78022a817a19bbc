"""Whether a value certainly breaks a schema, found out without working out what is wrong with it.

Of 50 alternatives of an `anyOf` 49 may be wrong for each of thousands of items, and nothing is said of these if one is right. What is rejected here has errors in
`values`; what is not rejected may have errors all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.custom_resources import patterns
from bayplan.api.custom_resources.correlation import Before, same
from bayplan.api.custom_resources.enums import enum_values
from bayplan.api.schema import Schema
from bayplan.support.memory.memo import memoized

Rejects = Callable[[Any, Before | None], bool]
"""Takes a value and what it was before the change."""


class _Same:
    """A schema as a key: equal only to itself, and kept alive while it is one."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema

    def __hash__(self) -> int:
        return id(self.schema)


def rejects(value: Any, schema: Schema, before: Before | None) -> bool:
    """Whether a value breaks a schema, as far as that is quickly known."""
    return any(test(value, before) for test in _tests(_Same(schema)))


@memoized(4096)
def _tests(key: _Same) -> tuple[Rejects, ...]:
    """The quick tests of a schema."""
    schema = key.schema
    made = [make(schema[name]) for name, make in _MAKERS.items() if schema.get(name)]
    if not schema.get("type") and not schema.get("format"):  # which would have a say about bounds
        made += [_bound(schema[name], sign) for name, sign in _BOUNDS.items() if schema.get(name) is not None]
    return tuple(made)


def _required(names: list[str]) -> Rejects:
    wanted = frozenset(names)
    return lambda value, _: type(value) is dict and not wanted <= value.keys()


def _enum(allowed: list[Any]) -> Rejects:
    has = enum_values(allowed).has
    return lambda value, _: value is not None and not has(value)


def _pattern(pattern: str) -> Rejects:
    return lambda value, _: type(value) is str and not patterns.matches(value, pattern)


def _longest(most: int) -> Rejects:
    return lambda value, _: type(value) is str and len(value) > most


def _shortest(fewest: int) -> Rejects:
    return lambda value, _: type(value) is str and len(value) < fewest


def _bound(bound: float, sign: int) -> Rejects:
    """A minimum (sign 1) or maximum (-1). Integers are compared with what is left of a bound without its fraction."""
    whole, exact = sign * int(bound), sign * float(bound)

    def breaks(value: Any, _: Before | None) -> bool:
        if type(value) is int:
            return sign * value < whole
        return type(value) is float and sign * value < exact

    return breaks


def _properties(properties: dict[str, Schema]) -> Rejects:
    def breaks(value: Any, before: Before | None) -> bool:
        if type(value) is not dict:
            return False
        for name, schema in properties.items():
            if name in value:
                # what did not change may be wrong; a null may be none
                known = None if before is None or name in ("kind", "apiVersion") else before.field(name)
                if rejects(value[name], schema, known) and (known is None or not same(value[name], known.value)):
                    return True
        return False

    return breaks


_MAKERS: dict[str, Callable[[Any], Rejects]] = {
    "required": _required,
    "enum": _enum,
    "pattern": _pattern,
    "maxLength": _longest,
    "minLength": _shortest,
    "properties": _properties,
}
_BOUNDS = {"minimum": 1, "maximum": -1}
