"""The node service of the local driver: volumes are brought to where pods have them.

An image gets a loop device and is mounted at the staging path; targets are bind mounts of that (block volumes: of the device). A directory needs no staging, its
targets are bind mounts of it. What is mounted is read from the kernel each time, so that every call may be repeated, also by a driver that has started anew.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument, NotFound
from bayplan.csi_local import filesystems, rules
from bayplan.csi_local.controller import ControllerService
from bayplan.csi_local.operations import Operations
from bayplan.csi_local.records import DIRECTORY, IMAGE, VolumeRecord
from bayplan.csi_local.settings import TOPOLOGY_KEY, LocalDriverSettings
from bayplan.csi_local.volumes import LocalVolumes
from bayplan.support.system.mounts import MountPoint, clean_up_mount_point, mount_at

logger = logging.getLogger(__name__)

_N = csi.NodeCapability
CAPABILITIES: Final = (_N.STAGE_UNSTAGE_VOLUME, _N.GET_VOLUME_STATS, _N.EXPAND_VOLUME, _N.SINGLE_NODE_MULTI_WRITER)
_OWN_STAGING: Final = "staging"
"""Where an inline image is mounted, beside it: the kubelet stages none of these."""


class NodeService:
    """See the module."""

    def __init__(
        self,
        settings: LocalDriverSettings,
        volumes: LocalVolumes,
        controller: ControllerService,
        operations: Operations,
    ) -> None:
        self._settings = settings
        self._store = volumes
        self._controller = controller
        self._operations = operations

    async def node_get_capabilities(self, request: csi.Empty) -> csi.CapabilitiesResponse:
        """See CAPABILITIES."""
        return csi.CapabilitiesResponse(tuple(csi.RpcCapability(csi.Enumerated(one)) for one in CAPABILITIES))

    async def node_get_info(self, request: csi.Empty) -> csi.NodeGetInfoResponse:
        """This node."""
        topology = csi.Topology({TOPOLOGY_KEY: self._settings.node_name})
        return csi.NodeGetInfoResponse(self._settings.node_name, self._settings.max_volumes_per_node, topology)

    def _volume(self, volume_id: str) -> VolumeRecord:
        found = self._store.volumes.get(rules.checked_id(volume_id, "volume_id"))
        if found is None or not found.is_ready:
            raise NotFound(f"volume {volume_id} not found on node {self._settings.node_name}")
        return found

    # Staging

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.Empty:
        """Give an image its device, and mount it unless it is used as a block device."""
        volume, staging = self._volume(request.volume_id), _path(request.staging_target_path, "staging_target_path")
        capability = _checked(request.volume_capability, volume)
        await self._operations.run(self._stage(volume.id, staging, capability), volume.id)
        return csi.Empty()

    async def _stage(self, volume_id: str, staging: Path, capability: csi.VolumeCapability) -> None:
        volume = self._volume(volume_id)
        if volume.kind == DIRECTORY:
            return
        device = await self._store.loops.attach(self._store.content(volume))
        await self._store.loops.refresh(device)
        if capability.mount is None:
            return
        mount = capability.mount
        wanted = mount.fs_type or volume.fs_type or rules.DEFAULT_FS
        mounted = mount_at(self._store.mounter.list(staging), staging)
        if mounted is not None:
            if mounted.source == str(device) and mounted.type == wanted:
                return
            raise DriverError(f"{staging} has {mounted.source} ({mounted.type}) mounted", "ALREADY_EXISTS")
        if volume.fs_type and volume.fs_type != wanted:
            raise DriverError(f"volume {volume.id} has {volume.fs_type} on it, not {wanted}", "FAILED_PRECONDITION")
        volume = await self._formatted(volume, device, wanted)
        await self._store.blocking(lambda: staging.mkdir(parents=True, exist_ok=True))
        options = (*mount.mount_flags, *(("nouuid",) if wanted == "xfs" else ()))  # copies have the same one
        await self._store.mounter.mount(str(device), staging, wanted, options)
        if volume.fs_size < volume.size:
            await filesystems.grow_mounted(device, wanted, staging)
            await self._store.volumes.put(replace(volume, fs_size=volume.size))

    async def _formatted(self, volume: VolumeRecord, device: Path, fs_type: str) -> VolumeRecord:
        """See that there is a file system that is as large as the image, as far as that is possible before it is mounted."""
        mounted = bool(self._store.image_mounts(volume))
        if not volume.fs_type:
            await filesystems.make(device, fs_type)
            volume = replace(volume, fs_type=fs_type, fs_size=volume.size)
            await self._store.volumes.put(volume)
        elif volume.fs_size < volume.size and not mounted and fs_type != "xfs":
            await filesystems.grow_unmounted(device, fs_type)
            volume = replace(volume, fs_size=volume.size)
            await self._store.volumes.put(volume)
        return volume

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.Empty:
        """Unmount an image and take its device."""
        volume_id = rules.checked_id(request.volume_id, "volume_id")
        staging = _path(request.staging_target_path, "staging_target_path")
        await self._operations.run(self._unstage(volume_id, staging), volume_id)
        return csi.Empty()

    async def _unstage(self, volume_id: str, staging: Path) -> None:
        mounter = self._store.mounter
        while mount_at(mounter.list(staging), staging) is not None:
            await mounter.unmount(staging)
        volume = self._store.volumes.get(volume_id)
        if volume is None or volume.kind == DIRECTORY:
            return
        if not self._store.image_mounts(volume) and not self._device_targets(volume):
            await self._store.loops.detach(self._store.content(volume))

    # Publishing

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.Empty:
        """Bring a volume to a pod."""
        target = _path(request.target_path, "target_path")
        volume_id = rules.checked_id(request.volume_id, "volume_id")
        if rules.is_ephemeral(request.volume_context):
            await self._operations.run(self._publish_inline(request, target), volume_id)
            return csi.Empty()
        volume = self._volume(volume_id)
        _checked(request.volume_capability, volume)
        await self._operations.run(self._publish(volume, request, target), volume_id)
        return csi.Empty()

    async def _publish(self, volume: VolumeRecord, request: csi.NodePublishVolumeRequest, target: Path) -> None:
        capability = request.volume_capability
        assert capability is not None
        if volume.kind == DIRECTORY:
            source = self._store.content(volume)
        elif capability.block is not None:
            devices = self._store.loops.of(self._store.content(volume))
            if not devices:
                raise DriverError(f"volume {volume.id} is not staged", "FAILED_PRECONDITION")
            source = devices[0]
        else:
            source = _path(request.staging_target_path, "staging_target_path")
            mounted = mount_at(self._store.mounter.list(source), source)
            if mounted is None or mounted not in self._store.image_mounts(volume):
                raise DriverError(f"volume {volume.id} is not staged at {source}", "FAILED_PRECONDITION")
        await self._bind(volume, capability, source, target, read_only=request.readonly)

    async def _bind(
        self, volume: VolumeRecord, capability: csi.VolumeCapability, source: Path, target: Path, *, read_only: bool
    ) -> None:
        mode = capability.access_mode.mode if capability.access_mode is not None else 0
        read_only = read_only or mode == csi.Access.SINGLE_NODE_READER_ONLY
        mounted = mount_at(self._store.mounter.list(target), target)
        if mounted is not None:
            if not self._is_of(mounted, volume):
                raise DriverError(f"{target} has something else mounted ({mounted.source})", "ALREADY_EXISTS")
            if read_only != ("ro" in mounted.options):
                raise DriverError(
                    f"{target} is published already, {'' if read_only else 'not '}to be written to", "ALREADY_EXISTS"
                )
            return
        others = [one for one in self._paths(volume) if one not in (str(target), str(source))]
        if others and mode == csi.Access.SINGLE_NODE_SINGLE_WRITER:
            raise DriverError(
                f"volume {volume.id} is published at {others[0]}, and may be at one path only", "FAILED_PRECONDITION"
            )
        await self._store.blocking(lambda: _make_mount_point(target, is_file=capability.block is not None))
        await self._store.mounter.bind(str(source), target, read_only=read_only)

    def _is_of(self, mounted: MountPoint, volume: VolumeRecord) -> bool:
        if volume.kind == DIRECTORY:
            return self._store.shows(mounted, volume)
        return mounted in self._store.image_mounts(volume) or mounted in self._device_targets(volume)

    def _device_targets(self, volume: VolumeRecord) -> list[MountPoint]:
        """Where the device of a block volume is bound to."""
        roots = {f"/{one.name}" for one in self._store.loops.of(self._store.content(volume))}
        return [one for one in self._store.mounter.list() if one.type == "devtmpfs" and one.root in roots]

    def _paths(self, volume: VolumeRecord) -> list[str]:
        """Where the volume is mounted."""
        if volume.kind == DIRECTORY:
            return [one.path for one in self._store.mounter.list() if self._store.shows(one, volume)]
        return [one.path for one in (*self._store.image_mounts(volume), *self._device_targets(volume))]

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.Empty:
        """Take a volume from a pod; an inline volume ends with that."""
        volume_id = rules.checked_id(request.volume_id, "volume_id")
        target = _path(request.target_path, "target_path")
        await self._operations.run(self._unpublish(volume_id, target), volume_id)
        return csi.Empty()

    async def _unpublish(self, volume_id: str, target: Path) -> None:
        await clean_up_mount_point(self._store.mounter, target)
        volume = self._store.volumes.get(volume_id)
        if volume is not None and volume.is_ephemeral:
            staging = self._store.volumes.directory(volume_id) / _OWN_STAGING
            await self._unstage(volume_id, staging)
            await self._controller.delete(volume_id)

    async def _publish_inline(self, request: csi.NodePublishVolumeRequest, target: Path) -> None:
        attributes = {
            name: value
            for name, value in request.volume_context.items()
            if name != "size" and not name.startswith("csi.storage.k8s.io/")
        }
        kind = rules.type_of(attributes)
        capability = request.volume_capability
        rules.check_capabilities([capability] if capability is not None else [], kind)
        assert capability is not None
        volume_id = rules.id_of(request.volume_id)
        if volume_id != request.volume_id:
            raise InvalidArgument(f"{request.volume_id!r} cannot be the id of an inline volume")
        volume = self._store.volumes.get(volume_id)
        if volume is not None and not volume.is_ephemeral:
            raise DriverError(f"volume {volume_id} exists and is no inline volume", "ALREADY_EXISTS")
        if volume is None or not volume.is_ready:
            size = rules.size_for(
                csi.CapacityRange(rules.ephemeral_size(request.volume_context)),
                kind,
                file_systems=rules.fs_types([capability]),
            )
            planned = volume or VolumeRecord(id=volume_id, kind=kind, size=size, is_ephemeral=True)
            volume = await self._controller.complete(planned, None)
        source = self._store.content(volume)
        if volume.kind == IMAGE:
            source = self._store.volumes.directory(volume_id) / _OWN_STAGING
            await self._stage(volume_id, source, capability)
        await self._bind(volume, capability, source, target, read_only=request.readonly)

    # Figures and growth

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        """How full a volume is: a block volume's size, a directory's whole disk."""
        volume, path = self._volume(request.volume_id), _path(request.volume_path, "volume_path")
        mounted = mount_at(self._store.mounter.list(path), path)
        if mounted is None or not self._is_of(mounted, volume):
            raise NotFound(f"volume {volume.id} is not published at {path}")
        if volume.kind == IMAGE and mounted in self._device_targets(volume):
            return csi.NodeGetVolumeStatsResponse((csi.VolumeUsage(total=volume.size, unit=csi.Unit.BYTES),))
        return csi.NodeGetVolumeStatsResponse(await self._store.blocking(lambda: _usage(path)))

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        """Let the device and the file system have the size of the image."""
        volume = self._volume(request.volume_id)
        path = _path(request.volume_path, "volume_path")
        size = await self._operations.run(self._expand(volume.id, path), volume.id)
        return csi.NodeExpandVolumeResponse(size)

    async def _expand(self, volume_id: str, path: Path) -> int:
        volume = self._volume(volume_id)
        if volume.kind == DIRECTORY:
            return volume.size
        for device in self._store.loops.of(self._store.content(volume)):
            await self._store.loops.refresh(device)
            mounts = [one for one in self._store.image_mounts(volume) if one.source == str(device)]
            if mounts and volume.fs_size < volume.size:
                await filesystems.grow_mounted(device, volume.fs_type, Path(mounts[0].path))
                await self._store.volumes.put(replace(volume, fs_size=volume.size))
            return volume.size
        raise NotFound(f"volume {volume_id} is not published at {path}")


def _checked(capability: csi.VolumeCapability | None, volume: VolumeRecord) -> csi.VolumeCapability:
    problem = rules.unsupported(capability, volume.kind)
    if problem:
        raise InvalidArgument(problem)
    assert capability is not None
    return capability


def _path(text: str, what: str) -> Path:
    if not text.startswith("/"):
        raise InvalidArgument(f"{what}: {text!r} is no absolute path")
    return Path(text)


def _make_mount_point(target: Path, *, is_file: bool) -> None:
    if is_file:
        target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        target.touch(mode=0o600)
    else:
        target.mkdir(mode=0o750, parents=True, exist_ok=True)


def _usage(path: Path) -> tuple[csi.VolumeUsage, ...]:
    stats = os.statvfs(path)
    size = stats.f_frsize
    return (
        csi.VolumeUsage(
            stats.f_bavail * size, stats.f_blocks * size, (stats.f_blocks - stats.f_bfree) * size, csi.Unit.BYTES
        ),
        csi.VolumeUsage(stats.f_favail, stats.f_files, stats.f_files - stats.f_ffree, csi.Unit.INODES),
    )
