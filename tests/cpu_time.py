"""Bounds on CPU time that mean the same on slow machines and on busy ones.

CPU time is not a property of the code alone: a core shared with others, or a large heap that the collector walks, makes the
same work take twice as long. What goes over its bound is therefore compared with a fixed piece of work, done at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_USUAL = 0.24
"""Seconds that the fixed work takes where the bounds of tests were chosen."""


def _fixed_work() -> float:
    """CPU seconds that a piece of work takes which is always the same: objects made, kept, looked through."""
    started = time.process_time()
    kept = [{"name": f"a{number}", "parts": [number, number + 1]} for number in range(200_000)]
    assert sum(part for one in kept for part in one["parts"] if isinstance(part, int)) == 200_000**2
    return time.process_time() - started


def assert_below(took: float, seconds: float, what: str = "") -> None:
    """Fail when what took this CPU time took more than it may, or as much more as the machine is slower just now."""
    if took >= seconds:
        slower = max(1.0, _fixed_work() / _USUAL)
        assert took < seconds * slower, (
            f"{took:.1f} s of {seconds:g} s of CPU on a machine {slower:.1f} times slower {what}"
        )


@contextmanager
def cpu_time_below(seconds: float) -> Iterator[None]:
    """See assert_below, for what the block does in this process."""
    started = time.process_time()
    yield
    assert_below(time.process_time() - started, seconds)
