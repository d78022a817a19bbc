"""What a process that a fork server has made does first and last."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

from bayplan.support.loop import run_loop

logger = logging.getLogger(__name__)


def name_process(name: str) -> None:
    """What `ps -o comm`, `top` and `pgrep` call this process: at most 15 characters."""
    with contextlib.suppress(OSError):  # not on every system
        Path("/proc/self/comm").write_text(name)


def run_child(name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    """Run a coroutine, and end the process with it. name: what the process is called in messages."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # which all processes may get; the main process says when to end
            signal.signal(number, signal.SIG_IGN)
        run_loop(main())
        code = 0
    except BaseException:
        logger.exception("%s ends", name)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)  # and nothing of what the main process meant to do at its end
