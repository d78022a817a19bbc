"""Events that are too large are recorded without their objects, or not at all.

Source: `k8s.io/apiserver/plugin/pkg/audit/truncate`.
"""

from __future__ import annotations

import asyncio

import msgspec

from bayplan.apiserver.audit.backend import Backend, Failures
from bayplan.apiserver.audit.events import Event, line
from bayplan.apiserver.audit.policy import LEVELS, Level

_PLUGIN = "truncate"
_ANNOTATION = {"audit.k8s.io/truncated": "true"}


class Truncating:
    """Stands before another backend."""

    def __init__(self, inner: Backend, most: int, failures: Failures) -> None:
        """most: bytes of an event."""
        self._inner = inner
        self._most = most
        self._failures = failures

    def process(self, event: Event) -> asyncio.Future[bool] | None:
        """See Backend."""
        size = len(line(event))
        if size > self._most and LEVELS[event.level] >= Level.REQUEST:
            event = truncated(event)
            size = len(line(event))
        if size > self._most:
            self._failures.report(_PLUGIN, "event is too large even after truncating", (event,))
            return None
        return self._inner.process(event)

    async def close(self) -> None:
        """See Backend."""
        await self._inner.close()


def truncated(event: Event) -> Event:
    """The event without the objects."""
    notes = {**event.annotations, **_ANNOTATION}
    return msgspec.structs.replace(event, request_object=None, response_object=None, annotations=notes)
