"""The event loop of a process that is ours."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bayplan.support.memory.allocator import keep_freed_memory, release_freed_memory
from bayplan.support.memory.garbage import collect_all, collect_seldom, collect_young
from bayplan.support.memory.memo import age_all

RELEASE_SECONDS: Final = 30.0
"""Between two releases of freed memory, each of which takes some milliseconds."""
_RELEASES_PER_AGING: Final = 5
"""Memos lose what was not asked for in the time of so many releases, to twice as many."""

_IDLE_SHARE: Final = 0.05
"""Of one CPU: a process that uses less has nothing to do."""


def raise_open_files_limit() -> None:
    """Let this process open as many files, and so connections, as it may: the soft limit becomes the hard one, as in programs made with Go."""
    try:
        import resource
    except ImportError:
        return  # systems without such limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_loop(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop there is, with a garbage collector and an allocator that fit a long-lived process full of acyclic data."""
    collect_seldom()
    keep_freed_memory()
    main = _releasing_memory(coroutine)
    raise_open_files_limit()
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


async def _releasing_memory(coroutine: Coroutine[Any, Any, None]) -> None:
    upkeep = MemoryUpkeep(asyncio.get_running_loop(), time.process_time)
    try:
        await coroutine
    finally:
        upkeep.end()


class MemoryUpkeep:
    """Gives the system back what the process does not use, now and then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cpu_seconds: Callable[[], float]) -> None:
        """cpu_seconds: how much CPU time the process has used."""
        self._loop = loop
        self._cpu_seconds = cpu_seconds
        self._releases = 0
        self._cpu, self._at = cpu_seconds(), loop.time()
        """CPU time and time at the last release."""
        self._was_busy = True
        """Since all garbage was collected."""
        self._timer = loop.call_later(RELEASE_SECONDS, self._release)

    def end(self) -> None:
        """No more of it."""
        self._timer.cancel()

    def _release(self) -> None:
        self._releases += 1
        if self._releases % _RELEASES_PER_AGING == 0:
            age_all()
        if self._is_idle():
            if self._was_busy:
                collect_all()
            self._was_busy = False
        else:
            self._was_busy = True
            collect_young()
        release_freed_memory()
        self._timer = self._loop.call_later(RELEASE_SECONDS, self._release)

    def _is_idle(self) -> bool:
        """Whether little happened since the last release, so that nobody notices a pause."""
        cpu, at = self._cpu_seconds(), self._loop.time()
        is_idle = cpu - self._cpu < _IDLE_SHARE * (at - self._at)
        self._cpu, self._at = cpu, at
        return is_idle
