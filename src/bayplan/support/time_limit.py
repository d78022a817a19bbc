"""A limit on how long code of other people may run that cannot be waited for: an endless loop in it would hold up the event loop.

The limit is a timer of the operating system (SIGALRM), whose handler raises in the code that runs; so it holds in the main thread only, and a call into C that
does not come back is not interrupted.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class TimeLimitExceeded(Exception):
    """The code took longer than it may, or has a rest after that."""


class _Expired(BaseException):
    """Not an Exception: the code that runs may catch all of these."""


class TimeLimit:
    """A limit for several functions together: after one of them has exceeded it, none is called for a while."""

    def __init__(self, seconds: float, rest: float) -> None:
        """seconds: of real time, for each call. rest: seconds without calls after one that took longer."""
        self.seconds = seconds
        self.rest = rest
        self._not_before = 0.0
        self._is_running = False

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function. Raises TimeLimitExceeded, and what it raises. Outside the main thread, and within another call, there is no limit."""
        if self._not_before and time.monotonic() < self._not_before:
            raise TimeLimitExceeded(f"took longer than {self.seconds:g} s before, and is not asked for {self.rest:g} s")
        if self._is_running or threading.current_thread() is not threading.main_thread():
            return function(*arguments)
        self._is_running = True
        former = signal.signal(signal.SIGALRM, _expire)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            try:
                return function(*arguments)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
        except _Expired:
            self._not_before = time.monotonic() + self.rest
            raise TimeLimitExceeded(f"took longer than {self.seconds:g} s") from None
        finally:
            signal.signal(signal.SIGALRM, former)
            self._is_running = False


def _expire(number: int, frame: FrameType | None) -> None:
    raise _Expired
