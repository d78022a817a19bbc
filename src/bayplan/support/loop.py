"""The event loop of a process that is ours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

from bayplan.support.allocator import keep_freed_memory, release_freed_memory
from bayplan.support.garbage import collect_seldom, collect_young
from bayplan.support.memo import age_all

_RELEASE_SECONDS: Final = 30.0
"""Between two releases of freed memory, each of which takes some milliseconds."""
_RELEASES_PER_AGING: Final = 5
"""Memos lose what was not asked for in the time of so many releases, to twice as many."""


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
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle
    releases = 0

    def release() -> None:
        nonlocal timer, releases
        releases += 1
        if releases % _RELEASES_PER_AGING == 0:
            age_all()
        collect_young()
        release_freed_memory()
        timer = loop.call_later(_RELEASE_SECONDS, release)

    timer = loop.call_later(_RELEASE_SECONDS, release)
    try:
        await coroutine
    finally:
        timer.cancel()
