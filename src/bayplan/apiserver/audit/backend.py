"""What takes events, and the ways to give them to a sink: waiting for it, or not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from bayplan.apiserver.audit.events import Event, legacy_line
from bayplan.support.metrics.instruments import Registry

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where events end: a file, a service."""

    async def write(self, events: Sequence[Event]) -> bool:
        """Keep events; returns whether that worked. What does not work has been reported."""

    async def close(self) -> None:
        """Finish what has begun."""


class Backend(Protocol):
    """What the auditor hands events to."""

    def process(self, event: Event) -> asyncio.Future[bool] | None:
        """Take an event. None: it is taken. Otherwise what to wait for, if somebody waits: whether it is kept."""

    async def close(self) -> None:
        """Finish what has been taken."""


class Failures:
    """Counts and reports events that could not be kept."""

    def __init__(self, metrics: Registry) -> None:
        self._errors = metrics.counter(
            "apiserver_audit_error_total",
            "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.",
            ("plugin",),
        )

    def report(self, plugin: str, problem: object, events: Sequence[Event]) -> None:
        """Tell which events are lost, and why."""
        self._errors.labels(plugin).inc(len(events))
        shown = "".join(legacy_line(event).decode() for event in events)
        logger.error(
            "Error in audit plugin '%s' affecting %d audit events: %s\nImpacted events:\n%s",
            plugin,
            len(events),
            problem,
            shown,
        )


class Blocking:
    """Requests wait until their events are kept. Modes `blocking` and, if strict, `blocking-strict`."""

    def __init__(self, sink: Sink, *, strict: bool) -> None:
        """strict: whether it matters that an event cannot be kept."""
        self._sink = sink
        self._strict = strict
        self._under_way: set[asyncio.Task[bool]] = set()

    def process(self, event: Event) -> asyncio.Future[bool]:
        """See Backend."""
        task = asyncio.get_running_loop().create_task(self._write(event))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _write(self, event: Event) -> bool:
        return await self._sink.write((event,)) or not self._strict

    async def close(self) -> None:
        """See Backend."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._sink.close()
