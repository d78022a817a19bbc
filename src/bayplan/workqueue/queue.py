"""The work queue. A key is in at most one place:

    add ──▶ queued ──get──▶ processing ──done──▶ gone
      ▲        ▲                │ add: remember it
      │        └──done, if it was added meanwhile
    add_after / add_rate_limited: waits for its time first

so a key is never processed twice at the same time, and a change that comes while it is processed is not lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from bayplan.support.clock import Clock, Timer
from bayplan.workqueue.metrics import WorkQueueMetrics
from bayplan.workqueue.rate_limiter import RateLimiter, default_rate_limiter

K = TypeVar("K", bound=Hashable)


class QueueShutDown(Exception):
    """The queue was shut down and is empty: the worker should end."""


class WorkQueue(Generic[K]):
    """De-duplicating, delaying, rate-limited queue of keys for workers on one event loop. No method but those that wait
    needs a running loop, except that delays start a timer."""

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock,
        rate_limiter: RateLimiter[K] | None = None,
        metrics: WorkQueueMetrics | None = None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._limiter: RateLimiter[K] = rate_limiter if rate_limiter is not None else default_rate_limiter(clock)
        self._metrics = metrics
        self._heap: list[tuple[int, int, K]] = []
        """(-priority, sequence number, key) of queued keys, and outdated entries of keys whose priority was raised."""
        self._queued: dict[K, tuple[int, int]] = {}
        """Queued keys: the valid (-priority, sequence number) of each."""
        self._processing: dict[K, float] = {}
        """Keys that workers have: monotonic seconds since when."""
        self._again: dict[K, int] = {}
        """Keys that were added while being processed: priority. Subset of `_processing`."""
        self._added_at: dict[K, float] = {}
        """Monotonic seconds since when a key is waiting to be processed. Kept for metrics only."""
        self._sequence = 0
        self._delayed: dict[K, tuple[float, int]] = {}
        """Keys that wait for their time: (monotonic seconds, priority)."""
        self._delays: list[tuple[float, int, K]] = []
        """Heap of (monotonic seconds, sequence number, key) with outdated entries."""
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._getters: list[asyncio.Future[None]] = []
        """Workers that wait. The last one to come is woken first, so that few of many workers have work to do when there is little of it."""
        self._drained: list[asyncio.Future[None]] = []
        self._shutting_down = False
        if metrics is not None:
            metrics.attach(lambda: float(len(self._queued)), self._unfinished, self._longest_running)

    def __len__(self) -> int:
        """Number of keys ready to be processed; neither delayed ones nor those being processed."""
        return len(self._queued)

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shutting_down

    @property
    def delayed(self) -> int:
        """Number of keys that wait for their time."""
        return len(self._delayed)

    @property
    def processing(self) -> int:
        """Number of keys that workers have at the moment."""
        return len(self._processing)

    def add(self, key: K, priority: int = 0) -> None:
        """Let the key be processed (again). Higher priorities go first, equal ones in the order of adding. A key that
        is queued already stays once, with the higher of the two priorities. Ignored after `shut_down`."""
        if self._shutting_down:
            return
        if key in self._processing:
            former = self._again.get(key)
            if former is None:
                self._count_add(key)
            self._again[key] = priority if former is None else max(priority, former)
            return
        queued = self._queued.get(key)
        if queued is not None:
            if priority > -queued[0]:
                self._enqueue(key, priority, queued[1])
            return
        self._count_add(key)
        self._sequence += 1
        self._enqueue(key, priority, self._sequence)
        self._wake_getter()

    def _count_add(self, key: K) -> None:
        if self._metrics is not None:
            self._metrics.adds.inc()
            self._added_at[key] = self._clock.monotonic()

    def _enqueue(self, key: K, priority: int, sequence: int) -> None:
        self._queued[key] = (-priority, sequence)
        heapq.heappush(self._heap, (-priority, sequence, key))

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.pop()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._getters:
            self._wake_getter()

    async def get(self) -> K:
        """The next key; the caller owes a `done` for it. Raises `QueueShutDown` when nothing will come any more."""
        while not self._queued:
            if self._shutting_down and not self._again:
                raise QueueShutDown(self.name)
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if not getter.cancelled() and self._queued:
                    self._wake_getter()  # the key that this getter was woken for is another one's now
                raise
        heap = self._heap
        while True:
            priority, sequence, key = heapq.heappop(heap)
            if self._queued.get(key) == (priority, sequence):
                break
        del self._queued[key]
        now = self._clock.monotonic()
        self._processing[key] = now
        if self._metrics is not None:
            self._metrics.queue_duration.observe(now - self._added_at.pop(key, now))
        return key

    async def serve(self, process: Callable[[K], Awaitable[None]]) -> None:
        """Be a worker until the queue is shut down. process: handles a key, and calls `done`.

        No variable holds the last key while the worker waits: hundreds of such texts from a busy hour would each hold the memory around them.
        """
        with contextlib.suppress(QueueShutDown):
            while True:
                await process(await self.get())

    def done(self, key: K) -> None:
        """The worker finished with the key, well or not. It is queued again if it was added meanwhile."""
        started = self._processing.pop(key, None)
        if started is not None and self._metrics is not None:
            self._metrics.work_duration.observe(self._clock.monotonic() - started)
        priority = self._again.pop(key, None)
        if priority is not None:
            self._sequence += 1
            self._enqueue(key, priority, self._sequence)
            self._wake_getter()
        if self._shutting_down:
            self._wake_all()
            self._check_drained()

    def add_after(self, key: K, delay: float, priority: int = 0) -> None:
        """`add` the key after `delay` seconds; at once if that is not positive. Of several delays of a key the one that
        ends first counts. Ignored after `shut_down`."""
        if self._shutting_down:
            return
        if delay <= 0:
            self.add(key, priority)
            return
        ready_at = self._clock.monotonic() + delay
        former = self._delayed.get(key)
        if former is not None and former[0] <= ready_at:
            if priority > former[1]:
                self._delayed[key] = (former[0], priority)
            return
        self._delayed[key] = (ready_at, priority if former is None else max(priority, former[1]))
        self._sequence += 1
        heapq.heappush(self._delays, (ready_at, self._sequence, key))
        self._arm()

    def add_rate_limited(self, key: K, priority: int = 0) -> None:
        """`add` the key when the rate limiter says that it may be tried again."""
        delay = self._limiter.when(key)
        if self._metrics is not None:
            self._metrics.retries.inc()
        self.add_after(key, delay, priority)

    def forget(self, key: K) -> None:
        """The key's failures do not count any more. To be called after success; does not take it off the queue."""
        self._limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        """How often the key failed since the last `forget`."""
        return self._limiter.num_requeues(key)

    def _arm(self) -> None:
        ready_at = self._delays[0][0]
        if self._timer is not None:
            if self._timer_at <= ready_at:
                return
            self._timer.cancel()
        self._timer_at = ready_at
        self._timer = self._clock.call_later(max(0.0, ready_at - self._clock.monotonic()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        # A timer may fire a clock tick early: what it was set for is due by definition.
        now = max(self._clock.monotonic(), self._timer_at)
        delays = self._delays
        while delays and delays[0][0] <= now:
            ready_at, _, key = heapq.heappop(delays)
            waiting = self._delayed.get(key)
            if waiting is not None and waiting[0] == ready_at:
                del self._delayed[key]
                self.add(key, waiting[1])
        if delays:
            self._arm()

    def shut_down(self) -> None:
        """Accept nothing more. Workers get what is queued or was added again while being processed, then
        `QueueShutDown`; delayed keys are dropped."""
        self._shutting_down = True
        self._delayed.clear()
        self._delays.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake_all()
        self._check_drained()

    async def shut_down_with_drain(self) -> None:
        """`shut_down`, and return when every key that was queued or being processed is done."""
        self.shut_down()
        if self._queued or self._processing:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(drained)
            await drained

    def _check_drained(self) -> None:
        """Tell who waits for the end of a queue that shuts down, if this is it."""
        if not self._queued and not self._processing:
            drained, self._drained = self._drained, []
            for waiter in drained:
                if not waiter.done():
                    waiter.set_result(None)

    def _unfinished(self) -> float:
        now = self._clock.monotonic()
        return sum(now - started for started in self._processing.values())

    def _longest_running(self) -> float:
        now = self._clock.monotonic()
        return max((now - started for started in self._processing.values()), default=0.0)
