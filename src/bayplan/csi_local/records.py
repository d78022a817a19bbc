"""What the local driver knows of volumes and snapshots: one JSON file beside the data of each, written in one step.

    DATA/volumes/ID/volume.json       what there is to know
    DATA/volumes/ID/data | image      the content: a directory, or a file
    DATA/snapshots/ID/...             likewise, with snapshot.json
    DATA/volumes/.deleted-ID          what a deletion that was killed has left; it goes at the next start

A record is written before the content is made (`is_ready` is False) and again after it, so that whoever kills the driver in between leaves a volume that the next
call of CreateVolume completes, or DeleteVolume removes.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from bayplan.csi_local.errors import LocalDriverError
from bayplan.support.blocking import Blocking
from bayplan.support.system.private_files import make_private_directory, sync_directory, write_private

logger = logging.getLogger(__name__)

DIRECTORY: Final = "directory"
IMAGE: Final = "image"
_DELETED: Final = ".deleted-"


class VolumeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One volume."""

    id: str
    kind: str
    """DIRECTORY or IMAGE."""
    size: int
    """Bytes. A directory is not held to it."""
    source: str = ""
    """What it was made from, as `rules.source_id` says it."""
    is_ready: bool = False
    """Whether the content is complete."""
    fs_type: str = ""
    """The file system in the image; "" before it is made, and for good in block volumes."""
    fs_size: int = 0
    """Size of the image when the file system was last made as large as it."""
    is_ephemeral: bool = False
    """Whether it goes with its pod."""


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot."""

    id: str
    volume_id: str
    kind: str
    size: int
    """Bytes of the volume when it was taken."""
    created: int
    """Nanoseconds since the epoch."""
    is_ready: bool = False
    fs_type: str = ""
    fs_size: int = 0


R = TypeVar("R", VolumeRecord, SnapshotRecord)


class Records(Generic[R]):
    """The records of one kind. `load` reads them; reading and changing need no lock on one event loop."""

    def __init__(self, directory: Path, cls: type[R], file_name: str, blocking: Blocking) -> None:
        self._directory = directory
        self._cls: type[R] = cls
        self._file = file_name
        self._blocking = blocking
        self._known: dict[str, R] = {}

    def load(self) -> list[Path]:
        """Read what there is; returns what deletions have left. Raises LocalDriverError, OSError."""
        make_private_directory(self._directory)
        left = []
        for each in sorted(self._directory.iterdir()):
            if each.name.startswith(_DELETED):
                left.append(each)
                continue
            file = each / self._file
            if not file.exists():
                logger.warning("%s has no %s, it is left alone", each, self._file)
                continue
            try:
                record = msgspec.json.decode(file.read_bytes(), type=self._cls)
            except msgspec.DecodeError as error:
                raise LocalDriverError(
                    f"{file} cannot be read: {error}; move {each} away to go on without it"
                ) from error
            self._known[record.id] = record
        return left

    def get(self, record_id: str) -> R | None:
        """A record, None if there is none."""
        return self._known.get(record_id)

    def all(self) -> list[R]:
        """All of them by id."""
        return [self._known[one] for one in sorted(self._known)]

    def directory(self, record_id: str) -> Path:
        """Where the record and its content are."""
        return self._directory / record_id

    async def put(self, record: R) -> None:
        """Write a record; when this returns it is on disk. Raises OSError."""
        directory = self.directory(record.id)

        def write() -> None:
            if not directory.is_dir():
                make_private_directory(directory)
                sync_directory(self._directory)
            write_private(directory / self._file, msgspec.json.encode(record))

        await self._blocking(write)
        self._known[record.id] = record

    async def take_away(self, record_id: str) -> Path:
        """Forget a record at once and for good; returns where its content is now, which is to be removed. Raises OSError."""
        directory, gone = self.directory(record_id), self._directory / f"{_DELETED}{record_id}"

        def rename() -> None:
            directory.rename(gone)
            sync_directory(self._directory)

        await self._blocking(rename)
        del self._known[record_id]
        return gone
