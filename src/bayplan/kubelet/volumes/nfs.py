"""nfs: a directory of an NFS server, mounted by mount.nfs."""

from __future__ import annotations

from bayplan.kubelet.volumes.directories import remove_mount
from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage
from bayplan.kubelet.volumes.usage import file_system_usage, measured
from bayplan.support.system.mounts import mount_at


class Nfs(VolumeKind):
    """See the module."""

    name = "kubernetes.io/nfs"
    supports_mount_options = True

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        if spec.persistent_volume is not None:
            return spec.persistent_volume.spec.nfs is not None
        return spec.volume is not None and spec.volume.nfs is not None

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        return f"{self.name}/{pod_uid}-{spec.name}"

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        spec, host, directory = context.spec, context.host, context.directory
        holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
        source = holder.nfs if holder is not None else None
        assert source is not None
        read_only = spec.read_only if spec.persistent_volume is not None else source.read_only
        if mount_at(host.mounter.list(directory), directory) is None:
            await host.blocking(lambda: directory.mkdir(mode=0o750, parents=True, exist_ok=True))
            server = f"[{source.server}]" if ":" in source.server else source.server
            options = dict.fromkeys((*spec.mount_options, *(("ro",) if read_only else ())))
            try:
                await host.mounter.mount(f"{server}:{source.path}", directory, "nfs", sorted(options))
            except BaseException:
                if mount_at(host.mounter.list(directory), directory) is not None:
                    await host.mounter.unmount(directory)
                directory.rmdir()
                raise
        return Mounted(str(directory), read_only=read_only)

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind."""
        await remove_mount(context)

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        return await measured(context, file_system_usage)
