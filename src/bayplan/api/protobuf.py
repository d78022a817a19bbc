"""Kubernetes' protobuf bodies as JSON trees, by a table of field numbers instead of code per kind.

`types/protobuf.json` says for each definition which number and wire type a field has; `types/schema.json` says of which type it is. A field of a struct that Go
inlines in JSON but not in protobuf has two numbers, `2.1`: field 1 of the message in field 2. Source of the envelope: apimachinery's protobuf serializer.

    k8s\\0 | Unknown{ typeMeta{apiVersion, kind}, raw, contentEncoding, contentType } with raw = the message of the kind
"""

from __future__ import annotations

import base64
import functools
import importlib.resources
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.schema import Schema, definitions
from bayplan.support.timestamps import rfc3339, rfc3339_micro

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_RAW = {
    _META + "FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
}


class ProtobufError(ValueError):
    """The bytes are no message of the wanted kind."""


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
def _numbers() -> dict[str, dict[str, tuple[str, str]]]:
    data = importlib.resources.files("bayplan.api.types").joinpath("protobuf.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, tuple[str, str]]])


@functools.cache
def _message(definition: str) -> _Message:
    properties = definitions()[definition].get("properties", {})
    rows = [
        (number.split("."), _Field(name, properties[name]))
        for name, (number, _) in _numbers().get(definition, {}).items()
        if name in properties
    ]
    return _grouped(rows)


def _grouped(rows: list[tuple[list[str], _Field]]) -> _Message:
    fields = {int(path[0]): field for path, field in rows if len(path) == 1}
    heads = dict.fromkeys(path[0] for path, _ in rows if len(path) > 1)
    inlined = {
        int(head): _grouped([(path[1:], field) for path, field in rows if path[0] == head and len(path) > 1])
        for head in heads
    }
    return _Message(fields, inlined)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message: numbers as int, everything else as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ProtobufError(f"wire type {wire} is not used by Kubernetes")
        if at + size > len(data):
            raise ProtobufError("a field is cut off")
        yield tag >> 3, data[at : at + size]
        at += size


def unwrap(body: bytes) -> tuple[str, str, bytes]:
    """apiVersion, kind and message of an enveloped body. Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError(f"provided data does not appear to be a protobuf message, expected prefix {list(MAGIC)}")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(body[len(MAGIC) :]):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            meta = {key: item.decode() for key, item in _fields(value) if isinstance(item, bytes)}
            api_version, kind = meta.get(1, ""), meta.get(2, "")
        elif number == 2:
            raw = value
    return api_version, kind, raw


def to_tree(definition: str, message: bytes) -> dict[str, Any]:
    """The JSON tree of a message of a definition. Raises ProtobufError."""
    try:
        tree: dict[str, Any] = {}
        _read(_message(definition), message, tree)
        return tree
    except (UnicodeDecodeError, struct.error) as error:
        raise ProtobufError(str(error)) from error


def _read(message: _Message, data: bytes, tree: dict[str, Any]) -> None:
    for number, value in _fields(data):
        field = message.fields.get(number)
        if field is None:
            inner = message.inlined.get(number)
            if inner is not None and isinstance(value, bytes):
                _read(inner, value, tree)
            continue
        kind = field.schema.get("type")
        if kind == "array":
            tree.setdefault(field.name, []).append(_value(field.schema["items"], value))
        elif kind == "object" and "additionalProperties" in field.schema:
            key, item = _entry(field.schema["additionalProperties"], value)
            tree.setdefault(field.name, {})[key] = item
        else:
            tree[field.name] = _value(field.schema, value)


def _entry(schema: Schema, value: int | bytes) -> tuple[str, Any]:
    """One pair of a map."""
    key, item = "", _zero(schema)
    for number, part in _fields(_bytes(value)):
        if number == 1:
            key = _bytes(part).decode()
        else:
            item = _value(schema, part)
    return key, item


def _zero(schema: Schema) -> Any:
    reference = schema.get("$ref")
    if reference == _QUANTITY:
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
        data = _bytes(value)
        return base64.b64encode(data).decode() if schema.get("format") == "byte" else data.decode()
    if kind == "boolean":
        return bool(value)
    if kind == "integer":
        return _signed(value) if isinstance(value, int) else int.from_bytes(value, "little", signed=True)
    if kind == "number":
        return struct.unpack("<d" if len(_bytes(value)) == 8 else "<f", _bytes(value))[0]
    if kind == "array":
        return [_value(schema["items"], item) for number, item in _fields(_bytes(value)) if number == 1]
    return _raw(_bytes(value))


def _referenced(reference: str, data: bytes) -> Any:
    if reference == _QUANTITY:
        return next((_bytes(value).decode() for number, value in _fields(data) if number == 1), "0")
    if reference in (_META + "Time", _META + "MicroTime"):
        parts = {number: _signed(value) for number, value in _fields(data) if isinstance(value, int)}
        seconds = parts.get(1, 0) + parts.get(2, 0) / 1e9
        if not parts:
            return None
        return rfc3339(parts.get(1, 0)) if reference.endswith(".Time") else rfc3339_micro(seconds)
    if reference == _INT_OR_STRING:
        found = dict(_fields(data))
        return _bytes(found.get(3, b"")).decode() if found.get(1) == 1 else _signed_int(found.get(2, 0))
    if reference in _RAW:
        return _raw(data)
    return to_tree(reference, data)


def _signed_int(value: int | bytes) -> int:
    return _signed(value) if isinstance(value, int) else 0


def _raw(data: bytes) -> Any:
    """A message that holds JSON in its field 1."""
    text = next((_bytes(value) for number, value in _fields(data) if number == 1), b"")
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError as error:
        raise ProtobufError(str(error)) from error
