"""Usage of volumes as drivers report it."""

from __future__ import annotations

from bayplan.csi import messages as csi
from bayplan.kubelet.volumes.interface import VolumeUsage


def usage_of(stats: csi.NodeGetVolumeStatsResponse) -> VolumeUsage | None:
    """The usage that a driver's answer tells, in bytes and inodes; None without a figure in bytes."""
    size = next((each for each in stats.usage if each.unit == csi.Unit.BYTES), None)
    if size is None:
        return None
    inodes = next((each for each in stats.usage if each.unit == csi.Unit.INODES), csi.VolumeUsage())
    return VolumeUsage(
        used_bytes=size.used,
        capacity_bytes=size.total,
        available_bytes=size.available,
        inodes_used=inodes.used,
        inodes=inodes.total,
        inodes_free=inodes.available,
    )
