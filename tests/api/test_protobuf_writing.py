"""Objects of every kind as protobuf: Google's library reads them without a field left over, and reading gives the object back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from bayplan.api import protobuf
from bayplan.api.codec import decode, encode, to_tree
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.protobuf import wire
from bayplan.api.schema import definition_of
from bayplan.api.types import meta_v1
from tests.api.protobuf_messages import Messages
from tests.api.random_objects import Objects

KINDS = [kind for kind in DEFAULT_KINDS if kind.type is not None]


def unknown_fields(message: Any) -> list[int]:
    """Numbers of fields that the message class does not know, at any depth."""
    unknown: Any = UnknownFieldSet(message)
    found = [field.field_number for field in unknown]
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
    meta = dict(wire.fields(next(bytes(value) for number, value in wire.fields(message) if number == 1)))
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


def test_a_list_with_a_name_of_its_own_in_go_is_a_message_of_its_own() -> None:
    verbs = ("get", "list")
    written = protobuf.message_of(meta_v1.APIResource(name="boats", kind="Boat", verbs=verbs))
    found = [value for number, value in wire.fields(written) if number == 4]
    assert found == [b"".join(wire.delimited(1, verb.encode()) for verb in verbs)]
    assert protobuf.to_tree(definition_of(meta_v1.APIResource), written)["verbs"] == list(verbs)


def test_packed_numbers_are_read() -> None:
    packed = wire.delimited(4, wire.varint(1) + wire.varint(300))
    assert protobuf.to_tree("io.k8s.api.core.v1.PodSecurityContext", packed) == {"supplementalGroups": [1, 300]}


def test_messages_nested_too_deeply_are_refused() -> None:
    message = b""
    for _ in range(3000):
        message = wire.delimited(28, message)  # not, a schema in a schema
    with pytest.raises(protobuf.ProtobufError):
        protobuf.to_tree("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", message)


def test_trees_may_have_managed_fields() -> None:
    fields = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
    tree = {"kind": "TokenRequest", "metadata": {"managedFields": [fields]}, "spec": {"audiences": ["a"]}}
    assert b'{"f:spec":{}}' in protobuf.message_of_tree("authentication.k8s.io/v1", tree)
