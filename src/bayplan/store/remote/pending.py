"""Writes of a client that are on their way to the owner of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bayplan.store.remote.messages import WireEvent


class RemoteWrite:
    """One write, from the call to its event."""

    __slots__ = ("attachment", "began", "committed", "guard", "key", "number", "ttl", "value")

    def __init__(
        self,
        number: int,
        key: str,
        value: bytes | None,
        guard: int | None,
        ttl: float | None,
        attachment: object,
        committed: asyncio.Future[int],
        began: float,
    ) -> None:
        self.number = number
        self.key = key
        self.value = value
        """None for a deletion."""
        self.guard = guard
        self.ttl = ttl
        self.attachment = attachment
        self.committed = committed
        self.began = began
        """Monotonic seconds."""

    def is_told_by(self, event: WireEvent) -> bool:
        """Whether an event that does not say whose it was may be this write's: it says the same, and the guard held."""
        return (
            event.key == self.key
            and event.value == self.value
            and (self.guard is None or event.previous_revision == self.guard)
        )


class RemoteWrites:
    """All of them, in the order of the calls."""

    def __init__(self) -> None:
        self._writes: dict[int, RemoteWrite] = {}
        self.idle = asyncio.Event()
        """Whether there is none."""
        self.idle.set()

    def __iter__(self) -> Iterator[RemoteWrite]:
        return iter(tuple(self._writes.values()))

    def add(self, write: RemoteWrite) -> None:
        """A write begins."""
        self._writes[write.number] = write
        self.idle.clear()

    def take(self, number: int) -> RemoteWrite | None:
        """A write has ended: the write; None if nobody waits for it any more."""
        write = self._writes.pop(number, None)
        if not self._writes:
            self.idle.set()
        return write

    def take_told_by(self, event: WireEvent) -> RemoteWrite | None:
        """The write of which an event of the past tells; None if there is none."""
        for write in self._writes.values():
            if write.is_told_by(event):
                return self.take(write.number)
        return None

    def fail(self, error: Exception) -> None:
        """All have failed, or nobody knows."""
        for write in self:
            self.take(write.number)
            if not write.committed.done():
                write.committed.set_exception(error)

    @property
    def oldest(self) -> float | None:
        """Monotonic seconds at which the one began that has been on its way for longest; None without one."""
        for write in self._writes.values():
            return write.began
        return None
