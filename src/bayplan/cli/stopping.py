"""How commands that run on are told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys


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
