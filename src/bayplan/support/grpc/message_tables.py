"""Messages of gRPC services made at run time from a table of their fields, so that no generated code is needed.

A field is written as `name: type`, in the order of their numbers from 1: `string`, `bytes`, `bool`, `int32`, `int64`, `uint64`, the name of a message, `[type]` for
repeated ones, `{string}` and `{bytes}` for maps from strings. Numbers that a message leaves out are `-`. `type of NAME` puts a field into the oneof NAME. Types
with dots are those of protobuf itself, such as `google.protobuf.BoolValue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
except ImportError as error:
    raise ImportError(
        f"gRPC needs packages that are not installed ({error}): pip install 'bayplan[kubelet]', or 'bayplan[csi]' for storage alone"
    ) from error

_FIELD: Any = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
}


def message_classes(package: str, messages: Mapping[str, str]) -> dict[str, Any]:
    """Name -> class of each message. messages: name -> fields, with commas; each table has a pool of its own, so that packages may have equal names."""
    file: Any = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(filter(None, (each.strip() for each in fields.split(","))), start=1):
            if field != "-":
                field_name, _, kind = field.partition(": ")
                _add(message, package, number, field_name, kind)
    pool: Any = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        file.dependency.append(known.DESCRIPTOR.name)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add(message: Any, package: str, number: int, name: str, kind: str) -> None:
    kind, _, oneof = kind.partition(" of ")
    label = _FIELD.LABEL_REPEATED if kind[0] in "[{" else _FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind[0] == "{":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for place, (part, scalar) in enumerate((("key", "string"), ("value", kind.strip("{}"))), start=1):
            entry.field.add(name=part, number=place, label=_FIELD.LABEL_OPTIONAL, type=_SCALARS[scalar])
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{message.name}.{entry.name}"
        return
    kind = kind.strip("[]")
    if oneof:
        field.oneof_index = _oneof(message, oneof)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"


def _oneof(message: Any, name: str) -> int:
    """The index of a oneof, which is added when it is first seen."""
    names = [each.name for each in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        names.append(name)
    return names.index(name)
