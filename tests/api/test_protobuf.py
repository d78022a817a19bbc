"""Protobuf bodies written by Google's library are read as the JSON they stand for."""

from __future__ import annotations

import base64
import json
from importlib import resources
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bayplan.api import protobuf
from bayplan.api.schema import definitions, resolve

_STRING, _BYTES, _INT64, _BOOL, _MESSAGE, _DOUBLE = 9, 12, 3, 8, 11, 1
_OPTIONAL, _REPEATED = 1, 3
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SPECIAL: dict[str, list[tuple[str, int, int]]] = {
    _QUANTITY: [("string", 1, _STRING)],
    _META + "Time": [("seconds", 1, _INT64), ("nanos", 2, _INT64)],
    _META + "MicroTime": [("seconds", 1, _INT64), ("nanos", 2, _INT64)],
    _META + "FieldsV1": [("Raw", 1, _BYTES)],
    _INT_OR_STRING: [("type", 1, _INT64), ("intVal", 2, _INT64), ("strVal", 3, _STRING)],
}


def _numbers() -> dict[str, dict[str, tuple[str, str]]]:
    data = resources.files("bayplan.api.types").joinpath("protobuf.json").read_bytes()
    found: dict[str, dict[str, tuple[str, str]]] = json.loads(data)
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
        message = descriptor_pb2.DescriptorProto(name=name)
        if definition in _SPECIAL:
            for field, number, kind in _SPECIAL[definition]:
                message.field.add(name=field, number=number, type=kind, label=_OPTIONAL)
        else:
            properties = definitions()[definition]["properties"]
            for field, (place, _) in self.numbers[definition].items():
                if field in properties:
                    head, _, rest = place.partition(".")
                    self._field(
                        self._inlined(message, head) if rest else message, field, int(rest or head), properties[field]
                    )
        self.file.message_type.append(message)
        return name

    def _inlined(self, message: Any, head: str) -> Any:
        for nested in message.nested_type:
            if nested.name == f"Inline{head}":
                return nested
        row = message.field.add(name=f"inline_{head}", number=int(head), type=_MESSAGE, label=_OPTIONAL)
        row.type_name = f".k.{message.name}.Inline{head}"
        return message.nested_type.add(name=f"Inline{head}")

    def _field(self, message: Any, name: str, number: int, schema: dict[str, Any]) -> None:
        if schema.get("type") == "array":
            self._typed(message.field.add(name=name, number=number, label=_REPEATED), schema["items"])
        elif "additionalProperties" in schema:
            entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_STRING, label=_OPTIONAL)
            self._typed(entry.field.add(name="value", number=2, label=_OPTIONAL), schema["additionalProperties"])
            row = message.field.add(name=name, number=number, type=_MESSAGE, label=_REPEATED)
            row.type_name = f".k.{message.name}.{entry.name}"
        else:
            self._typed(message.field.add(name=name, number=number, label=_OPTIONAL), schema)

    def _typed(self, field: Any, schema: dict[str, Any]) -> None:
        reference = schema.get("$ref")
        if reference is not None and (reference in _SPECIAL or resolve(schema).get("type") == "object"):
            field.type, field.type_name = _MESSAGE, f".k.{self._add(reference)}"
            return
        kind = resolve(schema).get("type", "string")
        byte = schema.get("format") == "byte"
        field.type = {"string": _BYTES if byte else _STRING, "integer": _INT64, "boolean": _BOOL, "number": _DOUBLE}[
            kind
        ]


def _name(definition: str) -> str:
    return definition.replace(".", "_").replace("-", "_")


POD, DEPLOYMENT, SECRET = (
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.core.v1.Secret",
)


@pytest.fixture(scope="module")
def messages() -> Messages:
    return Messages([POD, DEPLOYMENT, SECRET])


def test_a_pod_with_lists_maps_quantities_and_times(messages: Messages) -> None:
    pod = messages.classes[POD]()
    pod.metadata.name, pod.metadata.uid = "p", "u"
    pod.metadata.labels["app"] = "web"
    pod.metadata.creationTimestamp.seconds = 1_767_323_045
    pod.metadata.deletionGracePeriodSeconds = -1
    container = pod.spec.containers.add()
    container.name, container.image, container.tty = "c", "nginx", True
    container.command.extend(["a", ""])
    container.resources.requests["cpu"].string = "250m"
    port = container.ports.add()
    port.containerPort = 80
    probe = container.livenessProbe
    probe.periodSeconds = 7
    probe.inline_1.httpGet.port.strVal = "web"
    probe.inline_1.httpGet.port.type = 1
    assert protobuf.to_tree(POD, pod.SerializeToString()) == {
        "metadata": {
            "name": "p",
            "uid": "u",
            "labels": {"app": "web"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionGracePeriodSeconds": -1,
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "nginx",
                    "tty": True,
                    "command": ["a", ""],
                    "resources": {"requests": {"cpu": "250m"}},
                    "ports": [{"containerPort": 80}],
                    "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 7},
                }
            ]
        },
    }


def test_numbers_in_the_place_of_percentages(messages: Messages) -> None:
    deployment = messages.classes[DEPLOYMENT]()
    deployment.spec.replicas = 3
    deployment.spec.strategy.rollingUpdate.maxSurge.intVal = 2
    deployment.spec.strategy.rollingUpdate.maxSurge.type = 0
    tree = protobuf.to_tree(DEPLOYMENT, deployment.SerializeToString())
    assert tree["spec"] == {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": 2}}}


def test_bytes_become_base64(messages: Messages) -> None:
    secret = messages.classes[SECRET]()
    secret.data["k"] = b"\x00\xff"
    assert protobuf.to_tree(SECRET, secret.SerializeToString())["data"] == {"k": base64.b64encode(b"\x00\xff").decode()}


def test_unknown_fields_are_skipped(messages: Messages) -> None:
    secret = messages.classes[SECRET]()
    secret.type = "t"
    unknown = bytes([(100 << 3 | 0) & 127 | 128, (100 << 3) >> 7, 1])
    assert protobuf.to_tree(SECRET, unknown + secret.SerializeToString()) == {"type": "t"}


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_message_that_is_cut_off_is_refused(messages: Messages, length: int) -> None:
    secret = messages.classes[SECRET]()
    secret.type = "a-type"
    with pytest.raises(protobuf.ProtobufError):
        protobuf.to_tree(SECRET, secret.SerializeToString()[:length])


def test_the_envelope_names_the_kind() -> None:
    meta = b"\x0a\x02v1\x12\x03Pod"
    body = protobuf.MAGIC + b"\x0a" + bytes([len(meta)]) + meta + b"\x12\x02ab"
    assert protobuf.unwrap(body) == ("v1", "Pod", b"ab")
    with pytest.raises(protobuf.ProtobufError, match="prefix"):
        protobuf.unwrap(b"nonsense")
