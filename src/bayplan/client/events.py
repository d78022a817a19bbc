"""Events: what components tell people about objects. Written in the background; a component never waits for, or fails because of, an event."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client.client import Client
from bayplan.client.digest_table import Key
from bayplan.client.errors import TransportError
from bayplan.client.event_correlation import COMBINED, EventCorrelator
from bayplan.client.written_events import WrittenEvents
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339, rfc3339_micro

logger = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"
_QUEUE_LIMIT = 50_000
"""Events that may wait to be written; each takes a kilobyte."""
_WRITERS = 16


NOTE_LIMIT: Final = 1024
"""Bytes that an event's message may have in the newer form."""


def shortened(message: str) -> str:
    """A message that fits into an event of the newer form."""
    data = message.encode()
    if len(data) <= NOTE_LIMIT:
        return message
    return data[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."


def reference(client: Client, obj: Any) -> core_v1.ObjectReference:
    """An ObjectReference to an object."""
    kind, metadata = client.kinds.of_type(type(obj)), obj.metadata
    return core_v1.ObjectReference(
        kind=kind.kind,
        api_version=kind.api_version,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


class EventRecorder:
    """Records events of one component. Equal events are counted instead of written again, see also `event_correlation`."""

    def __init__(self, client: Client, component: str, clock: Clock, randomness: Randomness, *, host: str = "") -> None:
        """host: the node on which the component runs, for those that run on each."""
        self.client = client
        self._host = host
        self._component = component
        self._clock = clock
        self._randomness = randomness
        self._correlator = EventCorrelator()
        self._queue: asyncio.Queue[tuple[Key, core_v1.Event]] = asyncio.Queue(_QUEUE_LIMIT)
        self._written = WrittenEvents()
        self._being_written: dict[Key, asyncio.Future[None]] = {}
        """Equal events are written one after the other: each has to know whether the one before is there, to be counted."""
        self.dropped = 0
        """Events that were not written because the server could not keep up or refused them."""

    def event(self, obj: Any, event_type: str, reason: str, message: str, *, action: str = "") -> None:
        """Record an event about an object (or an ObjectReference). With an action it is written in the newer form, as kube-scheduler does."""
        regarding = obj if isinstance(obj, core_v1.ObjectReference) else reference(self.client, obj)
        now = self._clock.now()
        key: Key | None
        if action:
            key = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, event_type, reason, message)
        else:
            key = self._correlator.correlate(regarding, event_type, reason, message, now)
        if key is None:
            return
        if key[-1] is COMBINED:
            message = f"{COMBINED}{message}"
        namespace = regarding.namespace or "default"
        event = core_v1.Event(
            metadata=meta_v1.ObjectMeta(
                name=f"{regarding.name}.{self._randomness.uuid4().replace('-', '')[:16]}", namespace=namespace
            ),
            involved_object=regarding,
            reason=reason,
            message=message,
            type=event_type,
            reporting_component=self._component,
        )
        if key[-1] is COMBINED:  # client-go makes these anew, without the newer fields
            event.reporting_component = ""
        if action:
            event.action = action
            event.event_time = rfc3339_micro(now)
            event.reporting_instance = self._component
        else:
            event.first_timestamp = event.last_timestamp = rfc3339(now)
            event.count = 1
            event.source = core_v1.EventSource(component=self._component, host=self._host)
            event.reporting_instance = self._host
        try:
            self._queue.put_nowait((key, event))
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Write events until cancelled."""
        await asyncio.gather(*(self._write_all() for _ in range(_WRITERS)))

    async def flush(self) -> None:
        """Return once everything recorded so far is written or dropped."""
        await self._queue.join()

    async def _write_all(self) -> None:
        while True:  # without a variable that holds the last event until the next one comes
            await self._write_in_turn(*await self._queue.get())

    async def _write_in_turn(self, key: Key, event: core_v1.Event) -> None:
        """Write an event once no equal one is being written."""
        while (other := self._being_written.get(key)) is not None:
            await asyncio.wait((other,))  # without cancelling it
        done = self._being_written[key] = asyncio.get_running_loop().create_future()
        try:
            await self._write(key, event)
        except (ApiError, TransportError) as error:
            self.dropped += 1
            logger.debug("event %s about %s: %s", event.reason, event.involved_object.name, error)
        finally:
            del self._being_written[key]
            done.set_result(None)
            self._queue.task_done()

    async def _write(self, key: Key, event: core_v1.Event) -> None:
        now = self._clock.now()
        known = self._written.count(key, now)
        if known is not None and await self._count(event, *known):
            return
        self._written.put(key, event.metadata.name.rpartition(".")[2], now)
        await self.client.post(event)

    async def _count(self, event: core_v1.Event, ending: str, count: int) -> bool:
        """Count a repeated event, whose name has another ending. Returns False if the earlier one is no longer there."""
        if event.event_time is not None:
            patch: dict[str, Any] = {"series": {"count": count, "lastObservedTime": event.event_time}}
        else:
            patch = {"count": count, "lastTimestamp": event.last_timestamp, "message": event.message}
        name = f"{event.involved_object.name}.{ending}"
        try:
            await self.client.patch(core_v1.Event, name, event.metadata.namespace, patch)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True
