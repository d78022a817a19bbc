"""Background tasks that cannot get lost: each has a name and an owner, and its failure is seen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Self

from bayplan.support.clock import Clock, SystemClock

log = logging.getLogger(__name__)

ACTOR: ContextVar[str] = ContextVar("actor", default="")
"""On whose behalf the running code acts: the nearest supervised task that said so; empty for everybody else. For traces."""

Crash = Callable[[str, BaseException], None]
"""Called with the task's name and what it raised."""


class Supervisor:
    """Owns named asyncio tasks: logs the crash of each, restarts those that asked for it, cancels all on `close`.

    A task that crashes and is not restarted is reported to `on_crash` and makes `wait` raise, so that a service
    does not limp on without one of its parts unnoticed.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        on_crash: Crash | None = None,
        is_expected: Callable[[Exception], bool] = lambda _: False,
    ) -> None:
        """is_expected: tells failures from outside, such as a server that is away, from mistakes; they are logged in one line."""
        self.name = name
        self._is_expected = is_expected
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._on_crash = on_crash
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._failure: BaseException | None = None
        self.failures: dict[str, str] = {}
        """What tasks raised that wait for their next start, by name."""
        self._changed: asyncio.Event = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def names(self) -> list[str]:
        """Names of the running tasks, in the order in which they were started."""
        return list(self._tasks.values())

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, Any], *, actor: str = "") -> asyncio.Task[Any]:
        """Run a coroutine once. `actor`: who acts in it, and in what it starts. Raises `RuntimeError` after `close`."""
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self.name}: cannot start {name}, the supervisor is closed")
        context = copy_context()
        if actor:
            context.run(ACTOR.set, actor)
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self.name}/{name}", context=context)
        self._tasks[task] = name
        task.add_done_callback(self._finished)
        return task

    def keep_running(
        self,
        name: str,
        start: Callable[[], Coroutine[Any, Any, Any]],
        *,
        first_delay: float = 0.1,
        longest_delay: float = 30.0,
        healthy_after: float = 60.0,
        actor: str = "",
    ) -> asyncio.Task[Any]:
        """Run `start()` and, when it raises, log that and run it again after a delay (seconds) that doubles up to
        `longest_delay`. A run of `healthy_after` seconds resets the delay. A run that returns ends the task."""
        return self.spawn(name, self._run_again(name, start, first_delay, longest_delay, healthy_after), actor=actor)

    async def _run_again(
        self,
        name: str,
        start: Callable[[], Coroutine[Any, Any, Any]],
        first_delay: float,
        longest_delay: float,
        healthy_after: float,
    ) -> None:
        delay = first_delay
        while True:
            started = self._clock.monotonic()
            try:
                await start()
                return
            except Exception as error:
                if self._clock.monotonic() - started >= healthy_after:
                    delay = first_delay
                if self._is_expected(error):
                    log.warning("%s: %s failed, trying again in %.1f s: %s", self.name, name, delay, error)
                else:
                    log.exception("%s: %s crashed, starting it again in %.1f s", self.name, name, delay)
                if self._on_crash is not None:
                    self._on_crash(name, error)
                self.failures[name] = f"{type(error).__name__}: {error}"
            await self._clock.sleep(delay)
            self.failures.pop(name, None)
            delay = min(delay * 2, longest_delay)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                log.error("%s: %s crashed", self.name, name, exc_info=error)
                if self._failure is None:
                    self._failure = error
                if self._on_crash is not None:
                    self._on_crash(name, error)
        self._changed.set()

    async def wait(self) -> None:
        """Return when no task is left; raise the first crash as soon as it happens."""
        while True:
            if self._failure is not None:
                raise self._failure
            if not self._tasks:
                return
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Cancel every task and wait until all have ended. Calling it again does nothing."""
        self._closed = True
        current = asyncio.current_task()
        while tasks := [task for task in self._tasks if task is not current]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
