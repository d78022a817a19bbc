"""Where the files of a driver's volume are on the node, and how what is left of one that has gone is removed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bayplan.kubelet.csi import volume_data
from bayplan.kubelet.csi.requests import Source
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import SetUp, VolumeHost
from bayplan.support.system.mounts import mount_at


@dataclass(frozen=True, slots=True)
class Places:
    """Where a volume is staged and published, and where what is known of it is kept: for staging and for publishing."""

    staging: Path
    staging_data: Path
    target: Path
    target_data: Path


def places_of(context: SetUp, source: Source) -> Places:
    """The places of a pod's volume."""
    root, spec = context.host.root, context.spec
    if spec.is_block:
        staging = volume_data.device_staging_path(root, spec.name)
        data = volume_data.device_data(root, spec.name)
        return Places(staging, data, volume_data.device_publish_path(root, spec.name, context.pod.metadata.uid), data)
    staging = volume_data.staging_path(root, source)
    return Places(staging, staging.parent, context.directory / volume_data.MOUNT, context.directory)


async def forget_mount(host: VolumeHost, path: Path, data: Path) -> None:
    """Remove an empty mount point and what is known of it; nothing that is still mounted. Raises SetUpError, OSError."""
    if mount_at(host.mounter.list(path), path) is not None:
        raise SetUpError(f"{volume_data.KIND}: the driver has left {path} mounted")

    def remove() -> None:
        if path.exists():
            path.rmdir()
        volume_data.remove(data)

    await host.blocking(remove)


def forget_device(root: Path, staging: Path, name: str) -> None:
    """Remove what is left of a device that was unstaged. name: of the volume. Raises OSError."""
    data = volume_data.device_data(root, name)
    if staging.is_dir():
        staging.rmdir()
    volume_data.remove(data)
    if data.parent.is_dir():
        data.parent.rmdir()


def link_device(link: Path, target: Path) -> None:
    """Let a pod's link lead to its device. Raises OSError."""
    link.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if not link.is_symlink():
        os.symlink(target, link)
