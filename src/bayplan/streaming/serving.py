"""Serving a client for as long as it is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from bayplan.streaming.spdy_frames import SpdyError


async def while_connected(reading: Coroutine[Any, Any, None], serving: Coroutine[Any, Any, None]) -> None:
    """Serve until that is done, or until nothing more can be read because the client has gone."""
    tasks = [asyncio.create_task(reading), asyncio.create_task(serving)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, SpdyError):  # that is how clients go
            task.result()
