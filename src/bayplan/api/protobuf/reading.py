"""Messages as JSON trees: types from `types/schema.json.gz`, numbers from `types/protobuf.json.gz`. Unknown fields are passed over."""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.protobuf.wire import ProtobufError, fields, numbers, read_varint, signed, text
from bayplan.api.schema import Schema, definitions
from bayplan.support.timestamps import rfc3339, rfc3339_micro

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
PROPS = _CRD + "JSONSchemaProps"
PROPS_OR_ARRAY = _CRD + "JSONSchemaPropsOrArray"
PROPS_OR_BOOL = _CRD + "JSONSchemaPropsOrBool"
PROPS_OR_STRINGS = _CRD + "JSONSchemaPropsOrStringArray"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
RAW = frozenset((META + "FieldsV1", RAW_EXTENSION, _CRD + "JSON"))
"""Messages whose field 1 is JSON."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class _Message:
    """Fields by number; `inlined` are messages whose fields belong to this one."""

    fields: dict[int, _Field]
    inlined: dict[int, _Message]


@functools.cache
def _message(definition: str) -> _Message:
    properties = definitions()[definition].get("properties", {})
    rows = [
        (number.split("."), _Field(name, properties[name]))
        for name, (number, _) in numbers().get(definition, {}).items()
        if name in properties
    ]
    return _grouped(rows)


def _grouped(rows: list[tuple[list[str], _Field]]) -> _Message:
    own = {int(path[0]): field for path, field in rows if len(path) == 1}
    heads = dict.fromkeys(path[0] for path, _ in rows if len(path) > 1)
    inlined = {
        int(head): _grouped([(path[1:], field) for path, field in rows if path[0] == head and len(path) > 1])
        for head in heads
    }
    return _Message(own, inlined)


def to_tree(definition: str, message: bytes) -> dict[str, Any]:
    """The JSON tree of a message of a definition. Raises ProtobufError."""
    try:
        tree: dict[str, Any] = {}
        _read(_message(definition), message, tree)
        return tree
    except (struct.error, msgspec.ValidationError) as error:
        raise ProtobufError(str(error)) from error
    except RecursionError:
        raise ProtobufError("messages are nested too deeply") from None


def _read(message: _Message, data: bytes, tree: dict[str, Any]) -> None:
    for number, value in fields(data):
        field = message.fields.get(number)
        if field is None:
            inner = message.inlined.get(number)
            if inner is not None:
                _read(inner, _bytes(value), tree)
            continue
        kind = field.schema.get("type")
        if kind == "array":
            tree.setdefault(field.name, []).extend(_items(field.schema["items"], value))
        elif kind == "object" and "additionalProperties" in field.schema:
            key, item = _entry(field.schema["additionalProperties"], value)
            tree.setdefault(field.name, {})[key] = item
        else:
            tree[field.name] = _value(field.schema, value)


def _items(schema: Schema, value: int | bytes) -> list[Any]:
    """What one field of a list adds to it: an item, or several numbers in one piece."""
    if schema.get("type") != "integer" or isinstance(value, int):
        return [_value(schema, value)]
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(signed(number))
    return found


def _entry(schema: Schema, value: int | bytes) -> tuple[str, Any]:
    """One pair of a map."""
    key, item = "", _zero(schema)
    for number, part in fields(_bytes(value)):
        if number == 1:
            key = text(part)
        elif number == 2:
            item = _value(schema, part)
    return key, item


def _zero(schema: Schema) -> Any:
    reference = schema.get("$ref")
    if reference == QUANTITY:
        return "0"
    return {"string": "", "integer": 0, "boolean": False, "array": []}.get(schema.get("type", ""), {})


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("a number stands where a message is expected")
    return value


def _value(schema: Schema, value: int | bytes) -> Any:
    reference = schema.get("$ref")
    if reference is not None:
        return _referenced(reference, _bytes(value))
    kind = schema.get("type")
    if kind == "string":
        return base64.b64encode(_bytes(value)).decode() if schema.get("format") == "byte" else text(value)
    if kind == "boolean":
        return bool(value)
    if kind == "integer":
        return signed(value) if isinstance(value, int) else int.from_bytes(value, "little", signed=True)
    if kind == "number":
        return struct.unpack("<d" if len(_bytes(value)) == 8 else "<f", _bytes(value))[0]
    if kind == "array":
        return [one for number, item in fields(_bytes(value)) if number == 1 for one in _items(schema["items"], item)]
    return _raw(_bytes(value))


def _referenced(reference: str, data: bytes) -> Any:
    if reference in RAW:
        return _raw(data)
    special = _SPECIAL.get(reference)
    return to_tree(reference, data) if special is None else special(data)


def _quantity(data: bytes) -> str:
    return next((text(value) for number, value in fields(data) if number == 1), "0")


def _moment(data: bytes) -> tuple[int, int] | None:
    """Seconds and nanoseconds; None for the zero time."""
    parts = {number: signed(value) for number, value in fields(data) if isinstance(value, int)}
    if not parts:
        return None
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not (-62_135_596_800 <= seconds < 253_402_300_800 and 0 <= nanos < 1_000_000_000):
        raise ProtobufError(f"{seconds} seconds and {nanos} nanoseconds are no time")
    return seconds, nanos


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else rfc3339(moment[0])


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    if moment is None:
        return None
    return f"{rfc3339_micro(moment[0])[:-7]}{moment[1] // 1000:06d}Z"


def _int_or_string(data: bytes) -> int | str:
    found = dict(fields(data))
    if found.get(1) == 1:
        return text(found.get(3, b""))
    number = found.get(2, 0)
    return signed(number) if isinstance(number, int) else 0


def _props(data: int | bytes) -> Any:
    """A schema that stays a tree: without the zeros that only protobuf writes."""
    from bayplan.api.types.apiextensions_v1 import JSONSchemaProps  # wanted by definitions of custom resources only

    return msgspec.to_builtins(msgspec.convert(to_tree(PROPS, _bytes(data)), JSONSchemaProps))


def _props_or_array(data: bytes) -> Any:
    many = [_props(value) for number, value in fields(data) if number == 2]
    return next((_props(value) for number, value in fields(data) if number == 1), many)


def _props_or_bool(data: bytes) -> Any:
    found = dict(fields(data))
    return _props(found[2]) if 2 in found else bool(found.get(1, 0))


def _props_or_strings(data: bytes) -> Any:
    names = [text(value) for number, value in fields(data) if number == 2]
    return next((_props(value) for number, value in fields(data) if number == 1), names)


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    META + "Time": _time,
    META + "MicroTime": _micro_time,
    PROPS_OR_ARRAY: _props_or_array,
    PROPS_OR_BOOL: _props_or_bool,
    PROPS_OR_STRINGS: _props_or_strings,
}


def _raw(data: bytes) -> Any:
    """A message that holds JSON in its field 1."""
    found = next((_bytes(value) for number, value in fields(data) if number == 1), b"")
    try:
        check_depth(found)
        return msgspec.json.decode(found) if found else None
    except (msgspec.DecodeError, UnicodeDecodeError, DepthError) as error:
        raise ProtobufError(str(error)) from error
