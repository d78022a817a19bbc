"""Values that a schema accepts, as far as that is quickly known: most are. For all others `values` works out what is wrong, if anything is.

A schema becomes a tree of predicates, each with nothing in it but what its node says. A predicate that is True is sure; one that is False is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.api.custom_resources import formats, patterns
from bayplan.api.custom_resources.enums import enum_values
from bayplan.api.schema import Schema

Accepts = Callable[[Any], bool]

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_OF_VALUES: Final = frozenset(
    (
        "type", "format", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items",
        "minItems", "maxItems", "uniqueItems", "properties", "additionalProperties", "required", "minProperties", "maxProperties", "anyOf", "oneOf", "allOf",
        "not",
    )
)  # fmt: skip
"""What of a schema says anything about values."""
_INTEGERS: Final = {"": 1 << 63, "int64": 1 << 63, "int32": 1 << 31}
"""Formats of integers, with the first that is too large."""
_EITHER: Final = ([{"type": "integer"}, {"type": "string"}], [{"type": "string"}, {"type": "integer"}])
"""What goes with texts that may be integers, and says nothing more."""


def acceptor(schema: Schema) -> Accepts:
    """What accepts the values that a schema accepts."""
    made = _MAKERS.get(schema.get("type") or "", _nothing_of)(schema)
    if schema.get("nullable") and not schema.get("enum"):
        return lambda value: value is None or made(value)
    return made


def _is_more(schema: Schema, *known: str) -> bool:
    """Whether a schema says more about values than what is known by name."""
    return any(schema[name] not in (None, [], {}, "", False) for name in _OF_VALUES - {*known} if name in schema)


def _untyped(schema: Schema) -> Accepts:
    """Of a schema without a type: anything goes if it says nothing else; texts and integers if it says so."""
    if schema.get(_INT_OR_STRING):
        if _is_more(schema, "anyOf") or (schema.get("anyOf") and schema["anyOf"] not in _EITHER):
            return _nothing
        return lambda value: type(value) is str or type(value) is int
    return _nothing if _is_more(schema) else lambda value: value is not None


def _nothing(value: Any) -> bool:
    return False


def _nothing_of(schema: Schema) -> Accepts:
    return _nothing


def _string(schema: Schema) -> Accepts:
    if schema.get(_INT_OR_STRING) or _is_more(schema, "type", "format", "enum", "pattern", "minLength", "maxLength"):
        return _nothing
    tests: list[Accepts] = []
    shortest, longest, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    form, allowed = schema.get("format"), schema.get("enum")
    if shortest is not None or longest is not None:
        least, most = shortest or 0, longest if longest is not None else 1 << 62
        tests.append(lambda value: least <= len(value) <= most)
    if allowed:
        tests.append(enum_values(allowed).has)
    if form and formats.is_known(form):
        tests.append(lambda value: formats.has_format(value, form))
    if pattern:
        tests.append(lambda value: patterns.matches(value, pattern))
    if not tests:
        return lambda value: type(value) is str
    if len(tests) == 1:
        (test,) = tests
        return lambda value: type(value) is str and test(value)
    return lambda value: type(value) is str and all(test(value) for test in tests)


def _integer(schema: Schema) -> Accepts:
    limit = _INTEGERS.get(schema.get("format") or "")
    low, high = schema.get("minimum"), schema.get("maximum")
    simple = all(bound is None or type(bound) is int for bound in (low, high))
    if (
        schema.get(_INT_OR_STRING)
        or limit is None
        or not simple
        or _is_more(schema, "type", "format", "minimum", "maximum")
    ):
        return _nothing
    if any(bound is not None and not -limit <= bound < limit for bound in (low, high)):
        return _nothing
    least, most = (
        max(-limit, low if low is not None else -limit),
        min(limit - 1, high if high is not None else limit - 1),
    )
    return lambda value: type(value) is int and least <= value <= most


def _number(schema: Schema) -> Accepts:
    if (
        schema.get(_INT_OR_STRING)
        or schema.get("format") not in (None, "", "double")
        or _is_more(schema, "type", "format")
    ):
        return _nothing
    return lambda value: type(value) is float or type(value) is int


def _boolean(schema: Schema) -> Accepts:
    return _nothing if _is_more(schema, "type") else lambda value: type(value) is bool


def _array(schema: Schema) -> Accepts:
    if _is_more(schema, "type", "items", "minItems", "maxItems"):
        return _nothing
    items = schema.get("items")
    accepts = acceptor(items) if isinstance(items, dict) else None
    least, most = schema.get("minItems") or 0, schema.get("maxItems")
    if most is None:
        most = 1 << 62

    def accepted(value: Any) -> bool:
        if type(value) is not list or not least <= len(value) <= most:
            return False
        if accepts is not None:
            for item in value:
                if not accepts(item):
                    return False
        return True

    return accepted


def _object(schema: Schema) -> Accepts:
    known = ("type", "properties", "additionalProperties", "required", "minProperties", "maxProperties")
    if schema.get("minProperties") or schema.get("maxProperties") is not None or _is_more(schema, *known):
        return _nothing
    properties, made = schema.get("properties") or {}, dict[str, Accepts]()
    additional = schema.get("additionalProperties")
    others = acceptor(additional) if isinstance(additional, dict) else _nothing if additional is False else _anything
    wanted = frozenset(schema.get("required") or ())

    def accepted(value: Any) -> bool:
        if type(value) is not dict or not wanted <= value.keys():
            return False
        for name, item in value.items():
            accepts = made.get(name)
            if accepts is None:  # of large schemas, few fields are in use
                if name in properties:
                    accepts = made[name] = acceptor(properties[name])
                else:
                    accepts = others
            if not accepts(item):
                return False
        return True

    return accepted


def _anything(value: Any) -> bool:
    return True


_MAKERS: Final[dict[str, Callable[[Schema], Accepts]]] = {
    "": _untyped,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}
