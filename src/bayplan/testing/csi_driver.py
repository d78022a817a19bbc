"""A storage driver in memory, for tests of everything that talks CSI: what it offers, what goes wrong and when are programmable, and every call is recorded.

driver = FakeDriver(clock)
driver.fail("CreateVolume", "RESOURCE_EXHAUSTED", "no room")     # the next call is refused
client = CsiClient(driver.connection(), clock=clock)             # without a socket, also in virtual time
server = csi_server(path, driver)                                # or at one
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument, NotFound
from bayplan.csi.server import csi_server, handlers
from bayplan.csi.services import CALLS
from bayplan.support.clock import Clock
from bayplan.support.grpc.calls import SocketServer
from bayplan.support.grpc.errors import RefusedError, RpcError

NAME: Final = "fake.csi.bayplan.dev"
_C, _N = csi.ControllerCapability, csi.NodeCapability
CONTROLLER: Final = frozenset(
    {
        _C.CREATE_DELETE_VOLUME,
        _C.PUBLISH_UNPUBLISH_VOLUME,
        _C.LIST_VOLUMES,
        _C.GET_CAPACITY,
        _C.CREATE_DELETE_SNAPSHOT,
        _C.LIST_SNAPSHOTS,
        _C.CLONE_VOLUME,
        _C.EXPAND_VOLUME,
        _C.MODIFY_VOLUME,
    }
)
NODE: Final = frozenset({_N.STAGE_UNSTAGE_VOLUME, _N.GET_VOLUME_STATS, _N.EXPAND_VOLUME, _N.SINGLE_NODE_MULTI_WRITER})


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong in one call: it takes `seconds` longer, and fails with `code` (if there is one) before its work or, if `late`, after it."""

    code: str = ""
    message: str = ""
    seconds: float = 0.0
    late: bool = False


class FakeDriver:
    """See the module."""

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = NAME,
        controller: Iterable[int] = CONTROLLER,
        node: Iterable[int] = NODE,
        node_id: str = "node-0",
        topology: csi.Texts | None = None,
        room: int = 1 << 40,
    ) -> None:
        """topology: labels of the node, which also makes the driver say that its volumes are usable in parts of the cluster only. room: bytes for volumes."""
        self.name = name
        self.controller = frozenset(controller)
        self.node = frozenset(node)
        self.node_id = node_id
        self.max_volumes = 0
        """How many volumes a node can have; 0 if that is not said."""
        self.topology = topology
        self.room = room
        self.is_alive = True
        self.ready: bool | None = True
        self.calls: list[tuple[str, Any]] = []
        """(name of the call, request), in the order in which they came."""
        self.volumes: dict[str, csi.Volume] = {}
        self.names: dict[str, str] = {}
        """Name -> id of volumes and snapshots."""
        self.snapshots: dict[str, csi.Snapshot] = {}
        self.published: dict[str, set[str]] = defaultdict(set)
        """Id of a volume -> nodes to which it is attached."""
        self.staged: dict[tuple[str, str], csi.NodeStageVolumeRequest] = {}
        """(id, staging path)."""
        self.targets: dict[tuple[str, str], csi.NodePublishVolumeRequest] = {}
        """(id, target path)."""
        self.modified: dict[str, csi.Texts] = {}
        self.snapshots_are_ready = True
        self._clock = clock
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._count = 0

    # What tests say and ask

    def fail(self, call: str, code: str, message: str = "it does not work", *, times: int = 1) -> None:
        """The next calls are refused, and nothing happens."""
        self._add(call, Fault(code, message), times)

    def lose(self, call: str, code: str = "UNAVAILABLE", *, times: int = 1) -> None:
        """The next calls do their work, but the answer is lost: as if the driver died then."""
        self._add(call, Fault(code, "the connection is gone", late=True), times)

    def delay(self, call: str, seconds: float, *, times: int = 1) -> None:
        """The next calls take so long."""
        self._add(call, Fault(seconds=seconds), times)

    def _add(self, call: str, fault: Fault, times: int) -> None:
        if call not in CALLS:
            raise KeyError(f"CSI has no call {call}")
        self._faults[call].extend([fault] * times)

    def requests(self, call: str) -> list[Any]:
        """The requests of one kind of call."""
        return [request for name, request in self.calls if name == call]

    def connection(self) -> FakeConnection:
        """A connection without a socket."""
        return FakeConnection(self)

    def server(self, path: Path) -> SocketServer:
        """A server at a socket."""
        return csi_server(path, {name: partial(self.answer, name) for name in handlers(self)})

    async def answer(self, name: str, request: Any) -> Any:
        """What the driver does when it is called. Raises RefusedError."""
        self.calls.append((name, request))
        fault = self._faults[name].popleft() if self._faults[name] else Fault()
        if fault.seconds:
            await self._clock.sleep(fault.seconds)
        if fault.code and not fault.late:
            raise DriverError(fault.message, fault.code)
        response = await self.work(name)(request)
        if fault.code:
            raise DriverError(fault.message, fault.code)
        return response

    def work(self, name: str) -> Callable[[Any], Awaitable[Any]]:
        """The method that does the work of a call. Raises DriverError."""
        found = handlers(self).get(name)
        if found is None:
            raise DriverError(f"unknown method {name}", "UNIMPLEMENTED")
        return found

    def _needs(self, capability: csi.ControllerCapability | csi.NodeCapability) -> None:
        known = self.controller if isinstance(capability, csi.ControllerCapability) else self.node
        if capability not in known:
            raise DriverError(f"{capability.name} is not supported", "UNIMPLEMENTED")

    def _volume(self, volume_id: str) -> csi.Volume:
        if not volume_id:
            raise InvalidArgument("volume_id is missing")
        volume = self.volumes.get(volume_id)
        if volume is None:
            raise NotFound(f"volume {volume_id} not found")
        return volume

    # Identity

    async def get_plugin_info(self, request: csi.Empty) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(self.name, "1.0")

    async def get_plugin_capabilities(self, request: csi.Empty) -> csi.GetPluginCapabilitiesResponse:
        services = [csi.PluginService.CONTROLLER_SERVICE] if self.controller else []
        services += [csi.PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS] if self.topology is not None else []
        offers = [csi.PluginCapability(service=csi.Enumerated(one)) for one in services]
        return csi.GetPluginCapabilitiesResponse(
            (*offers, csi.PluginCapability(volume_expansion=csi.Enumerated(csi.Expansion.ONLINE)))
        )

    async def probe(self, request: csi.Empty) -> csi.ProbeResponse:
        return csi.ProbeResponse(self.ready)

    # Controller

    async def controller_get_capabilities(self, request: csi.Empty) -> csi.CapabilitiesResponse:
        return _capabilities(self.controller)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.VolumeResponse:
        self._needs(csi.ControllerCapability.CREATE_DELETE_VOLUME)
        if not request.name or not request.volume_capabilities:
            raise InvalidArgument("name and volume_capabilities are needed")
        size = request.capacity_range.required_bytes if request.capacity_range is not None else 1 << 30
        known = self.names.get(request.name)
        if known is not None:
            if self.volumes[known].capacity_bytes != size:
                raise DriverError(f"{request.name} has another size", "ALREADY_EXISTS")
            return csi.VolumeResponse(self.volumes[known])
        if sum(one.capacity_bytes for one in self.volumes.values()) + size > self.room:
            raise DriverError("there is no room", "RESOURCE_EXHAUSTED")
        source = request.volume_content_source
        if source is not None:
            self._check_source(source)
        topology = (csi.Topology(self.topology),) if self.topology is not None else ()
        volume = csi.Volume(size, self._new_id("volume"), {"made-by": self.name}, source, topology)
        self.volumes[volume.volume_id] = volume
        self.names[request.name] = volume.volume_id
        return csi.VolumeResponse(volume)

    def _check_source(self, source: csi.VolumeContentSource) -> None:
        if source.snapshot is not None and source.snapshot.snapshot_id not in self.snapshots:
            raise NotFound(f"snapshot {source.snapshot.snapshot_id} not found")
        if source.volume is not None:
            self._volume(source.volume.volume_id)

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.Empty:
        self._needs(csi.ControllerCapability.CREATE_DELETE_VOLUME)
        if self.published.get(request.volume_id):
            raise DriverError(f"{request.volume_id} is in use", "FAILED_PRECONDITION")
        self.volumes.pop(request.volume_id, None)
        self._forget(request.volume_id)
        return csi.Empty()

    def _forget(self, an_id: str) -> None:
        self.names = {name: known for name, known in self.names.items() if known != an_id}

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        self._needs(csi.ControllerCapability.PUBLISH_UNPUBLISH_VOLUME)
        self._volume(request.volume_id)
        self.published[request.volume_id].add(request.node_id)
        return csi.ControllerPublishVolumeResponse({"device": f"/dev/{request.volume_id}"})

    async def controller_unpublish_volume(self, request: csi.ControllerUnpublishVolumeRequest) -> csi.Empty:
        self._needs(csi.ControllerCapability.PUBLISH_UNPUBLISH_VOLUME)
        self.published[request.volume_id].discard(request.node_id)
        return csi.Empty()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        self._volume(request.volume_id)
        return csi.ValidateVolumeCapabilitiesResponse(csi.Confirmed(volume_capabilities=request.volume_capabilities))

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        self._needs(csi.ControllerCapability.LIST_VOLUMES)
        first = int(request.starting_token or 0)
        ids = sorted(self.volumes)
        last = first + request.max_entries if request.max_entries else len(ids)
        entries = [
            csi.VolumeEntry(self.volumes[one], csi.VolumeStatus(tuple(sorted(self.published[one]))))
            for one in ids[first:last]
        ]
        return csi.ListVolumesResponse(tuple(entries), str(last) if last < len(ids) else "")

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        self._needs(csi.ControllerCapability.GET_CAPACITY)
        return csi.GetCapacityResponse(self.room - sum(one.capacity_bytes for one in self.volumes.values()))

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.SnapshotResponse:
        self._needs(csi.ControllerCapability.CREATE_DELETE_SNAPSHOT)
        volume = self._volume(request.source_volume_id)
        known = self.names.get(request.name)
        if known is None:
            snapshot = csi.Snapshot(
                volume.capacity_bytes,
                self._new_id("snapshot"),
                volume.volume_id,
                int(self._clock.now()) * 1_000_000_000,
                self.snapshots_are_ready,
            )
            known = self.names[request.name] = snapshot.snapshot_id
            self.snapshots[known] = snapshot
        elif self.snapshots_are_ready:
            self.snapshots[known] = replace(self.snapshots[known], ready_to_use=True)
        return csi.SnapshotResponse(self.snapshots[known])

    async def delete_snapshot(self, request: csi.SnapshotRequest) -> csi.Empty:
        self._needs(csi.ControllerCapability.CREATE_DELETE_SNAPSHOT)
        self.snapshots.pop(request.snapshot_id, None)
        self._forget(request.snapshot_id)
        return csi.Empty()

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        self._needs(csi.ControllerCapability.LIST_SNAPSHOTS)
        found = [
            one for key, one in sorted(self.snapshots.items()) if not request.snapshot_id or key == request.snapshot_id
        ]
        return csi.ListSnapshotsResponse(tuple(csi.SnapshotResponse(one) for one in found))

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        self._needs(csi.ControllerCapability.EXPAND_VOLUME)
        volume = self._volume(request.volume_id)
        wanted = request.capacity_range.required_bytes if request.capacity_range is not None else 0
        size = max(volume.capacity_bytes, wanted)
        self.volumes[request.volume_id] = replace(volume, capacity_bytes=size)
        return csi.ControllerExpandVolumeResponse(size, csi.NodeCapability.EXPAND_VOLUME in self.node)

    async def controller_modify_volume(self, request: csi.ControllerModifyVolumeRequest) -> csi.Empty:
        self._needs(csi.ControllerCapability.MODIFY_VOLUME)
        self._volume(request.volume_id)
        self.modified[request.volume_id] = request.mutable_parameters
        return csi.Empty()

    # Node

    async def node_get_capabilities(self, request: csi.Empty) -> csi.CapabilitiesResponse:
        return _capabilities(self.node)

    async def node_get_info(self, request: csi.Empty) -> csi.NodeGetInfoResponse:
        topology = csi.Topology(self.topology) if self.topology is not None else None
        return csi.NodeGetInfoResponse(self.node_id, self.max_volumes, accessible_topology=topology)

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.Empty:
        self._needs(csi.NodeCapability.STAGE_UNSTAGE_VOLUME)
        self._volume(request.volume_id)
        self.staged[request.volume_id, request.staging_target_path] = request
        return csi.Empty()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.Empty:
        self._needs(csi.NodeCapability.STAGE_UNSTAGE_VOLUME)
        self.staged.pop((request.volume_id, request.staging_target_path), None)
        return csi.Empty()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.Empty:
        """Inline volumes are not known beforehand; a directory appears where a file system is asked for, as with drivers that mount."""
        if request.volume_context.get("csi.storage.k8s.io/ephemeral") != "true":
            self._volume(request.volume_id)
            staged = (request.volume_id, request.staging_target_path) in self.staged
            if csi.NodeCapability.STAGE_UNSTAGE_VOLUME in self.node and not staged:
                raise DriverError(f"{request.volume_id} is not staged", "FAILED_PRECONDITION")
        _appear(Path(request.target_path), request.volume_capability)
        self.targets[request.volume_id, request.target_path] = request
        return csi.Empty()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.Empty:
        self.targets.pop((request.volume_id, request.target_path), None)
        _disappear(Path(request.target_path))
        return csi.Empty()

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        self._needs(csi.NodeCapability.GET_VOLUME_STATS)
        size = self._volume(request.volume_id).capacity_bytes
        return csi.NodeGetVolumeStatsResponse((csi.VolumeUsage(size - 1, size, 1, csi.Unit.BYTES),))

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        self._needs(csi.NodeCapability.EXPAND_VOLUME)
        return csi.NodeExpandVolumeResponse(self._volume(request.volume_id).capacity_bytes)


class FakeConnection:
    """A connection to a fake driver in this process. Messages go through their bytes, as over a socket; a call that takes too long goes on in the driver."""

    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver
        self._running: set[asyncio.Future[Any]] = set()

    async def call(self, method: str, request: Any, answer: type[Any], seconds: float) -> Any:
        """See Connection of `bayplan.csi.client`."""
        driver = self._driver
        if not driver.is_alive:
            raise RpcError("UNAVAILABLE", "connection error: nobody listens")
        name = method.rpartition("/")[2]
        received = CALLS[name].request.FromString(request.SerializeToString())
        working = asyncio.ensure_future(driver.answer(name, received))
        self._running.add(working)
        working.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({working}, timeout=seconds)
        if not done:
            working.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            raise RpcError("DEADLINE_EXCEEDED", "context deadline exceeded")
        try:
            response = working.result()
        except RefusedError as error:
            raise RpcError(error.code, str(error)) from error
        return answer.FromString(response.SerializeToString())

    async def close(self) -> None:
        """See Connection; what still runs in the driver ends."""
        for each in list(self._running):
            each.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def _capabilities(numbers: Iterable[int]) -> csi.CapabilitiesResponse:
    return csi.CapabilitiesResponse(tuple(csi.RpcCapability(csi.Enumerated(one)) for one in sorted(numbers)))


def _appear(target: Path, capability: csi.VolumeCapability | None) -> None:
    if capability is not None and capability.block is not None:
        target.touch()
    else:
        target.mkdir(exist_ok=True)


def _disappear(target: Path) -> None:
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)
