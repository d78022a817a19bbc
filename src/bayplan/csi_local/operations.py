"""One thing at a time for each volume. What was started goes on to its end, also when the client stops waiting: a copy must not run beside its own repetition."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from bayplan.csi.errors import DriverError

T = TypeVar("T")


class Operations:
    """What goes on, by the ids that it is about."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def run(self, work: Coroutine[Any, Any, T], *keys: str) -> T:
        """Do it, if nothing else is done about these ids. Raises DriverError (ABORTED) otherwise, as the specification wants it, and what the work raises."""
        busy = [one for one in keys if one in self._running]
        if busy:
            work.close()
            raise DriverError(f"an operation for {busy[0]} is under way", "ABORTED")
        task = asyncio.ensure_future(work)
        for one in keys:
            self._running[one] = task
        task.add_done_callback(lambda done: self._ended(done, keys))
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any], keys: tuple[str, ...]) -> None:
        for one in keys:
            self._running.pop(one, None)
        if not task.cancelled():
            task.exception()  # who waits for it hears of it; nobody may wait any more

    async def drain(self) -> None:
        """Return when nothing goes on any more."""
        while self._running:
            await asyncio.wait(set(self._running.values()))
