"""An event loop whose time passes only when nothing is left to do: hours in seconds, and the same order of events each time.

Everything that runs on it takes no time at all; a sleep takes exactly as long as it says. There is no input and output:
what would wait for a socket or a thread would wait for ever, since nothing outside the loop can make time pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import selectors
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

from bayplan.support.memory.garbage import collect_young, collecting_seldom

T = TypeVar("T")

_RESOLUTION = 1e-6
"""Seconds by which a timer may be early. More than what floating point numbers lose in centuries, else a timer could
forever be almost due."""


class NothingLeft(RuntimeError):
    """Nobody can ever run again: all tasks wait for something that no timer will bring."""


class _NoInput(selectors.BaseSelector):
    """A selector without files (but the loop's own wake-up pipe, which nobody uses). It never waits: what the loop would
    have waited has passed when it returns."""

    def __init__(self) -> None:
        self.passed = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if self._keys:
            raise RuntimeError("there are no sockets in virtual time")
        key = self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingLeft("nothing is left that could ever happen")
        if timeout > 0:
            self.passed += timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module. Time begins at 0."""

    def __init__(self) -> None:
        self._virtual = _NoInput()
        super().__init__(self._virtual)
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.passed

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        """Threads would make the order of events a matter of chance. Raises RuntimeError."""
        raise RuntimeError("there are no threads in virtual time")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a virtual loop of its own. Raises NothingLeft if it waits for something that never happens.

    Where a loop runs already, as in a notebook, that one waits: a thread can run one loop only, so this has its own. Who
    interrupts the one ends the other.
    """
    runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
    if not _is_looping():
        return _run(runner, coroutine)
    loop = runner.get_loop()
    with ThreadPoolExecutor(1, "virtual time") as thread:
        try:
            return thread.submit(contextvars.copy_context().run, _run, runner, coroutine).result()
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has come to its end itself
                loop.call_soon_threadsafe(_cancel_all, loop)
            raise


def _is_looping() -> bool:
    """Whether a loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        with runner, collecting_seldom():
            return runner.run(coroutine)
    finally:
        collect_young()  # the cycles of a run would stay for some eighty more, megabytes of each


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
