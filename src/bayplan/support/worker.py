"""One thread for blocking calls that must not overlap, such as those of one database connection.

A thread that wants Python's interpreter lock while an event loop is saturated may wait for seconds: the loop lets go of
the lock at each look for input, takes it back before the thread has woken up, and the thread's wait starts anew. So
while jobs are under way for longer than usual, the loop steps aside for a moment now and then, long enough for the
thread to wake up. (Shorter turns, `sys.setswitchinterval`, would do the same at a price: the loop is then interrupted
in the midst of its work all the time.)
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

_STEP_ASIDE_EVERY = 0.004
"""Seconds between two moments in which the loop steps aside while jobs are under way."""
_STEP_ASIDE_FOR = 0.0001
"""Seconds of such a moment: a thread takes about half of it to wake up. The price is a thirtieth of a saturated loop's
time."""

log = logging.getLogger(__name__)

T = TypeVar("T")

Done = Callable[[Any, BaseException | None], None]
"""Called on the event loop with the result, or with None and what was raised."""


class WorkerThread:
    """Runs jobs one after the other in its own thread and hands each outcome to the event loop that was running at
    construction. The thread does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._under_way = 0
        """Jobs submitted whose outcome has not come back to the loop."""
        self._stepping_aside: asyncio.TimerHandle | None = None
        self._ended = self._loop.create_future()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job()` after those submitted before."""
        self._expect()
        self._jobs.put((job, done))

    def _expect(self) -> None:
        self._under_way += 1
        if self._stepping_aside is None:
            self._stepping_aside = self._loop.call_later(_STEP_ASIDE_EVERY, self._step_aside)

    def _step_aside(self) -> None:
        self._stepping_aside = self._loop.call_later(_STEP_ASIDE_EVERY, self._step_aside)
        time.sleep(_STEP_ASIDE_FOR)

    def _came_back(self, done: Done, result: Any, error: BaseException | None) -> None:
        self._under_way -= 1
        if not self._under_way and self._stepping_aside is not None:
            self._stepping_aside.cancel()
            self._stepping_aside = None
        done(result, error)

    async def run(self, job: Callable[[], T]) -> T:
        """Run `job()` after those submitted before and return its result. Cancelling the wait does not stop the job."""
        future: asyncio.Future[T] = self._loop.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(job, done)
        return await future

    async def close(self) -> None:
        """Finish the submitted jobs and end the thread."""
        self._expect()
        self._jobs.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                result = job()
            except BaseException as error:
                self._report(done, None, error)
            else:
                self._report(done, result, None)
            del item, job, done
        self._report(self._finish, None, None)

    def _finish(self, _result: Any, _error: BaseException | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _report(self, done: Done, result: Any, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._came_back, done, result, error)
        except RuntimeError:
            # The loop was closed without closing what uses this thread: nobody is left to tell.
            log.warning("%s: the event loop is closed, an outcome is lost", self._thread.name, exc_info=error)
