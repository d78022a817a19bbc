"""One thing at a time about each volume, in the order of asking. What was started goes on when nobody waits for it any more: a driver goes on as well, and whoever
comes next, such as the end of the pod, has to come after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Operations:
    """See the module."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it after all that was asked for before about this volume. Raises what it raises."""
        task = asyncio.create_task(self._in_turn(key, work), name=f"volume {key}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _in_turn(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with lock:
                return await work()
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._locks[key]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it hears of it; nobody may wait any more

    async def close(self) -> None:
        """Give up what goes on: the next kubelet asks the drivers again."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
