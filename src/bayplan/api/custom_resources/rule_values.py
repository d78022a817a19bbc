"""Custom resources as the rules of their schemas see them: with the types and formats that the schema says, converted when they are looked at.

Fields that the schema does not name cannot be seen, but count when objects are compared. Source: `k8s.io/apiserver/pkg/cel/common/valuesunstructured.go`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from bayplan.api.cel.moments import SECOND, parse_duration, parse_timestamp
from bayplan.api.cel.numbers import INT_MAX
from bayplan.api.cel.schema_types import escaped, unescaped, with_names
from bayplan.api.cel.values import (
    ABSENT,
    Duration,
    EvaluationError,
    ListValue,
    Map,
    Opaque,
    Timestamp,
    equals,
    is_list,
    no_such_overload,
)
from bayplan.api.custom_resources.formats import worded_duration
from bayplan.api.custom_resources.go_values import type_name
from bayplan.api.schema import Schema
from bayplan.api.times import base64_problem

_DAY = 86_400 * SECOND
_EPOCH = date(1970, 1, 1)
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?", re.ASCII)


def typed(value: Any, schema: Schema) -> Any:
    """A value as its schema says. Raises EvaluationError for one that does not fit."""
    if value is None:
        if schema.get("nullable"):
            return None
        raise EvaluationError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        if type(value) in (int, str):
            return value
        raise EvaluationError("invalid data, expected XIntOrString value to be either a string or integer")
    kind = schema.get("type", "")
    converter = _CONVERTERS.get(kind)
    if converter is not None:
        return converter(value, schema)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return Preserved(value)
    expected = (
        "invalid type, expected object, array, number, integer, boolean or string, or no type with "
        "x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got"
    )
    raise EvaluationError(f"{expected} {kind}")


def whole_object(schema: Schema) -> Schema:
    """The schema of a whole object as rules see it, with its names."""
    return {**schema, "properties": with_names(schema.get("properties", {}))}


class Preserved(Opaque):
    """What a schema says nothing about; it can only be compared."""

    __slots__ = ("content",)
    type_name = "unknown"

    def __init__(self, content: Any) -> None:
        self.content = content

    def equals(self, other: Any) -> bool:
        """Whether another value is the same JSON."""
        content = other.content if isinstance(other, Preserved) else other
        return same_json(self.content, content)


def same_json(one: Any, other: Any) -> bool:
    """Whether two trees are the same; empty lists and objects are the same as none, 1 is not 1.0."""
    if isinstance(one, dict) or isinstance(other, dict):
        if not one and not other and (one is None or other is None):
            return True
        both = isinstance(one, dict) and isinstance(other, dict)
        return both and one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) or isinstance(other, list):
        if not one and not other and (one is None or other is None):
            return True
        both = isinstance(one, list) and isinstance(other, list)
        return both and len(one) == len(other) and all(map(same_json, one, other))
    return type(one) is type(other) and bool(one == other)


class ObjectValue(Map):
    """An object: of a schema with properties, by the names that expressions escape; else a map."""

    __slots__ = ("_additional", "_fields", "_properties")

    def __init__(self, fields: dict[str, Any], schema: Schema) -> None:
        self._fields = fields
        if schema.get("x-kubernetes-embedded-resource"):
            schema = whole_object(schema)
        self._properties: dict[str, Schema] | None = schema.get("properties")
        additional = schema.get("additionalProperties")
        self._additional = additional if isinstance(additional, dict) and self._properties is None else None

    def __len__(self) -> int:
        return len(self._fields)

    def _schema_of(self, name: str) -> Schema | None:
        return self._additional if self._properties is None else self._properties.get(name)

    def find(self, key: Any) -> Any:
        """A field; ABSENT if it is not there, is null, or is none that the schema names. Raises EvaluationError for keys that are no text."""
        if type(key) is not str:
            raise no_such_overload()
        name = key if self._properties is None else unescaped(key)
        if name is None or name not in self._fields:
            return ABSENT
        value = self._fields[name]
        if value is None and self._properties is not None:
            return ABSENT
        schema = self._schema_of(name)
        return ABSENT if schema is None else typed(value, schema)

    def keys(self) -> Iterable[str]:
        """The fields that the schema names, as expressions write them."""
        known = [name for name in self._fields if self._schema_of(name) is not None]
        return known if self._properties is None else [escaped(name) or name for name in known]

    def members(self) -> Iterable[Any]:
        """See Map."""
        return self._fields.values()

    def equals(self, other: Any) -> bool:
        """Whether another object is the same. Raises EvaluationError for what is no object."""
        if not isinstance(other, Map):
            raise no_such_overload()
        if len(self) != len(other):
            return False
        return all(self._same_field(name, other) for name in self._fields)

    def _same_field(self, name: str, other: Map) -> bool:
        if self._schema_of(name) is not None:
            mine, its = self.find(name), other.find(name)
            if mine is ABSENT or its is ABSENT:
                return mine is its
            return equals(mine, its)
        if not isinstance(other, ObjectValue):
            raise no_such_overload()
        return name not in other._fields or same_json(self._fields[name], other._fields[name])


class ItemsValue(ListValue):
    """A list whose order counts."""

    __slots__ = ("items", "schema")

    def __init__(self, items: list[Any], schema: Schema) -> None:
        self.items = items
        self.schema = schema
        """Of the list."""

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return typed(self.items[index], self.schema["items"])

    def members(self) -> Iterable[Any]:
        """See ListValue."""
        return self.items

    def add(self, other: Any) -> Any:
        """See ListValue; lists of one schema are put together as they are kept."""
        if type(other) is ItemsValue and other.schema is self.schema:
            return ItemsValue([*self.items, *other.items], self.schema)
        return super().add(other)


class SetValue(ItemsValue):
    """A set: order does not count, and what is added is added once."""

    __slots__ = ()

    def equals(self, other: Any) -> bool:
        """Whether another list has the same items. Raises EvaluationError for what is no list."""
        if not is_list(other):
            raise no_such_overload()
        mine = {_scalar_key(item) for item in self}
        return len(self) == len(other) and all(_scalar_key(item) in mine for item in other)

    def add(self, other: Any) -> Any:
        """The items of this set, and those of another list that are new."""
        found = {_scalar_key(item): item for item in self}
        for item in other:
            found.setdefault(_scalar_key(item), item)
        return Merged(list(found.values()), self)


class KeyedValue(ItemsValue):
    """A list of objects under keys: order does not count, and what is added replaces what has the same keys."""

    __slots__ = ()

    def key(self, item: Any) -> tuple[Any, ...]:
        """The keys of an item."""
        names = self.schema.get("x-kubernetes-list-map-keys", ())
        found = [item.find(escaped(name) or name) if isinstance(item, Map) else ABSENT for name in names]
        return tuple(_scalar_key(one) for one in found)

    def equals(self, other: Any) -> bool:
        """Whether another list has the same objects. Raises EvaluationError for what is no list."""
        if not is_list(other):
            raise no_such_overload()
        if len(self) != len(other):
            return False
        mine = {self.key(item): item for item in self}
        return all((held := mine.get(self.key(item), ABSENT)) is not ABSENT and equals(held, item) for item in other)

    def add(self, other: Any) -> Any:
        """The objects of this list, those of another list in their place, and those that are new."""
        found = {self.key(item): item for item in self}
        for item in other:
            found[self.key(item)] = item
        return Merged(list(found.values()), self)


class Merged(ListValue):
    """What came of adding to a list whose order does not count."""

    __slots__ = ("_items", "_like")

    def __init__(self, items: list[Any], like: SetValue | KeyedValue) -> None:
        self._items = items
        self._like = like

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        return self._items[index]

    def _key(self, item: Any) -> Any:
        return self._like.key(item) if isinstance(self._like, KeyedValue) else _scalar_key(item)

    def equals(self, other: Any) -> bool:
        """Whether another list has the same items. Raises EvaluationError for what is no list."""
        if not is_list(other):
            raise no_such_overload()
        mine = {self._key(item): item for item in self._items}
        return len(self) == len(other) and all(
            (held := mine.get(self._key(item), ABSENT)) is not ABSENT and equals(held, item) for item in other
        )

    def add(self, other: Any) -> Any:
        """The items of this list, and those of another one as in the list that it came of."""
        found = {self._key(item): item for item in self._items}
        for item in other:
            if isinstance(self._like, KeyedValue):
                found[self._key(item)] = item
            else:
                found.setdefault(self._key(item), item)
        return Merged(list(found.values()), self._like)


def _scalar_key(value: Any) -> Any:
    """A scalar that can be told from others of other types."""
    if isinstance(value, Map | ListValue | list):
        return (type(value), id(value))
    return (type(value), value)


def _object(value: Any, schema: Schema) -> ObjectValue:
    if not isinstance(value, dict):
        raise EvaluationError("invalid data, expected a map for the provided schema with type=object")
    return ObjectValue(value, schema)


def _array(value: Any, schema: Schema) -> ItemsValue:
    if not isinstance(value, list):
        raise EvaluationError("invalid data, expected an array for the provided schema with type=array")
    if not isinstance(schema.get("items"), dict):
        raise EvaluationError("invalid array type, expected Items with a non-empty Schema")
    kind = {"set": SetValue, "map": KeyedValue}.get(schema.get("x-kubernetes-list-type", ""), ItemsValue)
    return kind(value, schema)


def _misfit(wanted: str, value: Any) -> EvaluationError:
    return EvaluationError(f"invalid data, expected {wanted}, got {type_name(value)}")


def _string(value: Any, schema: Schema) -> Any:
    if not isinstance(value, str):
        raise _misfit("string", value)
    reader = _FORMATS.get(schema.get("format") or "")
    return value if reader is None else reader(value)


def _number(value: Any, schema: Schema) -> float:
    if type(value) not in (int, float):
        raise _misfit("float", value)
    return float(value)


def _integer(value: Any, schema: Schema) -> int:
    if type(value) is not int:
        raise _misfit("int", value)
    return value


def _boolean(value: Any, schema: Schema) -> bool:
    if type(value) is not bool:
        raise _misfit("bool", value)
    return value


_CONVERTERS: dict[str, Callable[[Any, Schema], Any]] = {
    "array": _array,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "object": _object,
    "string": _string,
}


def _duration(text: str) -> Duration:
    found = parse_duration(text)
    if found is None:
        found = worded_duration(text)
    if found is None or found > INT_MAX:
        raise EvaluationError(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration(found)


def _date(text: str) -> Timestamp:
    try:
        if len(text) != len("2006-01-02"):
            raise ValueError(f"{text} is no date")
        return Timestamp((date.fromisoformat(text) - _EPOCH).days * _DAY)
    except ValueError as error:
        what = f'parsing time "{text}" as "2006-01-02": cannot parse "{text}" as "2006"'
        raise EvaluationError(f"Invalid date formatted string {text}: {what}") from error


def _date_time(text: str) -> Timestamp:
    if not text:
        return Timestamp(0)
    local = _LOCAL.fullmatch(text) is not None
    found = parse_timestamp(f"{text}Z" if local else text)
    if found is None:
        what = f'parsing time "{text}" as "2006-01-02T15:04:05": cannot parse "{text}" as "2006"'
        raise EvaluationError(f"Invalid date-time formatted string {text}: {what}")
    return found


def _byte(text: str) -> bytes:
    if problem := base64_problem(text):
        raise EvaluationError(f"Invalid byte formatted string {text}: {problem}")
    return base64.b64decode(text)


_FORMATS: dict[str, Callable[[str], Any]] = {
    "byte": _byte,
    "date": _date,
    "date-time": _date_time,
    "duration": _duration,
}
