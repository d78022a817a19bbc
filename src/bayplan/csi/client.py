"""A typed client for drivers: one method per call, over whatever carries bytes to the driver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi.services import path_of
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError
from bayplan.support.grpc.protobuf_dataclasses import Message

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
EMPTY: Final = csi.Empty()
DEFAULT_SECONDS: Final = 15.0
"""The default of the sidecars' `--timeout`."""
_LAST_PAUSE: Final = 5.0


class Connection(Protocol):
    """What carries calls: `bayplan.support.grpc.calls.Connection` for a socket, `bayplan.testing.csi_driver` for a driver in this process."""

    async def call(self, method: str, request: Any, answer: type[Any], seconds: float) -> Any:
        """One call. Raises RpcError, also after so many seconds."""

    async def close(self) -> None:
        """End it; calls that wait fail."""


Observer = Callable[[str, str, float], None]
"""Called after each call with its full name, the code (`OK` for success), and the seconds that it took."""


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """Who a driver is and what it offers, found out once."""

    name: str
    version: str = ""
    services: frozenset[int] = frozenset()
    """See PluginService."""
    expansion: frozenset[int] = frozenset()
    """See Expansion."""
    controller: frozenset[int] = frozenset()
    """See ControllerCapability."""
    node: frozenset[int] = field(default=frozenset())
    """See NodeCapability."""

    @property
    def has_topology(self) -> bool:
        """Whether volumes are usable in parts of the cluster only."""
        return csi.PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS in self.services


class CsiClient:
    """Calls of one driver. Each raises CsiError, with the code DEADLINE_EXCEEDED after `seconds` (or those given with the call)."""

    def __init__(
        self, connection: Connection, *, seconds: float = DEFAULT_SECONDS, observe: Observer | None = None, clock: Clock
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._observe = observe
        self._clock = clock

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()

    async def _call(self, name: str, request: Message, answer: type[R], seconds: float | None = None) -> R:
        started, code = self._clock.monotonic(), "OK"
        limit = self._seconds if seconds is None else seconds
        try:
            found: R = await self._connection.call(path_of(name), request, answer, limit)
            return found
        except RpcError as error:
            code = error.code
            logger.debug("%s: %s", name, error)
            raise CsiError(error.code, error.message) from error
        except asyncio.CancelledError:
            code = "CANCELLED"
            raise
        finally:
            if self._observe is not None:
                self._observe(path_of(name), code, self._clock.monotonic() - started)

    # Identity

    async def get_plugin_info(self) -> csi.GetPluginInfoResponse:
        """Who the driver is."""
        return await self._call("GetPluginInfo", EMPTY, csi.GetPluginInfoResponse)

    async def get_plugin_capabilities(self) -> csi.GetPluginCapabilitiesResponse:
        """What the driver offers."""
        return await self._call("GetPluginCapabilities", EMPTY, csi.GetPluginCapabilitiesResponse)

    async def probe(self, seconds: float | None = None) -> bool:
        """Whether the driver is ready."""
        return (await self._call("Probe", EMPTY, csi.ProbeResponse, seconds)).ready is not False

    async def wait_until_ready(self, waits: Callable[[], None]) -> None:
        """Probe until the driver says that it is ready, for as long as nobody is there; call `waits` once if it has not for some seconds. Raises CsiError
        for any other error."""
        pause = 0.25
        while True:
            try:
                if await self.probe():
                    return
                logger.info("the driver is not ready yet")
            except CsiError as error:
                if error.code not in ("DEADLINE_EXCEEDED", "UNAVAILABLE"):
                    raise
                logger.info("the driver does not answer yet: %s", error.message)
            await self._clock.sleep(pause)
            if pause < _LAST_PAUSE <= pause * 2:
                waits()
            pause = min(pause * 2, _LAST_PAUSE)

    async def info(self) -> DriverInfo:
        """Who the driver is and all that it offers; a service that it does not have offers nothing."""
        who = await self.get_plugin_info()
        offers = (await self.get_plugin_capabilities()).capabilities
        services = frozenset(one.service.type for one in offers if one.service is not None)
        return DriverInfo(
            who.name,
            who.vendor_version,
            services,
            frozenset(one.volume_expansion.type for one in offers if one.volume_expansion is not None),
            await self.controller_get_capabilities()
            if csi.PluginService.CONTROLLER_SERVICE in services
            else frozenset(),
            await self._node_capabilities(),
        )

    async def _node_capabilities(self) -> frozenset[int]:
        try:
            return await self.node_get_capabilities()
        except CsiError as error:
            if error.code != "UNIMPLEMENTED":  # a controller's process need not have the node service
                raise
            return frozenset()

    # Controller

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.Volume:
        """Make a volume, or find the one that was made for the same name."""
        volume = (await self._call("CreateVolume", request, csi.VolumeResponse)).volume
        if volume is None or not volume.volume_id:
            raise CsiError("INTERNAL", "CreateVolume: the driver answered without a volume")
        return volume

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> None:
        """Delete a volume; one that is not there is no error."""
        await self._call("DeleteVolume", request, csi.Empty)

    async def controller_publish_volume(self, request: csi.ControllerPublishVolumeRequest) -> csi.Texts:
        """Attach a volume to a node; gives the publish context."""
        response = csi.ControllerPublishVolumeResponse
        return (await self._call("ControllerPublishVolume", request, response)).publish_context

    async def controller_unpublish_volume(self, request: csi.ControllerUnpublishVolumeRequest) -> None:
        """Detach a volume from a node."""
        await self._call("ControllerUnpublishVolume", request, csi.Empty)

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        """Whether a volume can be used so."""
        return await self._call("ValidateVolumeCapabilities", request, csi.ValidateVolumeCapabilitiesResponse)

    async def list_volumes(self, *, max_entries: int = 0) -> list[csi.VolumeEntry]:
        """All volumes; `max_entries` in each page."""
        found: list[csi.VolumeEntry] = []
        token = ""
        while True:
            request = csi.ListVolumesRequest(max_entries, token)
            page = await self._call("ListVolumes", request, csi.ListVolumesResponse)
            found += page.entries
            token = page.next_token
            if not token:
                return found

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        """How much room there is."""
        return await self._call("GetCapacity", request, csi.GetCapacityResponse)

    async def controller_get_capabilities(self) -> frozenset[int]:
        """See ControllerCapability."""
        return _numbers(await self._call("ControllerGetCapabilities", EMPTY, csi.CapabilitiesResponse))

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.Snapshot:
        """Make a snapshot, or find the one that was made for the same name."""
        return _snapshot("CreateSnapshot", await self._call("CreateSnapshot", request, csi.SnapshotResponse))

    async def delete_snapshot(self, request: csi.SnapshotRequest) -> None:
        """Delete a snapshot; one that is not there is no error."""
        await self._call("DeleteSnapshot", request, csi.Empty)

    async def get_snapshot(self, request: csi.SnapshotRequest) -> csi.Snapshot:
        """One snapshot, of drivers that say GET_SNAPSHOT."""
        return _snapshot("GetSnapshot", await self._call("GetSnapshot", request, csi.SnapshotResponse))

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """A page of snapshots."""
        return await self._call("ListSnapshots", request, csi.ListSnapshotsResponse)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        """Make a volume larger."""
        return await self._call("ControllerExpandVolume", request, csi.ControllerExpandVolumeResponse)

    async def controller_get_volume(self, volume_id: str) -> csi.VolumeEntry:
        """One volume, of drivers that say GET_VOLUME."""
        return await self._call("ControllerGetVolume", csi.ControllerGetVolumeRequest(volume_id), csi.VolumeEntry)

    async def controller_modify_volume(self, request: csi.ControllerModifyVolumeRequest) -> None:
        """Give a volume other mutable parameters."""
        await self._call("ControllerModifyVolume", request, csi.Empty)

    # Node

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest, seconds: float | None = None) -> None:
        """Bring a volume to a directory of the node, once for all pods; only of drivers that say STAGE_UNSTAGE_VOLUME."""
        await self._call("NodeStageVolume", request, csi.Empty, seconds)

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest, seconds: float | None = None) -> None:
        """Undo that."""
        await self._call("NodeUnstageVolume", request, csi.Empty, seconds)

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest, seconds: float | None = None) -> None:
        """Bring a volume to where a pod has it."""
        await self._call("NodePublishVolume", request, csi.Empty, seconds)

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest, seconds: float | None = None
    ) -> None:
        """Undo that."""
        await self._call("NodeUnpublishVolume", request, csi.Empty, seconds)

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        """How full a volume is; only of drivers that say GET_VOLUME_STATS."""
        return await self._call("NodeGetVolumeStats", request, csi.NodeGetVolumeStatsResponse)

    async def node_expand_volume(
        self, request: csi.NodeExpandVolumeRequest, seconds: float | None = None
    ) -> csi.NodeExpandVolumeResponse:
        """Do the node's part of making a volume larger; only of drivers that say EXPAND_VOLUME."""
        return await self._call("NodeExpandVolume", request, csi.NodeExpandVolumeResponse, seconds)

    async def node_get_capabilities(self) -> frozenset[int]:
        """See NodeCapability."""
        return _numbers(await self._call("NodeGetCapabilities", EMPTY, csi.CapabilitiesResponse))

    async def node_get_info(self, seconds: float | None = None) -> csi.NodeGetInfoResponse:
        """What the driver calls this node, and where it is."""
        return await self._call("NodeGetInfo", EMPTY, csi.NodeGetInfoResponse, seconds)


def _numbers(response: csi.CapabilitiesResponse) -> frozenset[int]:
    return frozenset(one.rpc.type for one in response.capabilities if one.rpc is not None)


def _snapshot(name: str, response: csi.SnapshotResponse) -> csi.Snapshot:
    if response.snapshot is None or not response.snapshot.snapshot_id:
        raise CsiError("INTERNAL", f"{name}: the driver answered without a snapshot")
    return response.snapshot
