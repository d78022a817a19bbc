"""Where time comes from: the wall clock in production, the event loop's (possibly virtual) time in a simulation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A callback that is going to run."""

    def cancel(self) -> None:
        """Do not run it; does nothing if it ran already."""


class Clock(Protocol):
    """The only source of time. All values are seconds."""

    def now(self) -> float:
        """Seconds since the Unix epoch; may jump when the machine's clock is set."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For durations and deadlines within one run."""

    async def sleep(self, seconds: float) -> None:
        """Return when `seconds` have passed; at once (but after other ready tasks) for zero and less."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call `callback(*args)` on the event loop after `seconds`."""


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)


class LoopClock:
    """The running event loop's time, so that whoever owns the loop owns the time.

    `epoch` is the Unix time at which the loop's time is zero.
    """

    __slots__ = ("epoch",)

    def __init__(self, epoch: float) -> None:
        self.epoch = epoch

    def now(self) -> float:
        return self.epoch + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)
