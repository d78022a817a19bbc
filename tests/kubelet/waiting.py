"""Waiting for a condition in real time, with a limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def eventually(condition: Callable[[], bool | Awaitable[bool]], what: str, seconds: float = 10) -> None:
    """Return when a condition holds. Fails after `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        answer = condition()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert loop.time() < end, f"after {seconds:g} s there is still not: {what}"
        await asyncio.sleep(0.01)
