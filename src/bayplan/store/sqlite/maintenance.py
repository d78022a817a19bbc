"""Compaction of a SQLite store and returning its free space, in small steps between commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from bayplan.store.errors import StoreClosed
from bayplan.store.forgetting import HistoryBound
from bayplan.store.settings import SqliteSettings
from bayplan.store.sqlite.file import SqliteFile
from bayplan.support.clock import Clock, Timer

log = logging.getLogger(__name__)

_PAGES_PER_STEP = 32


class Upkeep:
    """Decides what the writing thread does between two batches. Lives on the event loop.

    `wake` is called when there may be work; the store then asks `next_job` and reports its outcome to `done`.
    """

    def __init__(self, file: SqliteFile, clock: Clock, settings: SqliteSettings, wake: Callable[[], None]) -> None:
        self._file = file
        self._clock = clock
        self._settings = settings
        self._wake = wake
        self._bound = HistoryBound(settings.history)
        self.compacted = 0
        """Reads before this revision are refused. The file may still hold more, down to `_forgotten`."""
        self._forgotten = 0
        """Up to here the file has been compacted; <= `compacted`."""
        self._step_end = 0
        """Where the running compaction step ends; 0 if none runs."""
        self._give_back = False
        """Whether the file may have free space to return."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits for which revision to be compacted."""
        self._revision = 0
        self._last_batch = 0
        """Number of revisions that the last commit added."""
        self._rest_until = 0.0
        """Monotonic seconds until which nothing is tried after a failure, unless somebody waits for it."""
        self._timer: Timer | None = None
        self._running = False

    def start(self, revision: int, compacted: int) -> None:
        """Begin; all history found at start counts as of now."""
        self._revision = revision
        self.compacted = self._forgotten = compacted
        self._running = True
        if self._settings.history.automatic:
            self._bound.mark(self._clock.monotonic(), revision)
            self._arm()

    def stop(self) -> None:
        """End; who still waits for a compaction gets `StoreClosed`."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fail_waiting(StoreClosed("the store was closed before the compaction was done"))

    def written(self, revision: int) -> None:
        """Revisions up to this one are committed."""
        self._last_batch = revision - self._revision
        self._revision = revision
        history = self._settings.history
        if history.automatic:
            if revision - self.compacted > history.keep_revisions + self._settings.compaction_step:
                self.compacted = revision - history.keep_revisions
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._running and self.compacted < self._revision:
            self._timer = self._clock.call_later(self._settings.compaction_interval, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        self._bound.mark(now, self._revision)
        self.compacted = max(self.compacted, self._bound.bound(now, self._revision))
        self._arm()
        if self._forgotten < self.compacted:
            self._wake()

    async def compact(self, revision: int) -> None:
        """Compact up to `revision` and return when the file is."""
        if revision <= self._forgotten:
            return
        self.compacted = max(self.compacted, revision)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, future))
        self._wake()
        await future

    def next_job(self, *, idle: bool) -> Callable[[], bool] | None:
        """The next step for the writing thread, None if all is done or should rest after a failure.

        Space is given back only while nobody waits to write: until then it is used again anyway.
        """
        if not self._waiting and self._clock.monotonic() < self._rest_until:
            return None
        if self._forgotten < self.compacted:
            # At least twice what the last batch added, or large batches would outrun the compaction.
            step = max(self._settings.compaction_step, 2 * self._last_batch)
            self._step_end = min(self.compacted, self._forgotten + step)
            return partial(self._forget, self._forgotten, self._step_end)
        if self._give_back and idle:
            return partial(self._file.give_back, _PAGES_PER_STEP)
        return None

    def _forget(self, start: int, end: int) -> bool:
        self._file.forget(start, end)
        return True

    def done(self, more: bool, error: BaseException | None) -> None:
        """The step of `next_job` ended; `more`: there may be space to give back."""
        if error is not None:
            log.warning("compaction failed, it will be tried again: %s", error)
            self.compacted = self._forgotten
            self._step_end = 0
            self._give_back = False
            self._rest_until = self._clock.monotonic() + self._settings.compaction_interval
            self._fail_waiting(error)
            return
        self._give_back = more
        if self._step_end:
            self._forgotten, self._step_end = self._step_end, 0
            for revision, future in self._waiting:
                if revision <= self._forgotten and not future.done():
                    future.set_result(None)
            self._waiting = [one for one in self._waiting if one[0] > self._forgotten]

    def _fail_waiting(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
