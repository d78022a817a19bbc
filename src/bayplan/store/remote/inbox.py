"""What the owner of a store sends, in its order, though the values of some events cannot be read before somebody was asked for their key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bayplan.store.remote.messages import WireEvent
from bayplan.store.transforming import Readiness


class _Notification(NamedTuple):
    handle: Callable[[], None]
    values: list[tuple[str, bytes]]
    """Values that are read when this is handled, with their keys."""


class Inbox:
    """Handles notifications at once, or after those before them if one of these waits. Nothing else on the event loop waits for a key."""

    def __init__(self, readiness: Readiness | None) -> None:
        """readiness: what values wait for; None if they can all be read."""
        self._readiness = readiness
        self._waiting: deque[_Notification] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, handle: Callable[[], None], events: Iterable[WireEvent] = ()) -> None:
        """A notification came. handle: what is done with it; events: those that it tells."""
        readiness = self._readiness
        if readiness is None:
            handle()
            return
        values = [(one.key, value) for one in events for value in (one.value, one.previous) if value is not None]
        if not self._waiting and all(readiness.is_ready(key, value) for key, value in values):
            handle()
            return
        self._waiting.append(_Notification(handle, values))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._handle(readiness))

    def forget(self) -> None:
        """Drop what waits: the connection has ended, and the owner tells it again on the next one."""
        self._waiting.clear()

    async def emptied(self) -> None:
        """Return when everything that has come is handled."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Handle nothing more."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _handle(self, readiness: Readiness) -> None:
        try:
            while self._waiting:
                first = self._waiting[0]
                for key, value in first.values:
                    if not readiness.is_ready(key, value):
                        await readiness.make_ready(key, value)
                if self._waiting and self._waiting[0] is first:  # and the connection has not ended meanwhile
                    self._waiting.popleft()
                    first.handle()
        finally:
            self._task = None
