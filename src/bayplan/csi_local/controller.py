"""The controller service of the local driver: volumes and snapshots are made, copied, made larger, removed and listed."""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument, NotFound
from bayplan.csi_local import rules
from bayplan.csi_local.operations import Operations
from bayplan.csi_local.records import IMAGE, Records, SnapshotRecord, VolumeRecord
from bayplan.csi_local.settings import TOPOLOGY_KEY, LocalDriverSettings
from bayplan.csi_local.volumes import LocalVolumes
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_C = csi.ControllerCapability
CAPABILITIES: Final = (
    _C.CREATE_DELETE_VOLUME,
    _C.LIST_VOLUMES,
    _C.GET_CAPACITY,
    _C.CREATE_DELETE_SNAPSHOT,
    _C.LIST_SNAPSHOTS,
    _C.CLONE_VOLUME,
    _C.EXPAND_VOLUME,
    _C.GET_VOLUME,
    _C.SINGLE_NODE_MULTI_WRITER,
    _C.GET_SNAPSHOT,
)


class ControllerService:
    """See the module. Every call may be repeated, also after the driver was killed in its midst."""

    def __init__(
        self, settings: LocalDriverSettings, volumes: LocalVolumes, operations: Operations, clock: Clock
    ) -> None:
        self._settings = settings
        self._store = volumes
        self._operations = operations
        self._clock = clock

    async def controller_get_capabilities(self, request: csi.Empty) -> csi.CapabilitiesResponse:
        """See CAPABILITIES."""
        return csi.CapabilitiesResponse(tuple(csi.RpcCapability(csi.Enumerated(one)) for one in CAPABILITIES))

    # Volumes

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.VolumeResponse:
        """Make a volume, empty or as a copy."""
        volume_id, kind = rules.id_of(request.name), rules.type_of(request.parameters)
        rules.check_capabilities(request.volume_capabilities, kind)
        if request.mutable_parameters:
            raise InvalidArgument("volumes of the local driver have no mutable parameters")
        source = rules.source_id(request.volume_content_source).rpartition("/")[2]
        work = self._create(volume_id, kind, request)
        record = await self._operations.run(work, volume_id, *((source,) if source else ()))
        return csi.VolumeResponse(self._shown(record, request))

    async def _create(self, volume_id: str, kind: str, request: csi.CreateVolumeRequest) -> VolumeRecord:
        known = self._store.volumes.get(volume_id)
        if known is not None:
            problem = rules.conflict(known, request, kind)
            if problem:
                raise DriverError(problem, "ALREADY_EXISTS")
            if known.is_ready:
                return known
        if not rules.is_here(request.accessibility_requirements, self._settings.node_name):
            raise DriverError(f"volumes are made on node {self._settings.node_name} only", "RESOURCE_EXHAUSTED")
        source = self._source(request.volume_content_source)
        record = known if known is not None else self._planned(volume_id, kind, request, source)
        return await self.complete(record, source)

    def _planned(
        self,
        volume_id: str,
        kind: str,
        request: csi.CreateVolumeRequest,
        source: VolumeRecord | SnapshotRecord | None,
    ) -> VolumeRecord:
        """The record of a new volume. Raises DriverError if it cannot be made."""
        if source is not None and source.kind != kind:
            raise InvalidArgument(f"the source is of type {source.kind}, the new volume of type {kind}")
        size = rules.size_for(
            request.capacity_range,
            kind,
            at_least=source.size if source is not None else 0,
            file_systems=rules.fs_types(request.volume_capabilities),
        )
        return VolumeRecord(id=volume_id, kind=kind, size=size, source=rules.source_id(request.volume_content_source))

    async def complete(self, record: VolumeRecord, source: VolumeRecord | SnapshotRecord | None) -> VolumeRecord:
        """Make the content of a volume, with its record before and after. Raises DriverError without room."""
        free = self._store.free_bytes()
        if record.size > free and self._store.volumes.get(record.id) is None:
            raise DriverError(f"{record.size} bytes are wanted, {free} are free", "RESOURCE_EXHAUSTED")
        await self._store.volumes.put(record)
        if source is None:
            await self._store.make_empty(record)
        else:
            record = replace(record, fs_type=source.fs_type, fs_size=source.fs_size)
            await self._store.copy(source, record)
        record = replace(record, is_ready=True)
        await self._store.volumes.put(record)
        logger.info("made volume %s (%s, %d bytes)", record.id, record.kind, record.size)
        return record

    def _source(self, source: csi.VolumeContentSource | None) -> VolumeRecord | SnapshotRecord | None:
        kind, _, source_id = rules.source_id(source).partition("/")
        if not kind:
            return None
        records: Records[VolumeRecord] | Records[SnapshotRecord]
        records = self._store.snapshots if kind == "snapshot" else self._store.volumes
        found = records.get(source_id)
        if found is None or not found.is_ready:
            raise NotFound(f"{kind} {source_id} not found on node {self._settings.node_name}")
        if isinstance(found, VolumeRecord):
            self._check_copyable(found)
        return found

    def _check_copyable(self, volume: VolumeRecord) -> None:
        """A block device in use changes while it is copied; a file system is held still."""
        if volume.kind == IMAGE and self._store.is_in_use(volume) and not self._store.image_mounts(volume):
            raise DriverError(
                f"block volume {volume.id} is in use, a copy would not be of one moment: stop the pod that uses it",
                "FAILED_PRECONDITION",
            )

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.Empty:
        """Remove a volume and all in it."""
        volume_id = rules.checked_id(request.volume_id, "volume_id")
        await self._operations.run(self.delete(volume_id), volume_id)
        return csi.Empty()

    async def delete(self, volume_id: str) -> None:
        """The same, for a volume for which no operation is under way."""
        volume = self._store.volumes.get(volume_id)
        if volume is None:
            return
        if self._store.is_in_use(volume):
            raise DriverError(f"volume {volume_id} is in use on this node", "FAILED_PRECONDITION")
        await self._store.remove(await self._store.volumes.take_away(volume_id))
        logger.info("removed volume %s", volume_id)

    def _volume(self, volume_id: str) -> VolumeRecord:
        found = self._store.volumes.get(rules.checked_id(volume_id, "volume_id"))
        if found is None or not found.is_ready:
            raise NotFound(f"volume {volume_id} not found on node {self._settings.node_name}")
        return found

    def _shown(self, volume: VolumeRecord, request: csi.CreateVolumeRequest | None = None) -> csi.Volume:
        source = request.volume_content_source if request is not None else None
        topology = csi.Topology({TOPOLOGY_KEY: self._settings.node_name})
        return csi.Volume(volume.size, volume.id, {"type": volume.kind}, source, (topology,))

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        """Say whether a volume can be used so."""
        volume = self._volume(request.volume_id)
        if not request.volume_capabilities:
            raise InvalidArgument("volume_capabilities is missing")
        for one in request.volume_capabilities:
            problem = rules.unsupported(one, volume.kind)
            if problem:
                return csi.ValidateVolumeCapabilitiesResponse(message=problem)
        confirmed = csi.Confirmed(request.volume_context, request.volume_capabilities, request.parameters)
        return csi.ValidateVolumeCapabilitiesResponse(confirmed)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        """List the volumes that are complete; inline volumes belong to their pods and are left out."""
        known = {one.id: one for one in self._store.volumes.all() if one.is_ready and not one.is_ephemeral}
        if request.starting_token and request.starting_token not in known:
            raise DriverError(f"starting_token {request.starting_token!r} is not valid any more", "ABORTED")
        ids, token = rules.page(known, request.starting_token, request.max_entries)
        return csi.ListVolumesResponse(tuple(self._entry(known[one]) for one in ids), token)

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.VolumeEntry:
        """One volume."""
        return self._entry(self._volume(request.volume_id))

    def _entry(self, volume: VolumeRecord) -> csi.VolumeEntry:
        return csi.VolumeEntry(self._shown(volume), csi.VolumeStatus())

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        """What is free on this node."""
        kind = rules.type_of(request.parameters)
        here = csi.TopologyRequirement((request.accessible_topology,)) if request.accessible_topology else None
        usable = not any(rules.unsupported(one, kind) for one in request.volume_capabilities)
        if not usable or not rules.is_here(here, self._settings.node_name):
            return csi.GetCapacityResponse(0)
        free = self._store.free_bytes()
        return csi.GetCapacityResponse(free, free)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        """Make an image file larger; a directory has its size on paper only."""
        self._volume(request.volume_id)
        size = await self._operations.run(self._expand(request), request.volume_id)
        return csi.ControllerExpandVolumeResponse(size, self._volume(request.volume_id).kind == IMAGE)

    async def _expand(self, request: csi.ControllerExpandVolumeRequest) -> int:
        volume = self._volume(request.volume_id)
        if request.capacity_range is None or not request.capacity_range.required_bytes:
            raise InvalidArgument("capacity_range has no required_bytes")
        size = rules.size_for(request.capacity_range, volume.kind)
        if size <= volume.size:
            return volume.size
        free = self._store.free_bytes()
        if size - volume.size > free:
            raise DriverError(f"{size - volume.size} more bytes are wanted, {free} are free", "OUT_OF_RANGE")
        await self._store.grow(volume, size)
        await self._store.volumes.put(replace(volume, size=size))
        return size

    # Snapshots

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.SnapshotResponse:
        """Copy a volume."""
        snapshot_id = rules.id_of(request.name)
        volume_id = rules.checked_id(request.source_volume_id, "source_volume_id")
        if request.parameters and any(not one.startswith("csi.storage.k8s.io/") for one in request.parameters):
            raise InvalidArgument("snapshots of the local driver have no parameters")
        work = self._create_snapshot(snapshot_id, volume_id)
        return csi.SnapshotResponse(_shown_snapshot(await self._operations.run(work, snapshot_id, volume_id)))

    async def _create_snapshot(self, snapshot_id: str, volume_id: str) -> SnapshotRecord:
        known = self._store.snapshots.get(snapshot_id)
        if known is not None and known.volume_id != volume_id:
            raise DriverError(f"snapshot {snapshot_id} exists of volume {known.volume_id}", "ALREADY_EXISTS")
        if known is not None and known.is_ready:
            return known
        volume = self._volume(volume_id)
        self._check_copyable(volume)
        free = self._store.free_bytes()
        if volume.size > free:
            raise DriverError(f"{volume.size} bytes are wanted, {free} are free", "RESOURCE_EXHAUSTED")
        record = SnapshotRecord(
            id=snapshot_id,
            volume_id=volume_id,
            kind=volume.kind,
            size=volume.size,
            created=int(self._clock.now() * 1_000_000) * 1000,
            fs_type=volume.fs_type,
            fs_size=volume.fs_size,
        )
        await self._store.snapshots.put(record)
        await self._store.copy(volume, record)
        record = replace(record, is_ready=True)
        await self._store.snapshots.put(record)
        logger.info("made snapshot %s of volume %s", snapshot_id, volume_id)
        return record

    async def delete_snapshot(self, request: csi.SnapshotRequest) -> csi.Empty:
        """Remove a snapshot; volumes that were made from it are copies of their own."""
        snapshot_id = rules.checked_id(request.snapshot_id, "snapshot_id")
        await self._operations.run(self._delete_snapshot(snapshot_id), snapshot_id)
        return csi.Empty()

    async def _delete_snapshot(self, snapshot_id: str) -> None:
        if self._store.snapshots.get(snapshot_id) is not None:
            await self._store.remove(await self._store.snapshots.take_away(snapshot_id))
            logger.info("removed snapshot %s", snapshot_id)

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """List the snapshots that are complete."""
        known = {
            one.id: one
            for one in self._store.snapshots.all()
            if one.is_ready and request.snapshot_id in ("", one.id) and request.source_volume_id in ("", one.volume_id)
        }
        if request.starting_token and request.starting_token not in known:
            raise DriverError(f"starting_token {request.starting_token!r} is not valid any more", "ABORTED")
        ids, token = rules.page(known, request.starting_token, request.max_entries)
        return csi.ListSnapshotsResponse(tuple(csi.SnapshotResponse(_shown_snapshot(known[one])) for one in ids), token)

    async def get_snapshot(self, request: csi.SnapshotRequest) -> csi.SnapshotResponse:
        """One snapshot."""
        found = self._store.snapshots.get(rules.checked_id(request.snapshot_id, "snapshot_id"))
        if found is None or not found.is_ready:
            raise NotFound(f"snapshot {request.snapshot_id} not found on node {self._settings.node_name}")
        return csi.SnapshotResponse(_shown_snapshot(found))


def _shown_snapshot(record: SnapshotRecord) -> csi.Snapshot:
    return csi.Snapshot(record.size, record.id, record.volume_id, record.created, record.is_ready)
