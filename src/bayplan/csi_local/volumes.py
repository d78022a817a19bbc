"""The content of volumes and snapshots on the disk: made, copied, made larger, removed.

Copies are made beside their place under a name of their own and moved there when they are complete. A copy that outlives a driver that was killed therefore writes
into files that nobody looks at.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bayplan.csi_local import filesystems
from bayplan.csi_local.errors import LocalDriverError
from bayplan.csi_local.loop_devices import LoopDevices
from bayplan.csi_local.records import DIRECTORY, Records, SnapshotRecord, VolumeRecord
from bayplan.support.blocking import Blocking
from bayplan.support.randomness import Randomness
from bayplan.support.system.mounts import Mounter, MountPoint
from bayplan.support.system.private_files import sync_directory
from bayplan.support.system.programs import ProgramError, run

_CONTENT: Final = {DIRECTORY: "data", "image": "image"}
_UNFINISHED: Final = ".unfinished-"
_FROZEN: Final = "frozen"
"""A file that says where a volume's file system is held still."""


class LocalVolumes:
    """Volumes and snapshots below one directory."""

    def __init__(
        self, data_dir: Path, loops: LoopDevices, mounter: Mounter, *, blocking: Blocking, randomness: Randomness
    ) -> None:
        self.data_dir = data_dir
        self.volumes: Records[VolumeRecord] = Records(data_dir / "volumes", VolumeRecord, "volume.json", blocking)
        self.snapshots: Records[SnapshotRecord] = Records(
            data_dir / "snapshots", SnapshotRecord, "snapshot.json", blocking
        )
        self.loops = loops
        self.mounter = mounter
        self.blocking = blocking
        self._randomness = randomness

    async def open(self) -> None:
        """Read what there is, and finish what a driver that was killed has left. Raises LocalDriverError."""
        try:
            left = [*self.volumes.load(), *self.snapshots.load()]
            for each in left:
                await self.remove(each)
            for volume in self.volumes.all():
                await self._thaw(volume)
        except OSError as error:
            raise LocalDriverError(f"{self.data_dir} cannot be used: {error}; choose another --data-dir") from error

    def content(self, record: VolumeRecord | SnapshotRecord) -> Path:
        """The directory or image."""
        records: Records[VolumeRecord] | Records[SnapshotRecord]
        records = self.volumes if isinstance(record, VolumeRecord) else self.snapshots
        return records.directory(record.id) / _CONTENT[record.kind]

    async def make_empty(self, volume: VolumeRecord) -> None:
        """Make the content of a new volume. Raises OSError."""
        path = self.content(volume)

        def make() -> None:
            if volume.kind == DIRECTORY:
                path.mkdir(exist_ok=True)
                path.chmod(0o777)  # like an empty directory: who may write is up to the pod's fsGroup
            else:
                with path.open("ab") as stream:
                    stream.truncate(volume.size)
                path.chmod(0o600)
            sync_directory(path.parent)

        await self.blocking(make)

    async def copy(self, source: VolumeRecord | SnapshotRecord, target: VolumeRecord | SnapshotRecord) -> None:
        """Make the content of `target` a copy of that of `source`, as of one moment if it is an image. Raises ProgramError, OSError."""
        path = self.content(target)
        unfinished = path.with_name(f"{_UNFINISHED}{self._randomness.suffix(8)}")
        await self._remove_unfinished(path.parent)
        async with self._still(source):
            await run("cp", "--archive", "--reflink=auto", "--sparse=auto", str(self.content(source)), str(unfinished))

        def finish() -> None:
            if target.kind != DIRECTORY:
                with unfinished.open("r+b") as stream:
                    stream.truncate(max(target.size, unfinished.stat().st_size))
                    os.fsync(stream.fileno())
            if path.exists():  # of an attempt whose record was not written any more
                _remove(path)
            unfinished.rename(path)
            sync_directory(path.parent)

        await self.blocking(finish)

    async def _remove_unfinished(self, directory: Path) -> None:
        for each in await self.blocking(lambda: list(directory.glob(f"{_UNFINISHED}*"))):
            await self.remove(each)

    @asynccontextmanager
    async def _still(self, source: VolumeRecord | SnapshotRecord) -> AsyncIterator[None]:
        """Hold a mounted image still. Where it is held is written down first: file systems that stay frozen stop all who use them."""
        mounts = self.image_mounts(source) if isinstance(source, VolumeRecord) else []
        if not mounts:
            yield
            return
        assert isinstance(source, VolumeRecord)
        mark = self.volumes.directory(source.id) / _FROZEN
        await self.blocking(lambda: _write(mark, mounts[0].path))
        try:
            await filesystems.freeze(Path(mounts[0].path))
            yield
        finally:
            await self._thaw(source)

    async def _thaw(self, volume: VolumeRecord) -> None:
        mark = self.volumes.directory(volume.id) / _FROZEN
        if not mark.exists():
            return
        where = Path(mark.read_text())
        if any(each.path == str(where) for each in self.image_mounts(volume)):
            with contextlib.suppress(ProgramError):  # it was not frozen yet, or is no more
                await filesystems.thaw(where)
        mark.unlink()

    async def grow(self, volume: VolumeRecord, size: int) -> None:
        """Make an image at least so large. Raises OSError."""
        path = self.content(volume)

        def truncate() -> None:
            if path.stat().st_size < size:
                os.truncate(path, size)

        if volume.kind != DIRECTORY:
            await self.blocking(truncate)

    async def remove(self, path: Path) -> None:
        """Remove a file or a directory with all that is in it. Raises OSError."""
        await self.blocking(lambda: _remove(path))

    def image_mounts(self, volume: VolumeRecord) -> list[MountPoint]:
        """Where the file system in a volume's image is mounted."""
        if volume.kind == DIRECTORY:
            return []
        devices = {str(one) for one in self.loops.of(self.content(volume))}
        return [each for each in self.mounter.list() if each.source in devices and each.type != "devtmpfs"]

    def is_in_use(self, volume: VolumeRecord) -> bool:
        """Whether a volume is staged or published on this node."""
        if volume.kind != DIRECTORY:
            return bool(self.loops.of(self.content(volume)))
        return any(self.shows(each, volume) for each in self.mounter.list())

    def shows(self, mount: MountPoint, volume: VolumeRecord) -> bool:
        """Whether a mount is one of a volume's directory."""
        path = self.content(volume)
        if not path.is_dir() or not mount.root.endswith(f"/volumes/{volume.id}/{path.name}"):
            return False
        device = path.stat().st_dev
        return mount.device == f"{os.major(device)}:{os.minor(device)}"

    def free_bytes(self) -> int:
        """What new volumes may take: what is free, without what images that are not full yet may still take."""
        stats = os.statvfs(self.data_dir)
        return max(0, stats.f_bavail * stats.f_frsize - self._promised(self.volumes.all()))

    def _promised(self, volumes: Iterable[VolumeRecord]) -> int:
        promised = 0
        for each in volumes:
            path = self.content(each)
            if each.kind != DIRECTORY and path.exists():
                promised += max(0, each.size - path.stat().st_blocks * 512)
        return promised


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
