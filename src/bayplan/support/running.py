"""What runs until it is told to stop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class Service(ABC):
    """Something that runs between `start` and `stop`, as a context manager. What has failed to start is stopped."""

    @abstractmethod
    async def start(self) -> None:
        """Start all parts. After a failure `stop` stops those that have started."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop whatever has started."""

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


async def wait_for_stop(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """Run `work` until told to stop, or until it ends: its result, None if it was stopped. Raises what it raises before that."""
    stopping, working = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(work)
    try:
        await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        return None
    finally:
        for task in (stopping, working):
            task.cancel()
        await asyncio.gather(stopping, working, return_exceptions=True)
