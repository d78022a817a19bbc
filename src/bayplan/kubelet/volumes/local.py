"""local: a directory or device of the node that a persistent volume names, bound or mounted into the pod's directory.

A device whose volume is a file system gets one when it is first mounted, as Kubernetes does it; what it holds stays. When the device and the persistent volume
have become larger, so does the file system.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from bayplan.api.types import core_v1
from bayplan.kubelet.core.volume_sizes import SUCCESS, finished, given_size
from bayplan.kubelet.objects import ObjectError
from bayplan.kubelet.volumes.directories import remove_mount
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage
from bayplan.kubelet.volumes.ownership import set_ownership
from bayplan.kubelet.volumes.usage import file_system_usage, measured
from bayplan.support.system.mounts import MountError, mount_at

logger = logging.getLogger(__name__)


class Local(VolumeKind):
    """See the module."""

    name = "kubernetes.io/local-volume"
    supports_mount_options = True

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.persistent_volume is not None and spec.persistent_volume.spec.local is not None

    def needs_remount(self, spec: VolumeSpec) -> bool:
        """See VolumeKind. What may be written is looked at because it may grow."""
        return not spec.read_only

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        return f"{self.name}/{spec.name}"

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        spec, host, directory = context.spec, context.host, context.directory
        source = spec.persistent_volume.spec.local if spec.persistent_volume is not None else None
        assert source is not None
        if not source.path:
            raise SetUpError(f'LocalVolume volume "{spec.name}" path is empty')
        if ".." in source.path.split("/"):
            raise SetUpError(f"invalid path: {source.path} must not contain '..'")
        if spec.is_block:
            if not spec.read_only:
                await self._grow(context, source)
            return Mounted(source.path, read_only=spec.read_only, is_device=True)
        mounts = host.mounter.list()
        if mount_at(mounts, directory) is None:
            shared = self._is_mounted_elsewhere(context)
            await host.blocking(lambda: directory.mkdir(mode=0o750, parents=True, exist_ok=True))
            try:
                await self._mount(context, source)
            except BaseException:
                directory.rmdir()
                raise
            if not spec.read_only and not shared:
                group, policy = context.fs_group, context.fs_group_change_policy
                await host.blocking(lambda: set_ownership(directory, group, read_only=False, policy=policy))
        if not spec.read_only:
            await self._grow(context, source)
        return Mounted(str(directory), read_only=spec.read_only, relabel=not spec.read_only)

    @staticmethod
    async def _mount(context: SetUp, source: core_v1.LocalVolumeSource) -> None:
        spec, host, directory = context.spec, context.host, context.directory
        if not await host.blocking(Path(source.path).is_block_device):
            await host.mounter.bind(source.path, directory, read_only=spec.read_only)
            return
        kind = source.fs_type or "ext4"
        if spec.read_only:
            await host.mounter.mount(source.path, directory, kind, sorted({*spec.mount_options, "ro"}))
        else:
            await host.mounter.format_and_mount(source.path, directory, kind, sorted(set(spec.mount_options)))

    @staticmethod
    async def _grow(context: SetUp, source: core_v1.LocalVolumeSource) -> None:
        """Make the file system of a device as large as the volume is said to be by now, and the claim with it. A directory is as large as it is."""
        spec, host = context.spec, context.host
        reference = spec.persistent_volume.spec.claim_ref if spec.persistent_volume is not None else None
        if reference is None:
            return
        try:
            persistent = await host.objects.volume(spec.name)
            claim = await host.objects.claim(reference.namespace, reference.name)
        except ObjectError as error:
            logger.warning("volume %s is not looked at now: %s", spec.name, error)  # what is mounted can be used
            return
        size = given_size(persistent, claim)
        if size is None:
            return
        doing = "MountVolume.NodeExpandVolume"
        try:
            if not spec.is_block and await host.blocking(Path(source.path).is_block_device):
                await host.mounter.grow(source.path, context.directory)
            await host.objects.change_claim_status(claim, finished(claim, size))
        except (MountError, ObjectError) as error:
            raise SetUpError(str(error), doing=doing) from error
        host.event(context.pod, "Normal", SUCCESS, f'{doing} succeeded for volume "{spec.name}"')

    def _is_mounted_elsewhere(self, context: SetUp) -> bool:
        """Whether another pod has the volume already, so that its owner is not to be changed; says so if that is another group."""
        name, pods = context.directory.name, context.host.root / "pods"
        others = [
            each
            for each in context.host.mounter.list()
            if each.path.startswith(f"{pods}/") and each.path.endswith(f"/volumes/kubernetes.io~local-volume/{name}")
        ]
        if others and context.fs_group is not None:
            owner = os.stat(others[0].path).st_gid
            if owner != context.fs_group:
                text = (
                    f"The requested fsGroup is {context.fs_group}, but the volume {name} has GID {owner}. "
                    "The volume may not be shareable."
                )
                context.host.event(context.pod, "Warning", "AlreadyMountedVolume", text)
        return bool(others)

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind."""
        await remove_mount(context)

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        return None if context.spec.is_block else await measured(context, file_system_usage)
