"""A clock that moves only when told."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any


class _ManualTimer:
    __slots__ = ("args", "callback", "cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """`Clock` for tests of pure logic: `advance` passes time and calls what became due, in order."""

    def __init__(self, now: float = 1_767_323_045.0) -> None:
        self._start = now
        self._passed = 0.0
        self._sequence = 0
        self._timers: list[tuple[float, int, _ManualTimer]] = []

    def now(self) -> float:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self.call_later(seconds, wake)
        await future

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> _ManualTimer:
        timer = _ManualTimer(callback, args)
        self._sequence += 1
        heapq.heappush(self._timers, (self._passed + max(0.0, seconds), self._sequence, timer))
        return timer

    @property
    def timers(self) -> int:
        """Number of timers that are still going to run."""
        return sum(not timer.cancelled for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Let time pass. Each timer runs at exactly its moment, those that it starts included."""
        until = self._passed + seconds
        while self._timers and self._timers[0][0] <= until:
            at, _, timer = heapq.heappop(self._timers)
            self._passed = max(self._passed, at)
            if not timer.cancelled:
                timer.callback(*timer.args)
        self._passed = until

    def set_wall_clock(self, now: float) -> None:
        """Set the wall clock, as an operator would; `monotonic` does not notice."""
        self._start = now - self._passed
