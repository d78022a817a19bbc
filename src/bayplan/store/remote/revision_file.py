"""The committed revision of a store as eight bytes that several processes have mapped: one writes, all read, without a message.

The file stays when the owner of the store ends, and the next owner goes on with the same one: a client that has not noticed yet is never told less than what any
other client knows.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

from bayplan.support.private_files import open_private

_BYTES: Final = 8


class RevisionFile:
    """The mapped number. Aligned, so that a reader finds the old value or the new one, never a mixture."""

    def __init__(self, path: Path) -> None:
        """Map the file, which is made if there is none. Raises OSError."""
        descriptor = open_private(path, os.O_RDWR)
        try:
            if os.fstat(descriptor).st_size < _BYTES:
                os.ftruncate(descriptor, _BYTES)
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        self._number = memoryview(self._map).cast("Q")

    def get(self) -> int:
        """The last revision that was committed."""
        return self._number[0]

    def set(self, revision: int) -> None:
        """Tell all processes. To be called by the owner of the store, before anybody hears of the commit otherwise."""
        self._number[0] = revision

    def close(self) -> None:
        """Give the mapping back; the file stays."""
        self._number.release()
        self._map.close()
