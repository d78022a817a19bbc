"""The replicas of a node's disks, served to heads over TCP.

A head opens a replica with a line of JSON and gets one back. From then on it sends requests of a fixed header (operation, offset, length; the bytes of a write
behind it) and gets an answer to each (error number, length, bytes), in order. A replica remembers the highest epoch by which it was opened and serves the newest
session only, so that whoever was head before can change nothing any more, also with requests that are still on their way.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

logger = logging.getLogger(__name__)

PORT: Final = 9800
REQUEST: Final = struct.Struct(">BQI")
ANSWER: Final = struct.Struct(">II")
READ, WRITE, FLUSH, DIGEST = 1, 2, 3, 4
LONGEST: Final = 4 << 20
"""Bytes of one request at most."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class ReplicaStore:
    """The replicas of a node: `NAME.img`, sparse, and the epoch beside it, on the disks that `mounted` gives by their paths."""

    def __init__(self, mounted: Callable[[str], Path | None]) -> None:
        self._mounted = mounted
        self._sessions: dict[Path, object] = {}

    def image(self, disk: str, volume: str) -> Path:
        """Where a replica is. Raises OSError for a disk that is not here."""
        directory = self._mounted(disk)
        if directory is None or not _NAME.fullmatch(volume):
            raise OSError(errno.ENODEV, f"no disk {disk} for {volume} on this node")
        return directory / f"{volume}.img"

    def open(self, disk: str, volume: str, size: int, epoch: int, *, create: bool) -> Session:
        """Begin a session, which ends the one before. Raises OSError: for an epoch that has passed, or a replica that is not there."""
        image = self.image(disk, volume)
        record = image.with_suffix(".epoch")
        seen = int(record.read_text()) if record.exists() else 0
        if epoch < seen:
            raise OSError(errno.ESTALE, f"epoch {epoch} of {volume} has passed, it is {seen}")
        if not create and not image.exists():
            raise OSError(errno.ENOENT, f"there is no replica of {volume}")
        _write_down(record, str(epoch))
        file = os.open(image, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, size)
        session = Session(self, image, file)
        self._sessions[image] = session
        return session

    def is_newest(self, session: Session) -> bool:
        """Whether no other session was opened since."""
        return self._sessions.get(session.image) is session

    def ended(self, session: Session) -> None:
        """Forget a session."""
        if self.is_newest(session):
            del self._sessions[session.image]

    def is_open(self, image: Path) -> bool:
        """Whether a head uses a replica."""
        return image in self._sessions

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for `asyncio.start_server`."""
        session: Session | None = None
        try:
            wanted: dict[str, Any] = json.loads(await reader.readline())
            try:
                session = self.open(
                    wanted["disk"], wanted["volume"], wanted["size"], wanted["epoch"], create=wanted["create"]
                )
            except OSError as error:
                writer.write(json.dumps({"error": error.strerror, "errno": error.errno}).encode() + b"\n")
                await writer.drain()
                return
            writer.write(b"{}\n")
            while True:
                operation, offset, length = REQUEST.unpack(await reader.readexactly(REQUEST.size))
                data = await reader.readexactly(length) if operation == WRITE and length <= LONGEST else b""
                code, body = 0, b""
                try:
                    body = await session.do(operation, offset, length, data)
                except OSError as error:
                    logger.warning("%s: %s", session.image.name, error)
                    code = error.errno or errno.EIO
                writer.write(ANSWER.pack(code, len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            logger.info("a head has gone")
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("no head speaks like this: %s", error)
        finally:
            if session is not None:
                session.close()
            writer.close()
            with contextlib.suppress(ConnectionError):  # it is closed in any case
                await writer.wait_closed()


class Session:
    """A replica while a head uses it."""

    def __init__(self, store: ReplicaStore, image: Path, file: int) -> None:
        self.image = image
        self._store = store
        self._file = file

    async def do(self, operation: int, offset: int, length: int, data: bytes) -> bytes:
        """One request. Raises OSError, ESTALE for a session that is not the newest any more."""
        if not self._store.is_newest(self):
            raise OSError(errno.ESTALE, "another head has come")
        if length > LONGEST:
            raise OSError(errno.EINVAL, f"{length} bytes are too many for one request")
        if operation == WRITE:
            _write_all(self._file, offset, data)
            return b""
        if operation == READ:
            return await asyncio.to_thread(os.pread, self._file, length, offset)
        if operation == DIGEST:
            found = await asyncio.to_thread(os.pread, self._file, length, offset)
            return hashlib.blake2b(found).digest()
        if operation == FLUSH:
            await asyncio.to_thread(os.fsync, self._file)
            return b""
        raise OSError(errno.EINVAL, f"there is no operation {operation}")

    def close(self) -> None:
        """End it."""
        self._store.ended(self)
        os.close(self._file)


def _write_all(file: int, offset: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _write_down(path: Path, text: str) -> None:
    """Replace a small file so that the new one is on disk when this returns."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
