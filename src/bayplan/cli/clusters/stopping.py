"""How commands that run on are told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Final

_ONE_REQUEST: Final = 0.3
"""Seconds within which a second signal is still the first one: `timeout` signals a process, and then the group that it is in."""


def stop_event() -> asyncio.Event:
    """Set when the process is told to stop. Told so again, it ends at once with exit code 1, as Kubernetes' processes do."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    told = 0.0

    def signalled() -> None:
        nonlocal told
        if not stop.is_set():
            told = loop.time()
        elif loop.time() - told > _ONE_REQUEST:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(1)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    return stop
