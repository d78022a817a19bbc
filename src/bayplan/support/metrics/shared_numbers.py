"""Whole numbers in memory that several processes have mapped: one process writes each, all read, without a message."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final, Self

from bayplan.support.system.private_files import open_private

_BYTES: Final = 8


class SharedNumbers:
    """Numbers from 0 to 2**64 - 1. Each is aligned, so that a reader finds an old value or a new one, never a mixture."""

    def __init__(self, descriptor: int, count: int) -> None:
        """Map a file, which is made long enough; new numbers are 0. Raises OSError."""
        size = _BYTES * count
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        self._map = mmap.mmap(descriptor, size)
        self._numbers = memoryview(self._map).cast("Q")

    @classmethod
    def at(cls, path: Path, count: int) -> Self:
        """In a private file, which is made if there is none. Raises OSError."""
        descriptor = open_private(path, os.O_RDWR)
        try:
            return cls(descriptor, count)
        finally:
            os.close(descriptor)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> int:
        return self._numbers[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._numbers[index] = value

    def close(self) -> None:
        """Give the mapping back; the file stays."""
        self._numbers.release()
        self._map.close()
