"""A store in memory: the same guarantees without durability, for tests and simulations.

Current values sit in a dictionary, keys also in order, and the past is a list of events. Each event carries the value
that it replaced, so a range at a revision is the current range with the later events undone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from bayplan.store.errors import Compacted, Conflict, FutureRevision, StoreClosed
from bayplan.store.expiry import Expiries
from bayplan.store.forgetting import HistoryBound
from bayplan.store.interface import Deliver, Event, KeyValue, Lost, RangeResult, Watch
from bayplan.store.settings import MEMORY_HISTORY, HistorySettings
from bayplan.store.sorted_keys import SortedKeys
from bayplan.store.watching import Subscription, WatchHub
from bayplan.support.clock import Clock

_LOOK_EVERY = 8
_TRIM_EVERY = 1024
_TRIM_SECONDS = 30.0


class MemoryStore:
    """`Store` that forgets everything on `close`. Every write commits at once, within the call."""

    sole_writer = True
    knows_lag = True
    may_be_behind = False

    def __init__(self, *, clock: Clock, history: HistorySettings = MEMORY_HISTORY) -> None:
        self._clock = clock
        self._history = history
        self._revision = 0
        self._compacted = 0
        self._current: dict[str, KeyValue] = {}
        self._keys = SortedKeys()
        self._log: list[Event] = []
        """Events of the revisions from `_log_start` to `_revision`, one for each; without attachments."""
        self._log_start = 1
        self._look_at = _LOOK_EVERY
        """Revision that asks whether it is time to trim."""
        self._trim_at = _TRIM_EVERY
        """Revision from which on it is."""
        self._trim_due = 0.0
        """Monotonic seconds from which on it is, however few writes there were."""
        self._bound = HistoryBound(history)
        self._hub = WatchHub()
        self._expiries = Expiries(clock, self._expire)
        self._opened = False
        self._closed = False

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compacted_revision(self) -> int:
        return self._compacted

    @property
    def write_error(self) -> str:
        """Nothing: memory takes every write."""
        return ""

    async def open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")
        self._opened = True
        self._expiries.start()

    async def close(self) -> None:
        self._closed = True
        self._opened = False
        self._expiries.stop()
        self._hub.clear()
        self._current.clear()
        self._keys = SortedKeys()
        self._log.clear()

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreClosed("the store is closed" if self._closed else "the store is not open, await open() first")

    def _check_readable(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if 0 < revision < self._compacted:
            raise Compacted(revision, self._compacted)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        self._check_readable(revision)
        found = self._current.get(key)
        if revision in (0, self._revision) or (found is not None and found.mod_revision <= revision):
            return found
        for event in self._events_after(revision):
            if event.key == key:
                return _before(event)
        return found

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        self._check_readable(revision)
        current = self._current
        if revision in (0, self._revision):
            keys = self._keys.between(start, end, limit)
            count = len(keys) if limit <= 0 else self._keys.count(start, end)
            return RangeResult([current[key] for key in keys], self._revision, count)
        undone: dict[str, KeyValue | None] = {}
        for event in self._events_after(revision):
            key = event.key
            if start <= key < end and key not in undone:
                undone[key] = _before(event)
        then = [key for key in self._keys.between(start, end) if key not in undone]
        then.extend(key for key, item in undone.items() if item is not None)
        then.sort()
        count = len(then)
        if limit > 0:
            del then[limit:]
        return RangeResult([undone.get(key) or current[key] for key in then], revision, count)

    def _events_after(self, revision: int) -> list[Event]:
        return self._log[revision + 1 - self._log_start :]

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        return self._put(key, value, guard, None if ttl is None else self._clock.now() + ttl, attachment)

    def _put(self, key: str, value: bytes, guard: int | None, deadline: float | None, attachment: object) -> int:
        if not self._opened:
            self._check_open()
        old = self._current.get(key)
        if guard is not None and guard != (0 if old is None else old.mod_revision):
            raise Conflict(key, guard, 0 if old is None else old.mod_revision)
        revision = self._revision + 1
        if old is None:
            self._current[key] = KeyValue(key, value, revision, revision)
            self._keys.add(key)
            event = Event(key, revision, value, revision, None, 0)
        else:
            created = old.create_revision
            self._current[key] = KeyValue(key, value, created, revision)
            event = Event(key, revision, value, created, old.value, old.mod_revision)
        if deadline is not None:
            self._expiries.set(key, revision, deadline)
        elif self._expiries:
            self._expiries.discard(key)
        self._commit(event, attachment)
        return revision

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        self._check_open()
        return self._delete(key, guard, attachment)

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> _Done:
        if value is not None:
            return _Done(self._put(key, value, guard, None, attachment), attachment)
        self._check_open()
        return _Done(self._delete(key, guard, attachment), attachment)

    def pending(self, key: str) -> None:
        """Nothing ever is."""

    def _delete(self, key: str, guard: int | None, attachment: object) -> int:
        old = self._current.get(key)
        if old is None:
            raise Conflict(key, guard or 0, 0)
        if guard is not None and guard != old.mod_revision:
            raise Conflict(key, guard, old.mod_revision)
        revision = self._revision + 1
        del self._current[key]
        self._keys.remove(key)
        self._expiries.discard(key)
        self._commit(Event(key, revision, None, old.create_revision, old.value, old.mod_revision), attachment)
        return revision

    def _expire(self, key: str, mod_revision: int) -> None:
        found = self._current.get(key)
        if self._opened and found is not None and found.mod_revision == mod_revision:
            self._delete(key, mod_revision, None)

    def _commit(self, event: Event, attachment: object) -> None:
        self._revision = event.revision
        self._log.append(event)
        if event.revision >= self._look_at:
            self._look_at = event.revision + _LOOK_EVERY
            self._trim()
        if attachment is not None:
            event = msgspec.structs.replace(event, attachment=attachment)
        self._hub.publish_one(event)

    async def catch_up(self) -> None:
        self._check_open()

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        self._check_open()
        if start_revision < self._compacted:
            raise Compacted(start_revision, self._compacted)
        subscription = Subscription(self._hub, prefix, start_revision, deliver)
        past = [event for event in self._events_after(max(start_revision, 1) - 1) if event.key.startswith(prefix)]
        # Registered after the slice was taken and before anything else can run: no gap, no overlap.
        self._hub.add(subscription)
        if past:
            subscription.offer(past)
        return subscription

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        self._forget_before(revision)

    def _forget_before(self, revision: int) -> None:
        if revision <= self._compacted:
            return
        self._compacted = revision
        del self._log[: revision - self._log_start]
        self._log_start = revision

    def _trim(self) -> None:
        """Forget by age and number, if `_TRIM_EVERY` writes were made or `_TRIM_SECONDS` went by; asked by writes, so an idle store needs no timer."""
        now = self._clock.monotonic()
        if self._revision < self._trim_at and now < self._trim_due:
            return
        if self._history.automatic:
            self._bound.mark(now, self._revision)
            self._forget_before(self._bound.bound(now, self._revision))
        self._trim_at = self._revision + _TRIM_EVERY
        self._trim_due = now + _TRIM_SECONDS


@dataclass(frozen=True, slots=True)
class _Done:
    """A `PendingWrite` that was committed at once."""

    revision: int
    attachment: object

    @property
    def committed(self) -> asyncio.Future[int]:
        """See Begun."""
        future = asyncio.get_running_loop().create_future()
        future.set_result(self.revision)
        return future


def _before(event: Event) -> KeyValue | None:
    """The key as it was before `event`. A deletion ends the incarnation that it names, an update continues its own."""
    if event.previous is None:
        return None
    return KeyValue(event.key, event.previous, event.create_revision, event.previous_revision)
