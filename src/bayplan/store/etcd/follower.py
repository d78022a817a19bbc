"""What happens in etcd, in order, to everybody in this process who watches: one watch of all keys, and how far it has come.

All keys, not just those of the store: every revision then brings an event, so that one can wait until the watch has come to the revision of a quorum read or of a
write, which no server before 3.4.31 and 3.5.13 could be asked for.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import Any

from bayplan.store.errors import Compacted, StoreClosed, StoreError, StoreUnavailable
from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.errors import EtcdAccessDenied, EtcdCompacted, EtcdError
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.messages import EVENT_DELETE
from bayplan.store.etcd.watches import EtcdWatch
from bayplan.store.interface import Event
from bayplan.store.watching import Subscription, WatchHub
from bayplan.support.clock import Clock

_ALL = b"\0"
Attach = Callable[[str, bytes | None], object]
"""What the writer handed over with a write of a key and a value in this process; None if it was another's."""


class Follower:
    """The watch, its subscribers, and those who wait for a revision."""

    def __init__(self, client: EtcdClient, clock: Clock, layout: KeyLayout, attach: Attach, *, previous: bool) -> None:
        self._client, self._clock, self._layout, self._attach = client, clock, layout, attach
        self._previous = previous
        self.hub = WatchHub()
        self.revision = 0
        """Up to here everything has been delivered."""
        self.failure = ""
        """Why the watch has ended; "" while it runs."""
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._watch: EtcdWatch | None = None
        self._past: set[asyncio.Future[None]] = set()
        """Deliveries of the past that run."""
        self._order = 0

    def start(self, revision: int) -> None:
        """Follow what comes behind a revision."""
        self.revision = revision
        self._follow()

    def _follow(self) -> None:
        self.failure = ""
        self._watch = self._client.watch(
            _ALL,
            _ALL,
            start_revision=self.revision + 1,
            on_events=self._take,
            on_lost=self._lost,
            on_progress=self._progress,
            previous=self._previous,
        )

    def stop(self) -> None:
        """End everything. Those who wait get StoreClosed."""
        if self._watch is not None:
            self._watch.cancel()
        self.hub.clear()
        for future in (*(one for _, _, one in self._waiting), *self._past):
            if not future.done():
                future.set_exception(StoreClosed("the store is closed"))
        self._waiting.clear()

    def _take(self, events: Sequence[Any], _revision: int) -> None:
        found: list[Event] = []
        for event in events:
            key = self._layout.from_etcd(event.kv.key)
            if key is not None:
                value = None if event.type == EVENT_DELETE else event.kv.value
                found.append(_event(event, key, value, self._attach(key, value)))
        self.hub.publish(found)
        self._progress(events[-1].kv.mod_revision)

    def _progress(self, revision: int) -> None:
        if revision <= self.revision:
            return
        self.revision = revision
        waiting = self._waiting
        while waiting and waiting[0][0] <= revision:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def _lost(self, error: EtcdError) -> None:
        """The watch cannot go on: subscribers learn it, and a new watch begins behind the gap."""
        self._watch = None
        if not isinstance(error, EtcdCompacted):
            self.failure = f"etcd ended the watch of all keys: {error}"
            if isinstance(error, EtcdAccessDenied):
                self.failure += "; the user needs the permission to read all keys"
            self._fail_waiting(StoreUnavailable(self.failure))
            return
        for subscription in list(self.hub):
            subscription.lose(error.compact_revision + 1)
        self._progress(error.compact_revision)
        self._follow()

    def _fail_waiting(self, error: StoreError) -> None:
        for _, _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    async def reached(self, revision: int, seconds: float) -> None:
        """Return when everything up to a revision has been delivered. Raises StoreUnavailable after so many seconds, StoreClosed."""
        if revision <= self.revision:
            return
        if self.failure:
            raise StoreUnavailable(self.failure)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._waiting, (revision, self._order, future))
        timer = self._clock.call_later(seconds, _expire, future, revision)
        try:
            await future
        finally:
            timer.cancel()

    async def deliver_past(self, subscription: Subscription, target: int, seconds: float) -> None:
        """Give a subscription, which keeps what is new, the events from its start to a revision. Raises Compacted, StoreUnavailable, StoreClosed."""
        start = max(subscription.start_revision, 1)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take(events: Sequence[Any], _revision: int) -> None:
            found = []
            for event in events:
                key = self._layout.from_etcd(event.kv.key)
                if key is not None and key.startswith(subscription.prefix) and event.kv.mod_revision <= target:
                    found.append(_event(event, key, None if event.type == EVENT_DELETE else event.kv.value, None))
            subscription.replay(found)
            reached(events[-1].kv.mod_revision)

        def reached(revision: int) -> None:
            if revision >= target and not done.done():
                done.set_result(None)

        def lost(error: EtcdError) -> None:
            if not done.done():
                compacted = error.compact_revision + 1 if isinstance(error, EtcdCompacted) else 0
                done.set_exception(Compacted(start, compacted) if compacted else StoreUnavailable(str(error)))

        watch = self._client.watch(
            _ALL, _ALL, start_revision=start, on_events=take, on_lost=lost, on_progress=reached, previous=self._previous
        )
        timer = self._clock.call_later(seconds, _expire, done, target)
        self._past.add(done)
        try:
            await done
        finally:
            self._past.discard(done)
            timer.cancel()
            watch.cancel()


def _expire(future: asyncio.Future[None], revision: int) -> None:
    if not future.done():
        future.set_exception(
            StoreUnavailable(f"etcd: the watch has not come to revision {revision} in time; is the cluster healthy?")
        )


def _event(event: Any, key: str, value: bytes | None, attachment: object) -> Event:
    """An event of etcd in the terms of the store."""
    kv, before = event.kv, event.prev_kv
    previous_revision = before.mod_revision
    return Event(
        key,
        kv.mod_revision,
        value,
        before.create_revision if value is None else kv.create_revision,
        before.value if previous_revision else None,
        previous_revision,
        attachment,
    )
