"""The share of one process in the connections of several that listen on the same socket.

Left alone, the system wakes the process that waits first, and hands most connections to one (measured: 20 of 20 that came one after the other). So each process
shows how many it has, and leaves new ones to a process that has fewer, for a moment: one that is stopped or busy does not come for them, and is not waited for.
"""

from __future__ import annotations

from typing import Final

from bayplan.support.metrics.shared_numbers import SharedNumbers

ABSENT: Final = (1 << 64) - 1
"""Stands where a process is not there: it has more than any other."""


class ConnectionShare:
    """One process among those that accept connections of the same sockets."""

    def __init__(self, counts: SharedNumbers, index: int) -> None:
        """counts: how many connections each process has. index: of this process."""
        self._counts = counts
        self._index = index
        self._open = 0

    def begin(self) -> None:
        """This process accepts connections from now on."""
        self._counts[self._index] = self._open

    def end(self) -> None:
        """It accepts none any more."""
        self._counts[self._index] = ABSENT

    def opened(self) -> None:
        """A connection was accepted."""
        self._open += 1
        self._counts[self._index] = self._open

    def closed(self) -> None:
        """A connection has ended."""
        self._open -= 1
        if self._counts[self._index] != ABSENT:
            self._counts[self._index] = self._open

    @property
    def is_ahead(self) -> bool:
        """Whether another process has fewer connections, and so should take the next."""
        counts = self._counts
        return any(counts[one] < self._open for one in range(len(counts)))
