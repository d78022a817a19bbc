"""Random bytes of the system, drawn ahead.

To ask the system for twelve bytes takes twelve microseconds in a process with threads: each call lets go of the interpreter's lock, which wakes whoever waits for
it. Nothing is made here: all bytes are the system's, and each is given out once. What was drawn is given out within a second and never in a forked process, so that
copies of a process, or of a machine in a snapshot, hardly ever have bytes in common; what must not happen at all, as with keys, is not drawn here.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

_BYTES: Final = 4096
_SECONDS: Final = 1.0


class RandomPool:
    """So many bytes that nobody can guess, at each call. May be called from several threads."""

    def __init__(self, monotonic: Callable[[], float], draw: Callable[[int], bytes] = os.urandom) -> None:
        """monotonic: seconds of a clock that never goes back; draw: the system's source."""
        self._monotonic = monotonic
        self._draw = draw
        self._clear()
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _clear(itself))

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""
        self._at = 0
        """How many of them have been given out."""
        self._drawn = float("-inf")
        """When they were drawn."""

    def __call__(self, size: int) -> bytes:
        with self._lock:
            now, start = self._monotonic(), self._at
            if start + size > len(self._bytes) or now - self._drawn >= _SECONDS:
                self._bytes, self._drawn, start = self._draw(max(_BYTES, size)), now, 0
            self._at = end = start + size
            return self._bytes[start:end]


def _clear(pool: weakref.ref[RandomPool]) -> None:
    found = pool()
    if found is not None:
        found._clear()
