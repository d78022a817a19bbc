"""Objects of every kind as protobuf: Google's library reads them without a field left over, and reading gives the object back."""

from __future__ import annotations

import base64
import random
from typing import Any

import msgspec
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from bayplan.api import protobuf
from bayplan.api.codec import decode, encode, to_tree
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.protobuf import wire
from bayplan.api.schema import definition_of, definitions
from bayplan.api.types import meta_v1
from tests.api.protobuf_messages import Messages

_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
KINDS = [kind for kind in DEFAULT_KINDS if kind.type is not None]
DEPTH = 12


class Objects:
    """JSON trees of definitions, filled by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def tree(self, definition: str, depth: int = 0) -> Any:
        special = self._special(definition, depth)
        if special is not None:
            return special
        properties = definitions()[definition].get("properties", {})
        numbered = wire.numbers().get(definition, {})
        likely = 0.9 if depth < 2 else 0.6 if depth < 5 else 0.2
        made = {
            name: self.value(schema, depth + 1)
            for name, schema in properties.items()
            if name in numbered and (self.chance.random() < likely) and depth < DEPTH
        }
        if definition.endswith(".HPAScalingRules") and made.get("policies") == []:
            del made["policies"]  # an empty list is refused, and protobuf has none
        return made

    def _special(self, definition: str, depth: int) -> Any:
        name = definition.rpartition(".")[2]
        chance = self.chance
        if definition == _CRD + "JSONSchemaProps" and depth > 5:
            return {"type": "string", "maximum": 1.5}
        made: dict[str, Any] = {
            "Quantity": chance.choice(["100m", "1Gi", "0"]),
            "IntOrString": chance.choice([0, -1, 80, "http", "25%", ""]),
            "Time": chance.choice(["2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z"]),
            "MicroTime": chance.choice(["2026-01-02T03:04:05.000006Z", "1970-01-01T00:00:00.000000Z"]),
            "FieldsV1": {"f:metadata": {"f:labels": {".": {}}}},
            "RawExtension": {"a": [1, {"b": None}]},
            "JSON": chance.choice([1, "x", {"a": False}, [None], True]),
        }
        if name in made and name != "JSON":
            return made[name]
        if definition == _CRD + "JSON":
            return made["JSON"]
        if definition.startswith(_CRD + "JSONSchemaPropsOr"):
            props = self.tree(_CRD + "JSONSchemaProps", depth + 1)
            other = {"Array": [props], "Bool": True, "StringArray": ["a", "b"]}[definition.rpartition("Or")[2]]
            return chance.choice([props, other])
        return None

    def value(self, schema: dict[str, Any], depth: int) -> Any:
        chance = self.chance
        reference = schema.get("$ref")
        if reference is not None:
            return self.tree(reference, depth)
        kind = schema.get("type")
        if kind == "array":
            return [self.value(schema["items"], depth) for _ in range(chance.randrange(3))]
        if kind == "object" and "additionalProperties" in schema:
            return {
                key: self.value(schema["additionalProperties"], depth) for key in ("b", "a", "ü")[: chance.randrange(4)]
            }
        if kind == "string":
            if schema.get("format") == "byte":
                return base64.b64encode(chance.randbytes(chance.randrange(4))).decode()
            return chance.choice(["", "x", "größer", "y" * 200])
        if kind == "integer":
            return chance.choice([0, 1, -1, 300, 2**31 - 1])
        if kind == "number":
            return chance.choice([0.5, 0.0, -3.25])
        if kind == "boolean":
            return chance.random() < 0.5
        return {"free": "form"}


def unknown_fields(message: Any) -> list[int]:
    """Numbers of fields that the message class does not know, at any depth."""
    found = [field.field_number for field in UnknownFieldSet(message)]
    for descriptor, value in message.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        entry = descriptor.message_type.GetOptions().map_entry
        inner = (
            [one for one in value.values() if hasattr(one, "ListFields")]
            if entry
            else [value]
            if hasattr(value, "ListFields")
            else list(value)
        )
        found += [number for one in inner for number in unknown_fields(one)]
    return found


@pytest.fixture(scope="module")
def messages() -> Messages:
    return Messages([definition_of(kind.type) for kind in KINDS])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_every_kind_comes_back_as_it_was(kind: Kind, messages: Messages) -> None:
    definition = definition_of(kind.type)
    for seed in range(4):
        tree = Objects(seed).tree(definition)
        obj = decode(kind.type, encode(tree))
        message = protobuf.message_of(obj)
        seen = messages.classes[definition]()
        seen.ParseFromString(message)
        assert unknown_fields(seen) == []
        again = decode(kind.type, encode(protobuf.to_tree(definition, seen.SerializeToString())))
        assert to_tree(again) == to_tree(obj)
        assert protobuf.message_of(again) == message


def test_fields_that_are_no_pointers_are_written_even_when_empty() -> None:
    message = protobuf.message_of(meta_v1.Status())
    assert message == bytes.fromhex("0a06 0a00 1200 1a00  1200 1a00 2200 3000")


def test_maps_are_written_in_order_of_their_keys() -> None:
    metadata = meta_v1.ObjectMeta(labels={"b": "2", "a": "1"})
    labels = [value for number, value in wire.fields(protobuf.message_of(metadata)) if number == 11]
    assert labels == [b"\n\x01a\x12\x011", b"\n\x01b\x12\x012"]


def test_a_list_is_its_metadata_and_its_items() -> None:
    items = [protobuf.message_of(meta_v1.OwnerReference(name=name)) for name in ("a", "b")]
    message = protobuf.list_message(meta_v1.ListMeta(resource_version="7", remaining_item_count=3), items)
    assert [value for number, value in wire.fields(message) if number == 2] == items
    meta = dict(wire.fields(next(bytes(value) for number, value in wire.fields(message) if number == 1)))  # type: ignore[arg-type]
    assert (meta[2], meta[4]) == (b"7", 3)


def test_a_watch_frame_is_a_length_and_a_bare_event() -> None:
    body = protobuf.envelope("v1", "Status", protobuf.message_of(meta_v1.Status(message="gone")))
    frame = protobuf.watch_frame("ERROR", body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    event = dict(wire.fields(frame[4:]))
    assert event[1] == b"ERROR"
    assert dict(wire.fields(bytes(event[2])))[1] == body
    assert protobuf.unwrap(body)[:2] == ("v1", "Status")


def test_a_kind_without_numbers_is_refused() -> None:
    class Unnumbered(msgspec.Struct):
        name: str = ""

    with pytest.raises(protobuf.ProtobufError):
        protobuf.message_of(Unnumbered())


@pytest.mark.parametrize(
    ("api_version", "tree", "first"),
    [
        ("v1", {"kind": "Status", "apiVersion": "v1", "status": "Success"}, "Success"),
        ("autoscaling/v1", {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 3}}, ""),
        ("v1", {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, ""),
    ],
)
def test_answers_that_are_no_objects_have_messages(api_version: str, tree: dict[str, Any], first: str) -> None:
    assert first.encode() in protobuf.message_of_tree(api_version, tree)


def test_packed_numbers_are_read() -> None:
    packed = wire.delimited(4, wire.varint(1) + wire.varint(300))
    assert protobuf.to_tree("io.k8s.api.core.v1.PodSecurityContext", packed) == {"supplementalGroups": [1, 300]}


def test_messages_nested_too_deeply_are_refused() -> None:
    message = b""
    for _ in range(3000):
        message = wire.delimited(28, message)  # not, a schema in a schema
    with pytest.raises(protobuf.ProtobufError):
        protobuf.to_tree(_CRD + "JSONSchemaProps", message)
