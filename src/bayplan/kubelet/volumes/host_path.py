"""hostPath: a file or directory of the node."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def check_host_path(path: str, kind: str) -> None:
    """See that a path is what it is to be, and make it where it may be made. Raises SetUpError, OSError."""
    if ".." in path.split("/"):
        raise SetUpError(f"invalid HostPath `{path}`: must not contain '..'")
    if not kind:
        return
    if kind == "DirectoryOrCreate" and not os.path.exists(path):
        os.makedirs(path, mode=0o755, exist_ok=True)
        return
    if kind == "FileOrCreate" and not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        return
    check = _CHECKS.get(kind)
    if check is None:
        raise SetUpError(f"{kind} is an invalid volume type")
    is_right, noun = check
    try:
        mode = os.stat(path).st_mode
    except OSError:
        mode = 0
    if not is_right(mode):
        raise SetUpError(f"hostPath type check failed: {path} is not {noun}")


class HostPath(VolumeKind):
    """See the module."""

    name = "kubernetes.io/host-path"
    supports_mount_options = False

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        if spec.persistent_volume is not None:
            return spec.persistent_volume.spec.host_path is not None
        return spec.volume is not None and spec.volume.host_path is not None

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        return f"{self.name}/{pod_uid}-{spec.name}"

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        spec = context.spec
        holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
        source = holder.host_path if holder is not None else None
        assert source is not None
        await context.host.blocking(lambda: check_host_path(source.path, source.type or ""))
        return Mounted(source.path, read_only=spec.read_only)

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind: the node's files stay."""

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        return None
