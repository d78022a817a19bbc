"""Message classes of Google's protobuf library, made from the table of field numbers: an opinion that is independent of the code under test."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bayplan.api.schema import definitions, resolve

_STRING, _BYTES, _INT64, _BOOL, _MESSAGE, _DOUBLE = 9, 12, 3, 8, 11, 1
_OPTIONAL, _REPEATED = 1, 3
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_EITHER: dict[str, list[tuple[str, int, Any, bool]]] = {
    _CRD + "JSONSchemaPropsOrArray": [
        ("schema", 1, _CRD + "JSONSchemaProps", False),
        ("jsonSchemas", 2, _CRD + "JSONSchemaProps", True),
    ],
    _CRD + "JSONSchemaPropsOrBool": [("allows", 1, _BOOL, False), ("schema", 2, _CRD + "JSONSchemaProps", False)],
    _CRD + "JSONSchemaPropsOrStringArray": [
        ("schema", 1, _CRD + "JSONSchemaProps", False),
        ("property", 2, _STRING, True),
    ],
}
_SPECIAL: dict[str, list[tuple[str, int, int]]] = {
    _QUANTITY: [("string", 1, _STRING)],
    _META + "Time": [("seconds", 1, _INT64), ("nanos", 2, _INT64)],
    _META + "MicroTime": [("seconds", 1, _INT64), ("nanos", 2, _INT64)],
    _META + "FieldsV1": [("Raw", 1, _BYTES)],
    "io.k8s.apimachinery.pkg.runtime.RawExtension": [("raw", 1, _BYTES)],
    _CRD + "JSON": [("raw", 1, _BYTES)],
    _CRD + "CustomResourceSubresourceStatus": [],
    _INT_OR_STRING: [("type", 1, _INT64), ("intVal", 2, _INT64), ("strVal", 3, _STRING)],
}


def _numbers() -> dict[str, dict[str, tuple[str, str]]]:
    data = resources.files("bayplan.api.types").joinpath("protobuf.json.gz").read_bytes()
    found: dict[str, dict[str, tuple[str, str]]] = json.loads(gzip.decompress(data))
    return found


class Messages:
    """Message classes made from the table of field numbers; what Go inlines from field 1 is a message in a field `inline_1`."""

    def __init__(self, roots: list[str]) -> None:
        self.file = descriptor_pb2.FileDescriptorProto(name="k8s.proto", package="k", syntax="proto2")
        self.done: set[str] = set()
        self.numbers = _numbers()
        for root in roots:
            self._add(root)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self.file)
        names = {root: pool.FindMessageTypeByName(f"k.{_name(root)}") for root in roots}
        self.classes: dict[str, Any] = {root: message_factory.GetMessageClass(found) for root, found in names.items()}

    def _add(self, definition: str) -> str:
        name = _name(definition)
        if definition in self.done:
            return name
        self.done.add(definition)
        message: Any = descriptor_pb2.DescriptorProto(name=name)
        if definition in _SPECIAL:
            for field, number, kind in _SPECIAL[definition]:
                message.field.add(name=field, number=number, type=kind, label=_OPTIONAL)
        elif definition in _EITHER:
            for field, number, what, many in _EITHER[definition]:
                row = message.field.add(name=field, number=number, label=_REPEATED if many else _OPTIONAL)
                if isinstance(what, str):
                    row.type, row.type_name = _MESSAGE, f".k.{self._add(what)}"
                else:
                    row.type = what
        else:
            properties = definitions()[definition].get("properties", {})
            for field, (place, _) in self.numbers.get(definition, {}).items():
                if field in properties:
                    *heads, place_in = place.split(".")
                    owner, path = message, f".k.{name}"
                    for head in heads:
                        path += f".Inline{head}"
                        owner = self._inlined(owner, head, path)
                    self._field(owner, path if heads else f".k.{name}", field, int(place_in), properties[field])
        self.file.message_type.append(message)
        return name

    def _inlined(self, message: Any, head: str, path: str) -> Any:
        for nested in message.nested_type:
            if nested.name == f"Inline{head}":
                return nested
        row = message.field.add(name=f"inline_{head}", number=int(head), type=_MESSAGE, label=_OPTIONAL)
        row.type_name = path
        return message.nested_type.add(name=f"Inline{head}")

    def _field(self, message: Any, path: str, name: str, number: int, schema: dict[str, Any]) -> None:
        name = name.replace("$", "").replace("-", "_")
        if schema.get("type") == "array":
            self._typed(message.field.add(name=name, number=number, label=_REPEATED), schema["items"])
        elif "additionalProperties" in schema:
            entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_STRING, label=_OPTIONAL)
            value = entry.field.add(name="value", number=2, label=_OPTIONAL)
            if schema["additionalProperties"].get("type") == "array":
                items = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Items")
                self._typed(
                    items.field.add(name="items", number=1, label=_REPEATED), schema["additionalProperties"]["items"]
                )
                value.type, value.type_name = _MESSAGE, f"{path}.{items.name}"
            else:
                self._typed(value, schema["additionalProperties"])
            row = message.field.add(name=name, number=number, type=_MESSAGE, label=_REPEATED)
            row.type_name = f"{path}.{entry.name}"
        else:
            self._typed(message.field.add(name=name, number=number, label=_OPTIONAL), schema)

    def _typed(self, field: Any, schema: dict[str, Any]) -> None:
        reference = schema.get("$ref")
        if reference is not None and (
            reference in _SPECIAL or reference in _EITHER or resolve(schema).get("type") == "object"
        ):
            field.type, field.type_name = _MESSAGE, f".k.{self._add(reference)}"
            return
        kind = resolve(schema).get("type", "string")
        byte = schema.get("format") == "byte"
        field.type = {"string": _BYTES if byte else _STRING, "integer": _INT64, "boolean": _BOOL, "number": _DOUBLE}[
            kind
        ]


def _name(definition: str) -> str:
    return definition.replace(".", "_").replace("-", "_")
