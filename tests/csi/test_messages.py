"""The messages against the specification: `csi_1_12.tsv` lists the calls, fields and enumerations of csi.proto 1.12 that Bayplan has."""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from bayplan.csi import messages as csi
from bayplan.csi.services import CALLS, path_of
from bayplan.support.grpc.protobuf_dataclasses import Int32, Message, OneOf, table_of

_ROWS = [line.split("\t") for line in (Path(__file__).parent / "csi_1_12.tsv").read_text().splitlines()]
_SCALARS = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "map<string, string>": "{string}",
    ".google.protobuf.BoolValue": "google.protobuf.BoolValue",
    "google.protobuf.Int64Value": "google.protobuf.Int64Value",
    ".google.protobuf.Timestamp": "google.protobuf.Timestamp",
}
FIELDS: dict[str, list[tuple[str, int, str, str]]] = defaultdict(list)
VALUES: dict[str, dict[str, int]] = defaultdict(dict)
for _row in _ROWS:
    if _row[0] == "field":
        FIELDS[_row[1]].append((_row[2], int(_row[3]), _row[4], _row[5] if len(_row) > 5 else ""))
    elif _row[0] == "value":
        VALUES[_row[1]][_row[2]] = int(_row[3])
SPECIFIED = {row[2]: (row[1], row[3], row[4]) for row in _ROWS if row[0] == "call"}


def resolved(kind: str, scope: str) -> str:
    """The full name of a message or enumeration that is named within another one."""
    while scope:
        if f"{scope}.{kind}" in FIELDS or f"{scope}.{kind}" in VALUES:
            return f"{scope}.{kind}"
        scope = scope.rpartition(".")[0]
    return kind


def compare(name: str, ours: str, table: dict[str, str]) -> int:
    """The fields of a message and of those in it; returns how many there are."""
    fields = table[ours].split(", ") if table[ours] else []
    expected = FIELDS.get(name, [])
    assert len(fields) == len(expected), f"{name} has {len(expected)} fields, {ours} has {len(fields)}"
    count = len(fields)
    for number, (text, (field, specified, kind, oneof)) in enumerate(zip(fields, expected, strict=True), start=1):
        our_name, _, our_kind = text.partition(": ")
        our_kind, _, our_oneof = our_kind.partition(" of ")
        assert (our_name, number, our_oneof) == (field, specified, oneof), name
        assert our_kind.startswith("[") == kind.startswith("repeated "), f"{name}.{field}"
        inner = kind.removeprefix("repeated ")
        our_inner = our_kind.strip("[]")
        if inner in _SCALARS:
            assert our_inner == _SCALARS[inner], f"{name}.{field}"
        elif resolved(inner, name) in VALUES:
            assert our_inner == "int32", f"{name}.{field}"
        else:
            count += compare(resolved(inner, name), our_inner, table)
    return count


def test_all_calls_of_the_specification_are_known() -> None:
    assert {name: call.service for name, call in CALLS.items()} == {name: row[0] for name, row in SPECIFIED.items()}
    assert path_of("NodeGetInfo") == "/csi.v1.Node/NodeGetInfo"


@pytest.mark.parametrize("name", sorted(SPECIFIED))
def test_requests_and_responses_have_the_fields_of_the_specification(name: str) -> None:
    _, request, response = SPECIFIED[name]
    for specified, ours in ((request, CALLS[name].request), (response, CALLS[name].response)):
        compare(specified, ours.__name__, table_of(ours))


def test_the_comparison_sees_every_field() -> None:
    assert compare("CreateVolumeRequest", "CreateVolumeRequest", table_of(csi.CreateVolumeRequest)) == 25


ENUMERATIONS = {
    "PluginCapability.Service.Type": csi.PluginService,
    "PluginCapability.VolumeExpansion.Type": csi.Expansion,
    "VolumeCapability.AccessMode.Mode": csi.Access,
    "ControllerServiceCapability.RPC.Type": csi.ControllerCapability,
    "VolumeUsage.Unit": csi.Unit,
    "NodeServiceCapability.RPC.Type": csi.NodeCapability,
}


def test_enumerations_have_the_numbers_of_the_specification() -> None:
    found: dict[str, type[enum.IntEnum]] = ENUMERATIONS
    assert {name: {one.name: one.value for one in kind} for name, kind in found.items()} == VALUES


@pytest.mark.parametrize(
    ("message", "data"),
    [
        pytest.param(csi.Empty(), b"", id="nothing"),
        pytest.param(csi.ProbeResponse(), b"", id="a wrapper that is not set"),
        pytest.param(csi.ProbeResponse(False), b"\x0a\x00", id="a wrapper of false"),
        pytest.param(csi.GetCapacityResponse(5, 300), b"\x08\x05\x12\x03\x08\xac\x02", id="a wrapper of a number"),
        pytest.param(csi.VolumeCapability(block=csi.Empty()), b"\x0a\x00", id="an empty message that is set"),
        pytest.param(
            csi.VolumeCapability(mount=csi.MountVolume("ext4", ("ro",))), b"\x12\x0a\x0a\x04ext4\x12\x02ro", id="nested"
        ),
        pytest.param(
            csi.Topology({"b": "2", "a": "1"}), b"\x0a\x06\x0a\x01a\x12\x011\x0a\x06\x0a\x01b\x12\x012", id="a map"
        ),
        pytest.param(csi.Snapshot(creation_time=1_500_000_000), b"\x22\x08\x08\x01\x10\x80\xca\xb5\xee\x01", id="time"),
        pytest.param(csi.VolumeUsage(-1, unit=7), b"\x08" + b"\xff" * 9 + b"\x01\x20\x07", id="unknown number"),
        pytest.param(
            csi.ListSnapshotsResponse((csi.SnapshotResponse(csi.Snapshot(1)), csi.SnapshotResponse())),
            b"\x0a\x04\x0a\x02\x08\x01\x0a\x00",
            id="several messages",
        ),
    ],
)
def test_messages_become_the_bytes_of_protobuf_and_back(message: Message, data: bytes) -> None:
    assert message.SerializeToString() == data
    assert type(message).FromString(data) == message


def test_two_of_a_oneof_are_refused() -> None:
    both = csi.VolumeCapability(block=csi.Empty(), mount=csi.MountVolume())
    with pytest.raises(ValueError, match="VolumeCapability: block and mount exclude each other"):
        both.SerializeToString()


def test_the_last_of_a_oneof_counts_in_what_is_received() -> None:
    assert csi.VolumeCapability.FromString(b"\x0a\x00\x12\x00") == csi.VolumeCapability(mount=csi.MountVolume())


def test_unknown_fields_are_ignored_and_broken_bytes_refused() -> None:
    assert csi.DeleteVolumeRequest.FromString(b"\x0a\x01v\xfa\x07\x01x") == csi.DeleteVolumeRequest("v")
    with pytest.raises(ValueError, match="DeleteVolumeRequest"):
        csi.DeleteVolumeRequest.FromString(b"\x0a\x05v")


SECRETS: dict[str, Any] = {"secrets": {"password": "hunter2"}}


@pytest.mark.parametrize("name", sorted(name for name, call in CALLS.items() if "secrets" in dir(call.request)))
def test_secrets_are_not_shown(name: str) -> None:
    request: Any = CALLS[name].request
    shown = repr(request(**SECRETS))
    assert "hunter2" not in shown
    assert "password" not in shown


@dataclass(frozen=True)
class _Odd(Message):
    numbers: tuple[int, ...] = ()
    small: Int32 = 0
    one: Annotated[csi.Empty | None, OneOf("choice")] = None


def test_repeated_numbers_are_packed() -> None:
    assert _Odd((1, 2), -1).SerializeToString() == b"\x0a\x02\x01\x02\x10" + b"\xff" * 9 + b"\x01"
    assert _Odd.FromString(b"\x08\x01\x08\x02") == _Odd((1, 2))
