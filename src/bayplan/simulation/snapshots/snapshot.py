"""A copy of a cluster in one file: gzip'd JSON lines, the first of which says what the file is.

    {"format":"bayplan.dev/cluster-copy","version":1,"takenAt":"2026-01-02T03:04:05Z","serverVersion":"v1.36.2",...}
    {"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default"},...}
    {"kind":"Node","apiVersion":"v1",...}

Every other line is an API object as the API server shows it, so that the file can be read with `zcat` and `jq`, and
years later. Whoever reads objects of versions that are served no more brings them up to date (`copies_older`).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError, decode, encode
from bayplan.api.conversions.kinds import convert
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.optional_kinds import EVERY_KIND
from bayplan.api.strategies import strategy_for
from bayplan.cluster.manifests.unserved import UnservedKinds
from bayplan.simulation.snapshots.older_versions import current_form

FORMAT: Final = "bayplan.dev/cluster-copy"
VERSION: Final = 1
"""Version of the file format that is written; newer ones are refused, older ones have to stay readable."""

KINDS: Final = KindTable(EVERY_KIND)
"""The kinds that a copy can hold."""

COPIED: Final = (
    "Namespace",
    "Node",
    "LimitRange",
    "ResourceQuota",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "VolumeAttachment",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "ControllerRevision",
    "CronJob",
    "Job",
    "HorizontalPodAutoscaler",
    "DeviceClass",
    "ResourceSlice",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "PodGroup",
    "CompositePodGroup",
    "Pod",
)
"""What a copy has by default: all that bears on placement, the owners of pods, and what says how many pods there may be."""

NEVER_COPIED: Final = frozenset({"Secret"})
"""Kinds that no copy ever holds."""

Objects = dict[str, list[Any]]
"""Kind -> its objects, as structs of the storage version."""


class SnapshotError(Exception):
    """A copy, dump or manifest cannot be read or written; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that the cluster has, or may have, and the copy has not."""

    what: str
    """A kind, with the namespace if only that one is missing."""
    why: str


@dataclass(slots=True, repr=False)
class ClusterSnapshot:
    """What was copied, and the circumstances."""

    objects: Objects = field(default_factory=dict)
    taken_at: str = ""
    """When, RFC 3339; empty if that is not known."""
    server_version: str = ""
    """`gitVersion` of the API server; empty if that is not known."""
    source: str = ""
    """Where the objects come from, for people."""
    anonymized: bool = False
    left_out: list[LeftOut] = field(default_factory=list)
    unserved: UnservedKinds = field(default_factory=UnservedKinds)
    """Custom kinds that the manifests have which were read."""

    def __repr__(self) -> str:
        where = f" of {self.source}" if self.source else ""
        when = f", taken {self.taken_at}" if self.taken_at else ""
        held = ", ".join(f"{kind} {count:,}" for kind, count in self.counts().items()) or "nothing"
        return f"<ClusterSnapshot{where}{when}: {held}>"

    def of(self, kind: str) -> list[Any]:
        """The objects of a kind; none if the copy has none."""
        return self.objects.get(kind, [])

    def why_unread(self, kind: str) -> str:
        """Why nothing is known of a kind, if a live cluster did not let it be read; else empty."""
        return next((one.why for one in self.left_out if one.what == kind), "")

    def counts(self) -> dict[str, int]:
        """Kind -> number of objects, kinds without objects left out."""
        return {kind: len(found) for kind, found in self.objects.items() if found}

    def flat(self) -> Iterator[Any]:
        """All objects."""
        for found in self.objects.values():
            yield from found


class _Header(msgspec.Struct, rename="camel", omit_defaults=True):
    """The first line of the file."""

    format: str = msgspec.field(default_factory=str)
    version: int = msgspec.field(default_factory=int)
    taken_at: str = ""
    server_version: str = ""
    source: str = ""
    anonymized: bool = False
    counts: dict[str, int] = {}
    left_out: list[dict[str, str]] = []


class _TypeMeta(msgspec.Struct, rename="camel"):
    """What every object says of itself."""

    kind: str = ""
    api_version: str = ""


_type_of = msgspec.json.Decoder(_TypeMeta).decode


def to_bytes(copy: ClusterSnapshot) -> bytes:
    """The content of the file. Equal copies give equal bytes."""
    header = _Header(
        FORMAT,
        VERSION,
        copy.taken_at,
        copy.server_version,
        copy.source,
        copy.anonymized,
        copy.counts(),
        [{"what": one.what, "why": one.why} for one in (*copy.left_out, *_custom(copy))],
    )
    lines = [msgspec.json.encode(header)]
    lines += [object_line(obj) for obj in copy.flat()]
    return gzip.compress(b"\n".join(lines) + b"\n", compresslevel=5, mtime=0)


def _custom(copy: ClusterSnapshot) -> Iterator[LeftOut]:
    """What is kept of custom kinds: that they were there."""
    for one in copy.unserved:
        yield LeftOut(f"{one.kind} in {one.api_version}", "custom resources are not simulated")


def object_line(obj: Any) -> bytes:
    """An object as a line of the file, with kind and version."""
    data = encode(obj)
    return data if obj.kind else KINDS.of_type(type(obj)).type_meta + data[1:]


def is_snapshot(data: bytes) -> bool:
    """Whether (unpacked) bytes begin as a copy does."""
    first = data[:4096].partition(b"\n")[0]
    return first.startswith(b"{") and b'"' + FORMAT.encode() + b'"' in first


def from_bytes(data: bytes, where: str) -> ClusterSnapshot:
    """A copy from the unpacked content of its file. Raises SnapshotError."""
    lines = data.split(b"\n")
    try:
        header = msgspec.json.decode(lines[0], type=_Header)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"{where}: line 1: not the header of a cluster copy: {error}") from error
    if header.version > VERSION:
        raise SnapshotError(
            f"{where}: format version {header.version} is newer than {VERSION}, the newest that this bayplan reads; "
            "update bayplan"
        )
    left_out = [LeftOut(one.get("what", ""), one.get("why", "")) for one in header.left_out]
    copy = ClusterSnapshot({}, header.taken_at, header.server_version, header.source, header.anonymized, left_out)
    reader = LineReader()
    read = 0
    for number, line in enumerate(lines[1:], 2):
        if line:
            read += 1
            try:
                kind, obj = reader.read(line)
            except DecodeError as error:
                raise SnapshotError(f"{where}: line {number}: {error}") from error
            if kind is not None:
                copy.objects.setdefault(kind.kind, []).append(obj)
    missing = {kind: count for kind, count in header.counts.items() if len(copy.of(kind)) < count}
    if missing and read >= sum(header.counts.values()):
        copy.left_out += [
            LeftOut(kind, "objects of this kind, or version of it, are not known here") for kind in missing
        ]
        return copy
    if missing:
        name, count = next(iter(missing.items()))
        raise SnapshotError(
            f"{where}: cut off: {len(copy.of(name))} of {count} objects of kind {name}; take the copy again"
        )
    return copy


class LineReader:
    """Objects from JSON. Lines that begin as this program writes them cost one decoding."""

    def __init__(self) -> None:
        self._known: dict[bytes, Kind] = {}

    def read(self, line: bytes) -> tuple[Kind | None, Any]:
        """An object in the storage version of its kind; (None, None) for kinds that no copy holds. Raises DecodeError."""
        end = line.find(b'",', line.find(b'"apiVersion":"', 0, 200) + 14) if line.startswith(b'{"kind":"') else -1
        prefix = line[:end] if end > 0 else b""
        kind = self._known.get(prefix) if prefix else None
        if kind is not None:
            return kind, decode(kind.type, line)
        try:
            said = _type_of(line)
        except msgspec.DecodeError as error:
            raise DecodeError(str(error)) from None
        found = KINDS.of_kind(said.api_version, said.kind)
        if found is not None and found.kind not in NEVER_COPIED and found.is_stored:
            stored = KINDS.storage_kind(found)
            if stored is found and prefix:
                self._known[prefix] = found
            return stored, convert(decode(found.type, line), found, stored)
        return (None, None) if found is not None else from_tree(msgspec.json.decode(line))


def from_tree(tree: Mapping[str, Any]) -> tuple[Kind | None, Any]:
    """An object from plain data, in the storage version of its kind; (None, None) for kinds that no copy holds. Raises DecodeError."""
    form = current_form(tree)
    found = KINDS.of_kind(str(form.get("apiVersion", "")), str(form.get("kind", "")))
    if found is None or found.kind in NEVER_COPIED or not found.is_stored:
        return None, None
    stored = KINDS.storage_kind(found)
    return stored, convert(decode(found.type, encode(form)), found, stored)


def defaulted(objects: Objects) -> Objects:
    """The objects with what users may leave out filled in, as an API server would; changes them in place. Raises DecodeError."""
    for found in objects.values():
        kind = KINDS.of_type(type(found[0])) if found else None
        if kind is None:
            continue
        strategy = strategy_for(kind)
        for obj in found:
            if kind.namespaced and not obj.metadata.namespace:
                obj.metadata.namespace = "default"
            strategy.default(obj)
    return objects


def unique(objects: Iterable[tuple[Kind, Any]]) -> Objects:
    """Objects by kind, kinds in the order of `COPIED`, of several with one name the last."""
    by_kind: dict[str, dict[tuple[str, str], Any]] = {}
    for kind, obj in objects:
        by_kind.setdefault(kind.kind, {})[obj.metadata.namespace, obj.metadata.name] = obj
    order = {name: number for number, name in enumerate(COPIED)}
    return {
        name: list(by_kind[name].values())
        for name in sorted(by_kind, key=lambda one: (order.get(one, len(order)), one))
    }
