"""Watches of a custom resource that a webhook converts.

    change -> offer/put -> what waits -> the feeder asks for the objects in the version of the watch -> selection -> the queue of every watcher

What has changed is converted once for all watches of a version (`conversion.WebhookConverter`). If it cannot be, an ERROR event ends the watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from bayplan.api.errors import ApiError, internal_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.custom_resources.mixed_cache import MixedCache, MixedEntry
from bayplan.apiserver.reads.representation import error_event
from bayplan.apiserver.reads.watching import (
    ADDED,
    DELETED,
    ERROR,
    MODIFIED,
    QUEUE_LIMIT,
    Entry,
    Event,
    Selection,
    Watcher,
)

logger = logging.getLogger(__name__)

_AT_ONCE = 500
"""Events whose objects are converted by one call at most."""


class _Waiting:
    """An event before its objects are in the version of the watch."""

    __slots__ = ("entry", "event", "event_type", "previous")

    def __init__(self, event_type: str, entry: Entry | None, previous: Entry | None, event: Event | None) -> None:
        self.event_type = event_type
        """"" for changes, of which it is seen later what they mean to the watcher."""
        self.entry = entry
        self.previous = previous
        self.event = event


class ConvertingWatcher(Watcher):
    """A watcher that sees objects in its version, whatever they are kept in."""

    __slots__ = ("_cache", "_chooses", "_feeder", "_pending", "_rung")

    def __init__(
        self,
        kind: Kind,
        cache: MixedCache,
        place: tuple[str, str | None],
        chooses: Selection | None,
        start_revision: int,
    ) -> None:
        """place: the namespace ("": all) and the name (None: any) of what is watched. chooses: selects among objects of the kind's version."""
        namespace, name = place
        super().__init__(
            kind, lambda one: namespace in ("", one.namespace) and name in (None, one.name), start_revision
        )
        self._cache = cache
        self._chooses = chooses
        self._pending: deque[_Waiting] = deque()
        self._rung = asyncio.Event()
        self._feeder = asyncio.create_task(self._feed(), name=f"watch of converted {kind.group_resource}")

    def offer(self, event: Event) -> None:
        """See Watcher. Whether the change concerns the watch is seen when the objects are converted."""
        if self.closed or event.revision <= self.start_revision:
            return
        subject = event.entry or event.previous
        if subject is not None and (self.select is None or self.select(subject)):
            needs_previous = event.entry is None or self._chooses is not None
            self._wait(_Waiting("", event.entry, event.previous if needs_previous else None, event))

    def put(self, event_type: str, entry: Entry, event: Event | None) -> None:
        """See Watcher."""
        self._wait(_Waiting(event_type, entry, None, event))

    def _wait(self, waiting: _Waiting) -> None:
        if len(self._pending) >= QUEUE_LIMIT:
            self.overrun = True
            self.close()
            return
        self._pending.append(waiting)
        self._rung.set()

    async def _feed(self) -> None:
        """Pass on what waits, in order, as long as the watch lasts."""
        while not self.closed:
            await self._rung.wait()
            batch = [self._pending.popleft() for _ in range(min(_AT_ONCE, len(self._pending)))]
            if not self._pending:
                self._rung.clear()
            try:
                await self._pass_on(batch)
            except ApiError as error:
                self._end_with(error.message)
            except Exception as error:  # whoever reads the watch must learn that it has ended
                logger.exception("a watch of %s failed", self.kind.group_resource)
                self._end_with(f"{type(error).__name__}: {error}")

    async def _pass_on(self, batch: list[_Waiting]) -> None:
        wanted = [entry for one in batch for entry in (one.entry, one.previous) if isinstance(entry, MixedEntry)]
        converted = await self._cache.in_version(self.kind, wanted)
        by_original = dict(zip(map(id, wanted), converted, strict=True))
        for one in batch:
            entry, previous = (
                None if each is None else by_original.get(id(each), each) for each in (one.entry, one.previous)
            )
            if not one.event_type:
                self._put_change(one, entry, previous)
            elif entry is not None and (one.event_type != ADDED or self._is_chosen(entry)):
                super().put(one.event_type, entry, None)

    def _put_change(self, one: _Waiting, entry: Entry | None, previous: Entry | None) -> None:
        """Queue a change as what it means to the watcher: objects may enter and leave its view."""
        assert one.event is not None
        now = entry is not None and self._is_chosen(entry)
        if self._chooses is None:
            before = one.event.previous is not None
        else:
            before = previous is not None and self._is_chosen(previous)
        event = Event(entry, previous, one.event.revision)
        if entry is not None and now:
            super().put(MODIFIED if before else ADDED, entry, event)
        elif previous is not None and before:
            super().put(DELETED, previous, event)

    def _is_chosen(self, entry: Entry) -> bool:
        return self._chooses is None or self._chooses(entry)

    def _end_with(self, why: str) -> None:
        """Tell the client why there are no more events."""
        failed = Entry("", "", 0, 0, b"", {}, {}, "")
        failed.decoded = internal_error(why).status
        super().put(ERROR, failed, None)
        self.close()

    def line(self, event_type: str, entry: Entry, event: Event | None) -> bytes:
        """See Watcher."""
        if event_type == ERROR:
            return error_event(self.media_type, entry.decoded)
        return super().line(event_type, entry, event)

    def close(self) -> None:
        """See Watcher."""
        super().close()
        if self._feeder is not asyncio.current_task():
            self._feeder.cancel()
