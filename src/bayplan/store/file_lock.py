"""A lock file that keeps a second process away from a database."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bayplan.store.errors import StoreLocked, StoreUnavailable
from bayplan.support.system.private_files import make_file_private, open_private


class FileLock:
    """Exclusive advisory lock (`flock`) on a file that holds the owner's process id.

    The system frees it when the owner dies, however it dies. The file itself stays: removing it would let two processes
    lock two files of one name.
    """

    def __init__(self, path: Path, protects: Path) -> None:
        self._path = path
        self._protects = protects
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock or raise `StoreLocked` (somebody has it) or `StoreUnavailable` (no such place, no
        permission)."""
        try:
            descriptor = open_private(self._path, os.O_RDWR)
            make_file_private(self._path)
        except OSError as error:
            raise StoreUnavailable(
                f"{self._protects}: cannot write to the directory {self._path.parent} ({error.strerror}); "
                f"make it writable or choose another path"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreLocked(
                f"{self._protects} is in use by process {owner}; stop that process or choose another path"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise StoreUnavailable(f"{self._protects}: cannot lock {self._path} ({error.strerror})") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock up; does nothing if it is not held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
