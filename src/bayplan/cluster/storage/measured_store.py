"""A store whose requests are measured, under kube-apiserver's names for etcd: how many there were, how long they took, how many failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Final

from bayplan.api.kinds import resource_of_key
from bayplan.apiserver.tracing import Tracing
from bayplan.store.interface import Deliver, KeyValue, Lost, PendingWrite, RangeResult, Store, Watch
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Counter, Histogram, Registry

_SPANS: Final = {
    "get": "Get etcd3",
    "list": "List(recursive=true) etcd3",
    "create": "Create etcd3",
    "update": "GuaranteedUpdate etcd3",
    "delete": "Delete etcd3",
}
"""Operation -> the span of its request."""
_LABELS: Final = ("operation", "group", "resource")
_BUCKETS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)


class _Series:
    """One operation on one resource."""

    __slots__ = ("errors", "requests", "seconds")

    def __init__(self, requests: Counter, errors: Counter, seconds: Histogram) -> None:
        self.requests = requests
        self.errors = errors
        self.seconds = seconds

    def done(self, seconds: float, *, failed: bool) -> None:
        """A request was answered, or failed."""
        self.requests.value += 1
        if failed:
            self.errors.value += 1
        else:
            self.seconds.observe(seconds)


class _Request:
    """One request, from its beginning to its end."""

    __slots__ = ("_now", "_series", "_span", "_started")

    def __init__(self, series: _Series, now: Callable[[], float], span: AbstractContextManager[object] | None) -> None:
        self._series, self._now, self._span = series, now, span

    def __enter__(self) -> None:
        self._started = self._now()
        if self._span is not None:
            self._span.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is not None:
            self._span.__exit__(kind, error, trace)
        self._series.done(self._now() - self._started, failed=kind is not None)


class MeasuredStore:
    """`Store` over another one, usually etcd. A guard that does not hold counts as a failure, as in kube-apiserver."""

    def __init__(self, below: Store, clock: Clock, registry: Registry, tracing: Tracing | None = None) -> None:
        self._below = below
        self._tracing = tracing
        self._now = clock.monotonic
        self._requests = registry.counter(
            "etcd_requests_total", "Etcd request counts for each operation and object type.", _LABELS
        )
        self._errors = registry.counter(
            "etcd_request_errors_total", "Etcd failed request counts for each operation and object type.", _LABELS
        )
        self._seconds = registry.histogram(
            "etcd_request_duration_seconds",
            "Etcd request latency in seconds for each operation and object type.",
            _LABELS,
            _BUCKETS,
        )
        self._series: dict[tuple[str, str], _Series] = {}

    def _of(self, operation: str, key: str) -> _Series:
        place = operation, key.rpartition("/")[0]
        found = self._series.get(place)
        if found is None:
            group, resource = resource_of_key(key)
            labels = (operation, group, resource)
            found = self._series[place] = _Series(
                self._requests.labels(*labels), self._errors.labels(*labels), self._seconds.labels(*labels)
            )
        return found

    def _measured(self, operation: str, key: str) -> _Request:
        span = self._tracing.span(_SPANS[operation]) if self._tracing is not None else None
        return _Request(self._of(operation, key), self._now, span)

    @property
    def sole_writer(self) -> bool:
        return self._below.sole_writer

    @property
    def revision(self) -> int:
        return self._below.revision

    @property
    def compacted_revision(self) -> int:
        return self._below.compacted_revision

    @property
    def write_error(self) -> str:
        return self._below.write_error

    async def open(self) -> None:
        await self._below.open()

    async def close(self) -> None:
        await self._below.close()

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        with self._measured("get", key):
            return await self._below.get(key, revision=revision)

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        with self._measured("list", start):
            return await self._below.range(start, end, limit=limit, revision=revision)

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        with self._measured("update" if guard else "create", key):
            return await self._below.put(key, value, guard=guard, ttl=ttl, attachment=attachment)

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        with self._measured("delete", key):
            return await self._below.delete(key, guard=guard, attachment=attachment)

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> PendingWrite:
        operation = "delete" if value is None else "update" if guard else "create"
        pending = self._below.submit(key, value, guard=guard, attachment=attachment)
        end = self._tracing.begin(_SPANS[operation]) if self._tracing is not None else None
        pending.committed.add_done_callback(partial(self._committed, self._of(operation, key), self._now(), end))
        return pending

    def _committed(
        self, series: _Series, started: float, end: Callable[[], None] | None, committed: asyncio.Future[int]
    ) -> None:
        if end is not None:
            end()
        failed = committed.cancelled() or committed.exception() is not None
        series.done(self._now() - started, failed=failed)

    def pending(self, key: str) -> PendingWrite | None:
        return self._below.pending(key)

    @property
    def knows_lag(self) -> bool:
        return self._below.knows_lag

    @property
    def may_be_behind(self) -> bool:
        return self._below.may_be_behind

    async def catch_up(self) -> None:
        await self._below.catch_up()

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        return await self._below.watch(prefix, start_revision, deliver, lost)

    async def compact(self, revision: int) -> None:
        await self._below.compact(revision)
