"""One file of FUSE, in the kernel's own protocol (linux/fuse.h, version 7.31): its reads, writes and flushes are answered by an asyncio program.

The root of the file system is the file itself, so there are no directories, names or handles: mount it on a file, and use that file as the image of a loop device.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import stat
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

logger = logging.getLogger(__name__)

_IN: Final = struct.Struct("<IIQQIIIHH")
"""len, opcode, unique, nodeid, uid, gid, pid, length of extensions, padding."""
_OUT: Final = struct.Struct("<IiQ")
"""len, error, unique."""
_INIT_OUT: Final = struct.Struct("<IIIIHHIIHHI28x")
_ATTRIBUTES: Final = struct.Struct("<QII QQQQQQ IIIIIIIIII")
_TRANSFER: Final = struct.Struct("<QQIIQII")
"""Handle, offset, size, and flags of a read or a write; the bytes to write come behind it."""
_GETATTR, _SETATTR, _STATFS, _OPEN, _READ, _WRITE = 3, 4, 17, 14, 15, 16
_FORGET, _RELEASE, _FSYNC, _FLUSH, _INIT, _INTERRUPT, _DESTROY, _BATCH_FORGET = 2, 18, 20, 25, 26, 36, 38, 42
_UNANSWERED: Final = frozenset({_FORGET, _INTERRUPT, _BATCH_FORGET})
_ASYNC_READ, _BIG_WRITES, _MAX_PAGES = 1, 1 << 5, 1 << 22
_MAX_WRITE: Final = 1 << 20
_BLOCK: Final = 4096
_NOSUID, _NODEV, _DETACH = 2, 4, 2


class Content(Protocol):
    """What is in the file."""

    size: int

    async def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file. Raises OSError."""

    async def write(self, offset: int, data: bytes) -> None:
        """Change bytes of the file. Requests come in the kernel's order and are submitted before the first await. Raises OSError."""

    async def flush(self) -> None:
        """Return when all that was written is on disk. Raises OSError."""


class FuseFile:
    """A content as a file of this machine. A process that ends takes the file with it: whoever reads or writes then gets an error."""

    def __init__(self, content: Content, path: Path) -> None:
        self.path = path
        self._content = content
        self._device = -1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[int, Callable[[bytes], Awaitable[bytes]]] = {
            _INIT: self._init,
            _GETATTR: self._attributes,
            _SETATTR: self._attributes,
            _STATFS: self._statistics,
            _OPEN: self._open,
            _READ: self._read,
            _WRITE: self._write,
            _FSYNC: self._flush,
            _FLUSH: self._nothing,
            _RELEASE: self._nothing,
            _DESTROY: self._nothing,
        }

    def mount(self) -> None:
        """Make the file. Raises OSError."""
        self.path.touch()
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        data = f"fd={self._device},rootmode={stat.S_IFREG | 0o600:o},user_id=0,group_id=0"
        if self._libc.mount(b"replicated", os.fsencode(self.path), b"fuse", _NOSUID | _NODEV, data.encode()) != 0:
            number = ctypes.get_errno()
            self._close()
            raise OSError(number, f"mount of FUSE: {os.strerror(number)}")
        asyncio.get_running_loop().add_reader(
            self._device, self._readable
        )  # not before: an unmounted device cannot be polled

    async def unmount(self) -> None:
        """Remove the file, when the last user has closed it. Raises OSError."""
        if await asyncio.to_thread(self._libc.umount2, os.fsencode(self.path), _DETACH) != 0:
            logger.warning("%s is not mounted any more", self.path)
        self._close()
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._device >= 0:
            asyncio.get_running_loop().remove_reader(self._device)  # harmless where there is none
            os.close(self._device)
            self._device = -1

    def _readable(self) -> None:
        """Take requests off the device, all that there are."""
        while self._device >= 0:
            try:
                request = os.read(self._device, _MAX_WRITE + _BLOCK)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue  # the request was interrupted before it was read
                if error.errno != errno.ENODEV:
                    raise
                self._close()  # unmounted, and nobody has the file open
                return
            task = asyncio.get_running_loop().create_task(self._answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: bytes) -> None:
        _, opcode, unique, *_ = _IN.unpack_from(request)
        if opcode in _UNANSWERED:
            return
        body, code = b"", 0
        answer = self._answers.get(opcode)
        if answer is None:
            code = errno.ENOSYS
        else:
            try:
                body = await answer(request[_IN.size :])
            except OSError as error:
                logger.warning("%s: %s", self.path, error)
                code = error.errno or errno.EIO
        if self._device < 0:
            return
        try:
            os.write(self._device, _OUT.pack(_OUT.size + len(body), -code, unique) + body)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # interrupted, or unmounted
                raise

    async def _init(self, body: bytes) -> bytes:
        _, _, readahead, offered = struct.unpack_from("<IIII", body)
        flags = offered & (_ASYNC_READ | _BIG_WRITES | _MAX_PAGES)
        return _INIT_OUT.pack(7, 31, readahead, flags, 64, 48, _MAX_WRITE, 1, _MAX_WRITE // _BLOCK, 0, 0)

    async def _attributes(self, body: bytes) -> bytes:
        size, mode = self._content.size, stat.S_IFREG | 0o600
        times = (0,) * 6
        return _ATTRIBUTES.pack(3600, 0, 0, 1, size, size // 512, *times[:3], *times[3:], mode, 1, 0, 0, 0, _BLOCK, 0)

    async def _statistics(self, body: bytes) -> bytes:
        return struct.pack("<QQQQQIIII24x", self._content.size // _BLOCK, 0, 0, 1, 0, _BLOCK, 255, _BLOCK, 0)

    async def _open(self, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0)

    async def _read(self, body: bytes) -> bytes:
        _, offset, length, *_ = _TRANSFER.unpack_from(body)
        return await self._content.read(offset, max(0, min(length, self._content.size - offset)))

    async def _write(self, body: bytes) -> bytes:
        _, offset, length, *_ = _TRANSFER.unpack_from(body)
        if offset + length > self._content.size:
            raise OSError(errno.ENOSPC, "behind the end of the volume")
        await self._content.write(offset, body[_TRANSFER.size : _TRANSFER.size + length])
        return struct.pack("<II", length, 0)

    async def _flush(self, body: bytes) -> bytes:
        await self._content.flush()
        return b""

    async def _nothing(self, body: bytes) -> bytes:
        return b""
