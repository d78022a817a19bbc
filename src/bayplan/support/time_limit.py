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
    """A limit for several functions together: after one of them has exceeded it, none is called about the same subject for a while, and after a second subject
    within that time about nothing."""

    def __init__(self, seconds: float, rest: float) -> None:
        """seconds: of real time, for each call. rest: seconds without calls after one that took longer."""
        self.seconds = seconds
        self.rest = rest
        self._not_before = 0.0
        """For all subjects."""
        self._resting: dict[int, tuple[float, object]] = {}
        """By the identity of a subject: until when nothing is called about it, and the subject."""
        self._is_running = False

    def run(self, function: Callable[..., T], *arguments: object, subject: object = None) -> T:
        """Call a function. Raises TimeLimitExceeded, and what it raises. Outside the main thread, and within another call, there is no limit.

        subject: the object, known by its identity, that the call is about; None stands for all.
        """
        if (self._not_before or self._resting) and self._rests(subject):
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
            self._exceeded(subject)
            raise TimeLimitExceeded(f"took longer than {self.seconds:g} s") from None
        finally:
            signal.signal(signal.SIGALRM, former)
            self._is_running = False

    def _rests(self, subject: object) -> bool:
        now = time.monotonic()
        for key in [key for key, (until, _) in self._resting.items() if until <= now]:
            del self._resting[key]
        return now < self._not_before or id(subject) in self._resting

    def _exceeded(self, subject: object) -> None:
        until = time.monotonic() + self.rest
        if subject is None or self._resting:
            self._not_before = until
        if subject is not None:
            self._resting[id(subject)] = (until, subject)


def _expire(number: int, frame: FrameType | None) -> None:
    raise _Expired
