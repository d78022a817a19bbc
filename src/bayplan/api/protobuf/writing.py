"""Structs as messages, written as gogo's generated code writes them.

What is no pointer in Go is always written, zero or not; pointers are left out when they are nil; lists and maps item by item, maps in order of their keys; a
struct that Go inlines in JSON is a message of its own. For each class a plan is made once: one function per field, fed by one `attrgetter`.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
import struct
import types
import typing
from collections.abc import Callable, Iterable
from operator import attrgetter, call
from typing import Any, Final

import msgspec

from bayplan.api.json.writing import escaped
from bayplan.api.protobuf.reading import (
    INT_OR_STRING,
    META,
    PROPS,
    PROPS_OR_ARRAY,
    PROPS_OR_BOOL,
    PROPS_OR_STRINGS,
    QUANTITY,
    RAW,
    RAW_EXTENSION,
)
from bayplan.api.protobuf.wire import BYTES, FIXED64, VARINT, ProtobufError, delimited, numbers, tag, varint
from bayplan.api.schema import Schema, definition_of, definitions
from bayplan.api.types import meta_v1
from bayplan.api.types.scalars import always_null
from bayplan.support.memory.memo import memoized
from bayplan.support.timestamps import parse_rfc3339

_Writer = Callable[[Any], bytes]
"""A value as a field: tag and all, b"" if it is left out."""


class _Message:
    """The message type of one struct class; the plan is made on first use, for classes may hold themselves."""

    __slots__ = ("_class", "_parts")

    def __init__(self, cls: type[Any]) -> None:
        self._class = cls
        self._parts: list[_Writer] | None = None

    def encode(self, obj: Any) -> bytes:
        """The message of an object, without tag and length."""
        parts = self._parts
        if parts is None:
            parts = self._parts = _parts(self._class)
        if len(parts) == 1:
            return parts[0](obj)
        return b"".join(map(call, parts, [obj] * len(parts)))


_messages: dict[type[Any], _Message] = {}


def _message(cls: type[Any]) -> _Message:
    found = _messages.get(cls)
    if found is None:
        found = _messages[cls] = _Message(cls)
    return found


def message_of(obj: Any) -> bytes:
    """The message of an object of a built-in kind. Raises ProtobufError for what has none."""
    if type(obj) not in _messages and not has_message(type(obj)):
        raise ProtobufError(f"{type(obj).__name__} has no protobuf form")
    return _message(type(obj)).encode(obj)


def has_message(cls: type[Any]) -> bool:
    """Whether objects of a class can be written as protobuf."""
    return definition_of(cls) in numbers()


def metadata_message(metadata: meta_v1.ObjectMeta) -> bytes:
    """The message of a PartialObjectMetadata."""
    return delimited(1, message_of(metadata))


def message_of_tree(api_version: str, tree: dict[str, Any]) -> bytes:
    """The message of a JSON tree that says what kind it is: Status, Scale, reviews, discovery. Raises ProtobufError."""
    group, _, version = api_version.rpartition("/")
    module = f"{group.split('.')[0] or 'core'}_{version or 'v1'}"
    kind = tree.get("kind", "")
    for name in ("meta_v1", module) if not group else (module,):
        found = importlib.util.find_spec(f"bayplan.api.types.{name}") and importlib.import_module(
            f"bayplan.api.types.{name}"
        )
        cls = getattr(found, kind, None)
        if cls is not None and has_message(cls):
            return message_of(msgspec.json.decode(msgspec.json.encode(tree), type=cls))
    raise ProtobufError(f"{kind} in {api_version} has no protobuf form")


def list_message(meta: meta_v1.ListMeta, items: Iterable[bytes]) -> bytes:
    """The message of a list, of the messages of its items."""
    parts = [delimited(1, message_of(meta))]
    for item in items:
        parts += (b"\x12", varint(len(item)), item)
    return b"".join(parts)


def _parts(cls: type[Any]) -> list[_Writer]:
    """Functions that each write a run of fields of an object of the class, in order of their numbers."""
    definition = definition_of(cls)
    schemas = definitions()[definition].get("properties", {})
    table = numbers().get(definition, {})
    rows = [
        (tuple(int(part) for part in table[field.encode_name][0].split(".")), field, schemas[field.encode_name])
        for field in msgspec.structs.fields(cls)
        if field.encode_name in table and field.encode_name in schemas
    ]
    return _grouped(sorted(rows, key=lambda row: row[0]))


_Row = tuple[tuple[int, ...], msgspec.structs.FieldInfo, Schema]


def _grouped(rows: list[_Row]) -> list[_Writer]:
    parts: list[_Writer] = []
    run: list[_Row] = []
    inlined: dict[int, list[_Row]] = {}
    for path, field, schema in rows:
        if len(path) == 1:
            run.append((path, field, schema))
            continue
        if path[0] not in inlined:
            if run:
                parts.append(_run(run))
            run = []
            inlined[path[0]] = []
            parts.append(_inline(path[0], inlined[path[0]]))
        inlined[path[0]].append((path[1:], field, schema))
    if run:
        parts.append(_run(run))
    return parts


def _run(rows: list[_Row]) -> _Writer:
    """Fields that stand one behind the other."""
    writers = [_field(path[0], field, schema) for path, field, schema in rows]
    names = [field.name for _, field, _ in rows]
    if len(names) == 1:
        name, writer = names[0], writers[0]
        return lambda obj: writer(getattr(obj, name))
    values = attrgetter(*names)
    return lambda obj: b"".join(map(call, writers, values(obj)))


def _inline(number: int, rows: list[_Row]) -> _Writer:
    """A struct that is inlined in JSON: a message of its own, always there."""
    parts: list[_Writer] = []

    def write(obj: Any) -> bytes:
        if not parts:
            parts.extend(_grouped(rows))
        return delimited(number, b"".join([part(obj) for part in parts]))

    return write


def _field(number: int, field: msgspec.structs.FieldInfo, schema: Schema) -> _Writer:
    hint, optional = _without_none(field.type)
    reference = schema.get("$ref", "")
    if field.default_factory is always_null and reference in (META + "Time", META + "MicroTime"):
        return _or_empty(number, _value(number, schema, hint))
    if schema.get("format") == "byte":
        return _or_nothing(_value(number, schema, hint))
    if hint is msgspec.Raw:
        return _or_no_json(_value(number, schema, hint))
    if optional or hint is Any:
        return _or_none(_value(number, schema, hint))
    return _value(number, schema, hint)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """A type without its None, and whether it had one."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    rest = tuple(one for one in typing.get_args(hint) if one is not type(None))
    return (rest[0] if len(rest) == 1 else hint), len(rest) < len(typing.get_args(hint))


def _or_none(write: _Writer) -> _Writer:
    return lambda value: b"" if value is None else write(value)


def _or_nothing(write: _Writer) -> _Writer:
    return lambda value: write(value) if value else b""


def _or_no_json(write: _Writer) -> _Writer:
    return lambda value: write(value) if bytes(value) not in (b"", b"null") else b""


def _or_empty(number: int, write: _Writer) -> _Writer:
    empty = delimited(number, b"")
    return lambda value: empty if value is None else write(value)


def _value(number: int, schema: Schema, hint: Any) -> _Writer:
    """How a value that is there is written."""
    reference = schema.get("$ref")
    if reference is not None:
        return _delimited_writer(number, _referenced(reference, hint))
    kind = schema.get("type")
    if kind == "array":
        return _repeated(_value(number, schema["items"], _argument(hint, 0)))
    if kind == "object" and "additionalProperties" in schema:
        return _map(number, schema["additionalProperties"], _argument(hint, 1))
    if kind == "string":
        return _delimited_writer(number, _base64 if schema.get("format") == "byte" else str.encode)
    if kind == "integer":
        return _integer(number)
    if kind == "boolean":
        false, true = tag(number, VARINT) + b"\x00", tag(number, VARINT) + b"\x01"
        return lambda value: true if value else false
    if kind == "number":
        head = tag(number, FIXED64)
        return lambda value: head + struct.pack("<d", value)
    return _delimited_writer(number, _json)


def _argument(hint: Any, index: int) -> Any:
    """The type of items of a list or of values of a map."""
    arguments = typing.get_args(_without_none(hint)[0])
    return arguments[index] if len(arguments) > index else Any


def _delimited_writer(number: int, encode: _Writer) -> _Writer:
    head = tag(number, BYTES)
    empty = head + b"\x00"

    def write(value: Any) -> bytes:
        data = encode(value)
        return b"%b%b%b" % (head, varint(len(data)), data) if data else empty

    return write


def _integer(number: int) -> _Writer:
    head = tag(number, VARINT)
    zero = head + b"\x00"
    return lambda value: head + varint(value) if value else zero


_MANY: Final = 1000
"""Items of a list in which those that say nothing are written once."""


def _repeated(write: _Writer) -> _Writer:
    def write_all(values: Any) -> bytes:
        if not values:
            return b""
        if len(values) < _MANY or not isinstance(values[0], msgspec.Struct):
            return b"".join(map(write, values))
        empty = type(values[0])()
        written = write(empty)
        return b"".join([written if value == empty else write(value) for value in values])

    return write_all


def _map(number: int, schema: Schema, hint: Any) -> _Writer:
    head = tag(number, BYTES)
    if schema.get("type") == "array":
        item = _delimited_writer(2, _repeated(_value(1, schema["items"], _argument(hint, 0))))
    else:
        item = _value(2, schema, hint)

    def pair(key: str, value: Any) -> bytes:
        data = delimited(1, key.encode()) + item(value)
        return b"%b%b%b" % (head, varint(len(data)), data)

    return lambda values: b"".join([pair(key, values[key]) for key in sorted(values)]) if values else b""


def _referenced(reference: str, hint: Any) -> _Writer:
    if reference in RAW:
        return _raw_extension if reference == RAW_EXTENSION else _json
    special = _SPECIAL.get(reference)
    if special is not None:
        return special
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _message(hint).encode
    return lambda value: b""  # an object without fields


def _base64(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error as error:
        raise ProtobufError(f"no base64: {error}") from error


def _json(value: Any) -> bytes:
    return delimited(1, msgspec.json.encode(value))


def _raw_extension(value: Any) -> bytes:
    return delimited(1, escaped(msgspec.json.encode(value)))


@memoized(4096)
def _quantity(value: str | int | float) -> bytes:
    return delimited(1, str(value).encode())


@memoized(1024)
def _time(value: str) -> bytes:
    return b"\x08%b\x10\x00" % varint(int(parse_rfc3339(value) // 1))


@memoized(1024)
def _micro_time(value: str) -> bytes:
    whole, _, rest = value.partition(".")
    micros = int((rest.rstrip("Zz") + "000000")[:6]) if rest else 0
    return b"\x08%b\x10%b" % (varint(int(parse_rfc3339(f"{whole.rstrip('Zz')}Z"))), varint(micros * 1000))


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + delimited(3, value.encode())
    return b"\x08\x00\x10%b\x1a\x00" % varint(value)


def _props(value: Any) -> bytes:
    """The message of a schema that is still a tree."""
    from bayplan.api.types.apiextensions_v1 import JSONSchemaProps  # wanted by definitions of custom resources only

    return _message(JSONSchemaProps).encode(msgspec.convert(value, JSONSchemaProps))


def _props_or_array(value: Any) -> bytes:
    if isinstance(value, dict):
        return delimited(1, _props(value))
    return b"".join([delimited(2, _props(one)) for one in value])


def _props_or_bool(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"\x08\x01" + delimited(2, _props(value))
    return b"\x08\x01" if value else b"\x08\x00"


def _props_or_strings(value: Any) -> bytes:
    if isinstance(value, dict):
        return delimited(1, _props(value))
    return b"".join([delimited(2, one.encode()) for one in value])


_SPECIAL: dict[str, _Writer] = {
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    META + "Time": _time,
    META + "MicroTime": _micro_time,
    PROPS: lambda value: _props(value) if isinstance(value, dict) else _message(type(value)).encode(value),
    PROPS_OR_ARRAY: _props_or_array,
    PROPS_OR_BOOL: _props_or_bool,
    PROPS_OR_STRINGS: _props_or_strings,
}
