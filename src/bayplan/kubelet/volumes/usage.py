"""How much a directory or file system uses (pkg/volume/metrics_du.go, metrics_statfs.go)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bayplan.kubelet.volumes.interface import SetUp, VolumeUsage


def disk_usage(directory: Path) -> VolumeUsage:
    """What the files of a directory use, each once however many names it has; other file systems below are not counted. Raises OSError."""
    top = os.lstat(directory)
    used, seen = top.st_blocks * 512, {(top.st_dev, top.st_ino)}
    waiting = [os.fspath(directory)]
    while waiting:
        for entry in _entries(waiting.pop()):
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it went while we were counting
            if found.st_dev != top.st_dev or (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
            used += found.st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return _of_file_system(directory, used, len(seen))


def file_system_usage(directory: Path) -> VolumeUsage:
    """What the whole file system uses that is mounted there. Raises OSError."""
    return _of_file_system(directory, None, None)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _of_file_system(directory: Path, used: int | None, inodes_used: int | None) -> VolumeUsage:
    found = os.statvfs(directory)
    size = found.f_frsize
    return VolumeUsage(
        used_bytes=(found.f_blocks - found.f_bfree) * size if used is None else used,
        capacity_bytes=found.f_blocks * size,
        available_bytes=found.f_bavail * size,
        inodes_used=found.f_files - found.f_ffree if inodes_used is None else inodes_used,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )


async def measured(context: SetUp, measure: Callable[[Path], VolumeUsage]) -> VolumeUsage | None:
    """Measure a volume's directory; None while it does not exist."""
    try:
        return await context.host.blocking(lambda: measure(context.directory))
    except FileNotFoundError:
        return None
