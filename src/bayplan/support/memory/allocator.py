"""The C library's allocator, for a process that answers requests: blocks of some hundred kilobytes come and go all the time."""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of mallopt(3)."""
_SETTINGS: Final = {_MMAP_THRESHOLD: 4 << 20, _TRIM_THRESHOLD: 32 << 20, _TOP_PAD: 1 << 20}
"""Bytes: blocks that get a mapping of their own, free memory that goes back to the system, and by how much the heap grows."""


def release_freed_memory() -> None:
    """Give the system back what `keep_freed_memory` has kept and nobody uses now. Does nothing where the C library is not glibc."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return
    trim(0)


def keep_freed_memory() -> None:
    """Let blocks of usual sizes stay with the process when they are freed.

    With the defaults they go back to the system each time, which clears their pages anew when they are needed again; that took a tenth of a busy API
    server's time. Does nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    for parameter, value in _SETTINGS.items():
        mallopt(parameter, value)
