"""Mode `batch`: events are kept in memory, and given to their sink several at a time.

Source: `k8s.io/apiserver/plugin/pkg/audit/buffered`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from bayplan.apiserver.audit.backend import Failures, Sink
from bayplan.apiserver.audit.events import Event
from bayplan.apiserver.audit.settings import BatchSettings
from bayplan.support.clock import Clock

_PLUGIN = "buffered"


class Batching:
    """A queue before a sink. An event that finds it full is lost, and reported."""

    def __init__(
        self, sink: Sink, settings: BatchSettings, failures: Failures, clock: Clock, *, side_by_side: bool
    ) -> None:
        """side_by_side: whether a batch is written while those before it still are."""
        self._sink = sink
        self._settings = settings
        self._failures = failures
        self._clock = clock
        self._side_by_side = side_by_side
        self._buffer: deque[Event] = deque()
        self._news = asyncio.Event()
        self._is_closed = False
        self._is_due = False
        """Whether the time is up that the first event may wait."""
        self._tokens, self._counted_at = float(settings.throttle_burst), clock.monotonic()
        self._under_way: set[asyncio.Task[bool]] = set()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="audit events")

    def process(self, event: Event) -> None:
        """See Backend."""
        if self._is_closed:
            self._failures.report(_PLUGIN, "audit backend shut down", (event,))
        elif len(self._buffer) >= self._settings.buffer_size:
            self._failures.report(_PLUGIN, "audit buffer queue blocked", (event,))
        else:
            self._buffer.append(event)
            if len(self._buffer) in (1, self._settings.max_size):
                self._news.set()

    async def close(self) -> None:
        """See Backend."""
        self._is_closed = True
        self._news.set()
        await self._task
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._sink.close()

    async def _run(self) -> None:
        while not self._is_closed or self._buffer:
            batch = await self._next_batch()
            if not batch:
                continue
            await self._throttle()
            writing = asyncio.get_running_loop().create_task(self._sink.write(batch))
            self._under_way.add(writing)
            writing.add_done_callback(self._under_way.discard)
            if not self._side_by_side:
                await asyncio.wait((writing,))

    async def _next_batch(self) -> Sequence[Event]:
        """The next events: once there are enough, or the first has waited long enough."""
        most = self._settings.max_size
        while not (self._buffer or self._is_closed):
            self._news.clear()
            await self._news.wait()
        timer = self._clock.call_later(self._settings.max_wait, self._time_is_up) if most > 1 else None
        self._is_due = False
        try:
            while len(self._buffer) < most and not (self._is_due or self._is_closed):
                self._news.clear()
                await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()
        return [self._buffer.popleft() for _ in range(min(most, len(self._buffer)))]

    def _time_is_up(self) -> None:
        self._is_due = True
        self._news.set()

    async def _throttle(self) -> None:
        """Wait until another batch may be written."""
        settings = self._settings
        if not settings.throttle_enable:
            return
        now = self._clock.monotonic()
        self._tokens = min(settings.throttle_burst, self._tokens + (now - self._counted_at) * settings.throttle_qps)
        self._counted_at = now
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / settings.throttle_qps)
