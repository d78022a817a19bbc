"""Where blocking calls run that take long, such as those of a file system: in a thread in production, at once where nothing blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Blocking(Protocol):
    """Runs a function that may block, and returns what it returns."""

    async def __call__(self, function: Callable[[], T]) -> T:
        """The function's result. Once started it runs to its end: a caller that is cancelled is so after that."""


async def in_thread(function: Callable[[], T]) -> T:
    """Run it in a thread of the event loop's pool."""
    running = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait((running,))
            except asyncio.CancelledError:
                continue  # the thread cannot be stopped, and what follows must not begin before it has ended
        raise


async def at_once(function: Callable[[], T]) -> T:
    """Run it here, for simulations and tests: nothing else runs meanwhile."""
    return function()
