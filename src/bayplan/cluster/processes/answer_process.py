"""A process that answers questions to the scheduler of a cluster, while there are so many that they would take its time.

It is one more component process, which runs a scheduler that places nothing: that follows the cluster over the API as the other one does, so that neither
knows of the other. Until it knows the cluster, and if it fails, the scheduler answers. It is ended when nobody has asked for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from bayplan.cluster.errors import ClusterError
from bayplan.cluster.processes.fork_server import ForkServerLost
from bayplan.cluster.questions.what_if import NO_SCHEDULER
from bayplan.support.clock import Clock
from bayplan.support.pipe import PipeError

logger = logging.getLogger(__name__)

MANY: Final = 20
"""Questions within a second that are worth a process."""
_IDLE_SECONDS: Final = 60.0
"""Without a question, after which the process is ended."""
_RETRY_SECONDS: Final = 30.0
"""After a process that could not be started, or ended by itself, before the next one."""
_UNAVAILABLE: Final = NO_SCHEDULER[0]

Response = tuple[int, bytes]
"""HTTP status and JSON body."""


class Answering(Protocol):
    """A process that answers."""

    async def what_if(self, body: bytes, namespace: str, explain: bool) -> Response:
        """The response to a question; 503 if the process has gone or does not know the cluster."""

    def silence(self) -> str:
        """Since when it does not answer; "" if it does."""

    async def ended(self) -> str:
        """Return when it has ended: what was wrong with it. Raises ForkServerLost."""

    async def stop(self) -> None:
        """End it. Raises ForkServerLost."""

    def let_go(self) -> None:
        """End what it had here, after the fork server that would tell of it has gone."""


class AnswerProcess:
    """Starts such a process when questions are many, and ends it when they are not."""

    def __init__(self, launch: Callable[[], Awaitable[Answering]], clock: Clock) -> None:
        """launch: starts one. Raises ClusterError, PipeError, ForkServerLost, TimeoutError, OSError."""
        self._launch = launch
        self._clock = clock
        self._asked: deque[float] = deque(maxlen=MANY)
        """When the latest questions came (monotonic)."""
        self._process: Answering | None = None
        self._not_before = 0.0
        """When (monotonic) the next process may be started."""
        self._task: asyncio.Task[None] | None = None

    async def ask(self, body: bytes, namespace: str, explain: bool) -> Response | None:
        """The response to a question; None if the scheduler has to be asked."""
        now = self._clock.monotonic()
        self._asked.append(now)
        process = self._process
        if process is None:
            if self._task is None and now >= self._not_before and self._are_many(now):
                self._task = asyncio.create_task(self._run(), name="process for questions")
            return None
        if process.silence():
            return None
        response = await process.what_if(body, namespace, explain)
        return response if response[0] != _UNAVAILABLE else None

    def _are_many(self, now: float) -> bool:
        return len(self._asked) == MANY and now - self._asked[0] <= 1.0

    async def _run(self) -> None:
        """Have a process until nobody asks any more."""
        try:
            process = await self._launch()
            self._process = process
            logger.info("questions to the scheduler are many: a process of their own answers them")
            try:
                await self._watch(process)
            finally:
                self._process = None
        except (ClusterError, PipeError, ForkServerLost, TimeoutError, OSError) as error:
            self._not_before = self._clock.monotonic() + _RETRY_SECONDS
            logger.warning("questions stay with the scheduler for now: %s", str(error) or type(error).__name__)
        finally:
            self._task = None

    async def _watch(self, process: Answering) -> None:
        """Return when a process has been ended because nobody asks. Raises ClusterError if it ends by itself, ForkServerLost."""
        ended = asyncio.ensure_future(process.ended())
        try:
            while (left := self._asked[-1] + _IDLE_SECONDS - self._clock.monotonic()) > 0.0 and not ended.done():
                await asyncio.wait((ended,), timeout=left)
            if ended.done():
                raise ClusterError(ended.result())
        except ForkServerLost:
            process.let_go()
            raise
        finally:
            if not ended.done():
                self._process = None
                ended.cancel()
                with contextlib.suppress(ForkServerLost):  # then the kernel has ended the process
                    await process.stop()

    async def close(self) -> None:
        """End the process."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
