"""How commands that run on are told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any


def stop_event() -> asyncio.Event:
    """Set when the process is told to stop. Told so again, it ends at once with exit code 1, as Kubernetes' processes do."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if stop.is_set():
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(1)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    return stop


async def wait_for_stop(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until told to stop, or until it ends. Raises what it raises before that."""
    stopping, working = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(work)
    try:
        await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (stopping, working):
            task.cancel()
        await asyncio.gather(stopping, working, return_exceptions=True)
