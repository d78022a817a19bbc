"""A recorded workload: which pods came to a live cluster and went, over time, and what else bears on placement. gzip'd JSON lines:

    {"format":"bayplan.dev/recording","version":1,"began":"2026-01-02T03:04:05Z"}
    {"at":0,"node":{"metadata":{"name":"n1"},...}}
    {"at":0,"object":{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"data","namespace":"shop"},...}}
    {"at":0,"come":{"metadata":{"name":"web-1","namespace":"shop"},...}}
    {"at":317.25,"gone":"shop/web-1"}

`at` is in seconds. Pods are kept as copies keep them (without what goes on inside their containers). A recording that broke off
in the middle is good up to there. Other objects are kept as they were first seen: a claim that was made while it was recorded is not
bound yet when its pod comes, as in the cluster. Volumes that were made for such claims are left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError, decode, encode
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types.core_v1 import Node, Pod
from bayplan.client import Client
from bayplan.informers import InformerFactory
from bayplan.simulation.readers.live import kind_named
from bayplan.simulation.replay.run import Arrival, Workload
from bayplan.simulation.replay.traces import TraceError
from bayplan.simulation.snapshots.planner import fresh
from bayplan.simulation.snapshots.snapshot import COPIED, KINDS, LineReader, object_line
from bayplan.simulation.snapshots.thinning import thin
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339

FORMAT: Final = "bayplan.dev/recording"
VERSION: Final = 1
_GZIP: Final = 31
"""What zlib calls a window for gzip's form."""
_FIRST_LISTS: Final = 5.0
"""Seconds within which what is seen was there before."""
_CHUNK: Final = 1 << 16
_ENDED: Final = ("Succeeded", "Failed")

Sink = Callable[[bytes], object]
"""Takes one line at a time."""


class Recorder:
    """Follows nodes and pods of a cluster. `run` records until cancelled."""

    def __init__(
        self, client: Client, sink: Sink, *, clock: Clock, randomness: Randomness, kinds: Iterable[Kind] = ()
    ) -> None:
        """kinds: what is followed besides nodes and pods; see `recorded_kinds`."""
        self._informers = InformerFactory(client, clock, randomness)
        self._nodes = self._informers.informer(Node)
        self._pods = self._informers.informer(Pod)
        self._others = [self._informers.informer(kind.type) for kind in kinds]
        self._known: set[tuple[str, str]] = set()
        self._sink = sink
        self._clock = clock
        self._began = 0.0
        self._there: set[str] = set()
        self.pods = 0
        """Pods that have come so far."""

    async def run(self) -> None:
        """Record. Raises what the client raises if the cluster cannot be read at all."""
        self._began = self._clock.monotonic()
        self._write({"format": FORMAT, "version": VERSION, "began": rfc3339(self._clock.now())})
        for other in self._others:
            other.on_change(add=self._object)
        self._nodes.on_change(add=self._node)
        self._pods.on_change(add=self._pod, update=lambda old, new: self._pod(new), delete=self._gone)
        self._informers.start()
        try:
            await self._clock.sleep(float("inf"))
        finally:
            await self._informers.stop()

    def _write(self, record: dict[str, Any]) -> None:
        self._sink(encode(record) + b"\n")

    def _at(self) -> float:
        return round(self._clock.monotonic() - self._began, 3)

    def _node(self, node: Node) -> None:
        self._write({"at": self._at(), "node": thin(node)})

    def _object(self, obj: Any) -> None:
        kind = KINDS.of_type(type(obj))
        key = (kind.kind, f"{obj.metadata.namespace}/{obj.metadata.name}")
        made_for_a_claim = (
            kind.kind == "PersistentVolume" and self._at() > _FIRST_LISTS and obj.spec.claim_ref is not None
        )
        if key not in self._known and not made_for_a_claim:
            self._known.add(key)
            self._write({"at": self._at(), "object": msgspec.Raw(object_line(thin(obj)))})

    def _pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.status.phase in _ENDED:
            self._gone(pod)
        elif uid not in self._there:
            self._there.add(uid)
            self.pods += 1
            self._write({"at": self._at(), "come": fresh(thin(pod))})

    def _gone(self, pod: Pod) -> None:
        if pod.metadata.uid in self._there:
            self._there.discard(pod.metadata.uid)
            self._write({"at": self._at(), "gone": f"{pod.metadata.namespace}/{pod.metadata.name}"})


async def recorded_kinds(client: Client) -> list[Kind]:
    """The kinds besides nodes and pods that bear on placement, as far as the server has them and they may be listed. Raises ApiError."""
    found = []
    for name in COPIED:
        kind = kind_named(name)
        if name in ("Node", "Pod"):
            continue
        try:
            await client.raw("GET", kind.path(), {"limit": "1"})
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            continue
        found.append(kind)
    return found


def is_recording(path: Path) -> bool:
    """Whether a file says that it is one."""
    try:
        with path.open("rb") as file:
            start = file.read(2)
        return start == b"\x1f\x8b" and next(_lines(path), b"").startswith(b'{"format":"%b"' % FORMAT.encode())
    except (OSError, TraceError):
        return False


def read_recording(path: str | Path) -> Workload:
    """The workload that was recorded. Raises TraceError."""
    path = Path(path)
    nodes: dict[str, Node] = {}
    came: dict[str, tuple[float, Pod]] = {}
    arrivals: list[Arrival] = []
    others: list[Any] = []
    reader = LineReader()
    for number, line in enumerate(_lines(path), 1):
        where = f"{path}: line {number}"
        try:
            record = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            if number == 1:
                _check(record, path)
            elif "node" in record:
                node = decode(Node, bytes(record["node"]))
                nodes[node.metadata.name] = node
            elif "object" in record:
                kind, obj = reader.read(bytes(record["object"]))
                others += [obj] if kind is not None else []
            elif "come" in record:
                pod = decode(Pod, bytes(record["come"]))
                came[f"{pod.metadata.namespace}/{pod.metadata.name}"] = (_at(record), pod)
            elif "gone" in record:
                found = came.pop(msgspec.json.decode(record["gone"], type=str), None)
                if found is not None:
                    arrivals.append(Arrival(found[0], found[1], ends=_at(record)))
        except (msgspec.DecodeError, DecodeError, KeyError) as error:
            raise TraceError(f"{where}: {error}") from error
    arrivals.extend(Arrival(at, pod) for at, pod in came.values())
    return Workload(tuple(nodes.values()), tuple(sorted(arrivals, key=lambda one: one.at)), tuple(others))


def _at(record: dict[str, msgspec.Raw]) -> float:
    return msgspec.json.decode(record["at"], type=float)


def _check(record: dict[str, msgspec.Raw], path: Path) -> None:
    version = msgspec.json.decode(record["version"], type=int)
    if version > VERSION:
        raise TraceError(f"{path}: the recording has version {version}, this bayplan reads up to {VERSION}; update it")


def _lines(path: Path) -> Iterator[bytes]:
    """All whole lines."""
    inflate = zlib.decompressobj(wbits=_GZIP)
    rest = b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + inflate.decompress(chunk)).split(b"\n")
                yield from lines
    except (OSError, zlib.error) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
