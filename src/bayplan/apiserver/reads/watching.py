"""Watches: what happened to the objects of one kind, in order, to everybody who asked.

An event is made once and shared by all watchers; its JSON is made at most once per event type. A watcher has a bounded queue: who reads too slowly is cut off
and has to list again, as in Kubernetes, and nobody else waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.support.metrics.instruments import Counter

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"

QUEUE_LIMIT = 100_000
"""Events that may wait for one watcher before it is cut off."""


class Entry:
    """One object in the cache, as of one revision. Never changed once made."""

    __slots__ = (
        "body",
        "create_revision",
        "decoded",
        "fields",
        "labels",
        "name",
        "namespace",
        "revision",
        "uid",
    )

    def __init__(
        self,
        namespace: str,
        name: str,
        revision: int,
        create_revision: int,
        body: bytes,
        labels: dict[str, str],
        fields: dict[str, str],
        uid: str,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.create_revision = create_revision
        self.body = body
        """JSON of the object without kind and apiVersion and the opening brace: `"metadata":{...},...}`."""
        self.labels = labels
        self.fields = fields
        """Selectable fields: path -> value."""
        self.uid = uid
        self.decoded: Any = None
        """The struct, kept for a while so that watchers in this process share it."""


class Event:
    """One change of one object, shared by all watchers of its kind."""

    __slots__ = ("_json", "entry", "previous", "revision")

    def __init__(self, entry: Entry | None, previous: Entry | None, revision: int) -> None:
        self.entry = entry
        """The object now; None if it was deleted."""
        self.previous = previous
        """The object before; None if it is new. Of a deleted object: its last state with the revision of the deletion."""
        self.revision = revision
        self._json: dict[object, bytes] = {}

    def json(self, event_type: str, kind: Kind, entry: Entry) -> bytes:
        """The line of a JSON watch stream."""
        key = (event_type, kind)
        line = self._json.get(key)
        if line is None:
            line = b'{"type":"%b","object":%b%b}\n' % (event_type.encode(), kind.type_meta, entry.body)
            self._json[key] = line
        return line

    def forget_lines(self) -> None:
        """Let go of the forms: watchers that still want one make it again."""
        if self._json:
            self._json = {}

    def rendered(self, key: object, make: Callable[[], bytes]) -> bytes:
        """A form of the event that is made once and shared by all watchers who name it with the same key."""
        line = self._json.get(key)
        if line is None:
            line = self._json[key] = make()
        return line


Item = tuple[str, Entry, Event | None]
"""What waits for a watcher: event type, object, and the event, unless it is made for this watcher alone."""
_BATCH = 1000
"""Events that a reader gets at once."""

Selection = Callable[[Entry], bool]
"""Whether an object is one that the watcher wants."""


class Watcher:
    """One running watch. Yields (event type, entry, event); the transport gives them their form."""

    __slots__ = (
        "_closed",
        "_queue",
        "_waiter",
        "bookmarks",
        "expired",
        "idle_sink",
        "is_client",
        "kind",
        "media_type",
        "overrun",
        "render",
        "select",
        "sent",
        "start_revision",
        "timeout",
        "when_closed",
    )

    def __init__(self, kind: Kind, select: Selection | None, start_revision: int) -> None:
        self.kind = kind
        self.select = select
        self.start_revision = start_revision
        """Events up to and including this revision are not delivered."""
        self.overrun = False
        """Cut off because it read too slowly."""
        self.is_client = False
        """Whether a client follows it, and not a part of the server."""
        self.expired = False
        """Ended because events were missed: who follows has to list anew."""
        self.bookmarks = False
        self.timeout: float | None = None
        """Seconds after which the server ends the watch."""
        self.media_type = "application/json"
        """Of what is streamed: decides how an error event is written."""
        self.render: Callable[[str, Entry, Event | None], bytes] | None = None
        """How events become bytes, if not as plain JSON lines."""
        self._queue: deque[Item] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self.when_closed: Callable[[Watcher], None] | None = None
        """Called once when the watch ends."""
        self.sent: Counter | None = None
        """Counts the events that leave the queue."""
        self.idle_sink: Callable[[Watcher], None] | None = None
        """Called instead of waking an idle reader when the first event comes; it takes the events, or wakes the reader."""

    def on_close(self, callback: Callable[[Watcher], None]) -> None:
        """Call back once when the watch ends."""
        self.when_closed = callback

    def offer(self, event: Event) -> None:
        """Queue a change if it concerns what this watcher selects; objects may enter and leave its view."""
        if self._closed or event.revision <= self.start_revision:
            return
        entry, previous, select = event.entry, event.previous, self.select
        now = entry is not None and (select is None or select(entry))
        before = previous is not None and (select is None or select(previous))
        if entry is not None and now:
            self.put(MODIFIED if before else ADDED, entry, event)
        elif previous is not None and before:
            self.put(DELETED, previous, event)

    def put(self, event_type: str, entry: Entry, event: Event | None) -> None:
        """Queue one event; a full queue ends the watch."""
        if len(self._queue) >= QUEUE_LIMIT:
            self.overrun = True
            self.close()
            return
        queue = self._queue
        queue.append((event_type, entry, event))
        if self._waiter is not None:
            if self.idle_sink is None:
                self.wake()
            elif len(queue) == 1:
                self.idle_sink(self)

    async def next_batch(self) -> list[Item]:
        """The events that are there, waiting for the first; empty when the watch has ended."""
        return self.take() if await self.wait() else []

    async def wait(self) -> bool:
        """Return once there are events; False if the watch has ended and there are none."""
        while not self._queue:
            if self._closed:
                return False
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return True

    def take(self, limit: int = _BATCH) -> list[Item]:
        """The first of the events that are there."""
        queue = self._queue
        count = min(limit, len(queue))
        if self.sent is not None:
            self.sent.value += count
        return [queue.popleft() for _ in range(count)]

    @property
    def has_events(self) -> bool:
        """Whether there is something to take."""
        return bool(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether a reader waits for events."""
        return self._waiter is not None

    def wake(self, error: Exception | None = None) -> None:
        """End the wait of an idle reader: there are events, or the watch has ended, or an error is to be raised there."""
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    def line(self, event_type: str, entry: Entry, event: Event | None) -> bytes:
        """One event as the bytes of this watch's stream."""
        if self.render is not None:
            return self.render(event_type, entry, event)
        if event is not None:
            return event.json(event_type, self.kind, entry)
        return b'{"type":"%b","object":%b%b}\n' % (event_type.encode(), self.kind.type_meta, entry.body)

    @property
    def closed(self) -> bool:
        """Whether the watch has ended; queued events may still be read."""
        return self._closed

    def expire(self) -> None:
        """End the watch, since it cannot go on without a gap."""
        self.expired = True
        self.close()

    def close(self) -> None:
        """End the watch. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self.wake()
        if self.when_closed is not None:
            self.when_closed(self)
