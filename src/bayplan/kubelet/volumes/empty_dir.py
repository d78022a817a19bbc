"""emptyDir: a directory that lives as long as its pod, on disk, in memory or in huge pages."""

from __future__ import annotations

from pathlib import Path

from bayplan.api.quantity import parse
from bayplan.kubelet.volumes.directories import (
    HUGE_PAGES,
    MEMORY,
    make_directory,
    make_huge_page_directory,
    make_memory_directory,
    memory_size,
    remove_directory,
)
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage
from bayplan.kubelet.volumes.ownership import set_ownership
from bayplan.kubelet.volumes.usage import disk_usage, file_system_usage, measured
from bayplan.support.system.mounts import mount_at


class EmptyDir(VolumeKind):
    """See the module."""

    name = "kubernetes.io/empty-dir"
    supports_mount_options = False

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.volume is not None and spec.volume.empty_dir is not None

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        return f"{self.name}/{pod_uid}-{spec.name}"

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = context.spec.volume.empty_dir if context.spec.volume is not None else None
        assert source is not None
        host, directory, medium = context.host, context.directory, source.medium
        ready = host.plugin_directory(context.pod.metadata.uid, self.name) / context.spec.name / "ready"
        if _is_there(context, ready, medium):
            return Mounted(str(directory), relabel=True)
        if medium == MEMORY:
            limit = parse(source.size_limit) if source.size_limit is not None else None
            await make_memory_directory(host, directory, memory_size(context.pod, host.allocatable(), limit))
        elif medium == HUGE_PAGES or medium.startswith(f"{HUGE_PAGES}-"):
            await make_huge_page_directory(host, context.pod, directory, medium)
        elif medium:
            raise SetUpError(f'unknown storage medium "{medium}"')
        else:
            await host.blocking(lambda: make_directory(directory))

        def finish() -> None:
            set_ownership(directory, context.fs_group, read_only=False)
            ready.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            ready.touch()

        await host.blocking(finish)
        return Mounted(str(directory), relabel=True)

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind."""
        await remove_directory(context)

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        mounted = mount_at(context.host.mounter.list(context.directory), context.directory) is not None
        return await measured(context, file_system_usage if mounted else disk_usage)


def _is_there(context: SetUp, ready: Path, medium: str) -> bool:
    """Whether the volume is as it was made, perhaps by a kubelet that ran before: its files are the containers' by now."""
    if not ready.exists():
        return False
    if medium:
        return mount_at(context.host.mounter.list(context.directory), context.directory) is not None
    return context.directory.is_dir()
