"""A store that another process of this machine owns, as this process sees it.

A write is acknowledged by its event, so that watches have it by then. If the owner ends with writes on their way, the client connects to the next owner and reads
what it has missed: a write whose event is there was made, and one whose event is missing was not, and is sent again. Callers wait longer, and notice nothing else.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import os
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from bayplan.store.errors import Compacted, FutureRevision, SharedStore, StoreClosed, StoreError, StoreUnavailable
from bayplan.store.interface import Deliver, Event, KeyValue, Lost, RangeResult, Watch
from bayplan.store.remote.inbox import Inbox
from bayplan.store.remote.link import PATIENCE, Link
from bayplan.store.remote.messages import (
    COMPACT,
    EVENTS,
    FAILED,
    PAST,
    PAST_EVENTS,
    RANGE,
    WELCOME,
    WRITE,
    WireEvent,
    decode_error,
    decode_events,
    decode_items,
    event_of,
)
from bayplan.store.remote.pending import RemoteWrite, RemoteWrites
from bayplan.store.remote.revision_file import RevisionFile
from bayplan.store.remote.server import revision_path
from bayplan.store.transforming import Readiness
from bayplan.store.watching import Subscription, WatchHub
from bayplan.support.clock import Clock
from bayplan.support.pipe import NotificationHandler, Pipe, PipeError

logger = logging.getLogger(__name__)

_SLOW_WRITE: Final = 10.0
"""Seconds after which a write that has not come back is reported."""
_NEARLY_PATIENCE: Final = 0.99 * PATIENCE
"""Timers of the system may be early by a little."""
_numbers = itertools.count(1)


class RemoteStore:
    """`Store` over the socket of a `StoreServer`."""

    sole_writer = False
    knows_lag = True

    def __init__(self, path: Path, *, clock: Clock, readiness: Readiness | None = None) -> None:
        """path: of the socket. readiness: what values of events wait for."""
        self._path = path
        self._clock = clock
        self._name = f"{os.getpid()}-{next(_numbers)}"
        """Who this is to the owner of the store, on all its connections."""
        self._inbox = inbox = Inbox(readiness)
        handlers: dict[str, NotificationHandler] = {
            EVENTS: self._take_events,
            WELCOME: lambda *told: inbox.take(partial(self._take_welcome, *told)),
            FAILED: lambda *told: inbox.take(partial(self._take_failure, *told)),
            PAST_EVENTS: self._take_past,
        }
        self._link = Link(path, clock, lambda: (self._name, self._seen), handlers, self._disconnected)
        self._hub = WatchHub()
        self._writes = RemoteWrites()
        self._numbers = itertools.count(1)
        self._past: dict[int, Subscription] = {}
        """Watches that are being given the past."""
        self._seen = -1
        """The revision up to which everything has been delivered; -1 before the first connection."""
        self._compacted = 0
        self._committed: RevisionFile | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._is_resuming = False
        """Whether the events that come are those that were missed, which do not say whose they were."""
        self._went_back = ""
        """What is wrong if the store has lost what this client has seen; "" if all is well."""
        self._write_failure = ""
        self._opened = False
        self._closed = False

    @property
    def revision(self) -> int:
        return max(self._seen, 0)

    @property
    def compacted_revision(self) -> int:
        return self._compacted

    @property
    def write_error(self) -> str:
        if self._went_back:
            return self._went_back
        if self._link.seconds_lost > 0:
            return self._link.unreachable()
        oldest = self._writes.oldest
        if oldest is not None and self._clock.monotonic() - oldest > _SLOW_WRITE:
            return f"a write has been waiting for the store for {self._clock.monotonic() - oldest:.0f} seconds"
        return self._write_failure

    async def open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")
        self._link.start()
        try:
            await self._link.connected()
            self._committed = RevisionFile(revision_path(self._path))
        except (StoreUnavailable, OSError) as error:
            await self._link.close()
            raise StoreUnavailable(str(error)) from error
        self._opened = True

    async def close(self) -> None:
        """See Store. Writes on their way end first, or fail if the owner of the store does not come back."""
        was_open, self._opened, self._closed = self._opened, False, True
        if was_open:
            await self._writes.idle.wait()
        await self._link.close()
        await self._inbox.close()
        self._hub.clear()
        for _, _, future in self._waiting:
            if not future.done():
                future.set_exception(StoreClosed("the store is closed"))
        self._waiting.clear()
        if self._committed is not None:
            self._committed.close()
            self._committed = None

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreClosed("the store is closed" if self._closed else "the store is not open, await open() first")
        if self._went_back:
            raise StoreUnavailable(self._went_back)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        page = await self.range(key, key + "\0", limit=1, revision=revision)
        return page.items[0] if page.items else None

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        self._check_open()
        items, shown, count = await self._ask(RANGE, start, end, limit, revision)
        return RangeResult(decode_items(items), shown, count)

    async def _ask(self, topic: str, *arguments: Any) -> list[Any]:
        """What the owner answers. Raises StoreError."""
        answer: list[Any] = await self._link.call(topic, *arguments)
        error, rest = answer[0], answer[1:]
        if not error:
            return rest
        raise self._failure(error, rest[0])

    def _failure(self, name: str, arguments: list[Any]) -> StoreError:
        """What the owner answers as the error that it is."""
        failure = decode_error(name, arguments)
        if isinstance(failure, Compacted):
            self._compacted = max(self._compacted, failure.compacted_revision)
        return failure

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        self._check_open()
        return await self._write(key, value, guard, ttl, attachment)

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        self._check_open()
        return await self._write(key, None, guard, None, attachment)

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> NoReturn:
        """Not here: the owner of the store gives out revisions. Raises SharedStore."""
        self._check_open()
        raise SharedStore("a write of another process has no revision before it is committed; await put or delete")

    def pending(self, key: str) -> None:
        """Nothing that others could build on."""

    async def _write(
        self, key: str, value: bytes | None, guard: int | None, ttl: float | None, attachment: object
    ) -> int:
        """One write, from the call to its event. Raises Conflict, StoreUnavailable, ValueTooLarge."""
        if not key.isascii():
            key.encode()  # fails here rather than in a message along with the writes of others
        if self._link.seconds_lost >= PATIENCE:
            raise StoreUnavailable(self._link.unreachable())
        committed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        now = self._clock.monotonic()
        write = RemoteWrite(next(self._numbers), key, value, guard, ttl, attachment, committed, now)
        self._writes.add(write)
        if self._link.pipe is not None:
            _send(self._link.pipe, write)
        return await committed

    def _take_events(self, data: bytes, compacted: int) -> None:
        """Events of all commits, in order."""
        told = decode_events(data)
        self._inbox.take(partial(self._publish, told, compacted), told)

    def _publish(self, told: list[WireEvent], compacted: int) -> None:
        events: list[Event] = []
        done: list[tuple[RemoteWrite, int]] = []
        for one in told:
            write = None
            if one.client == self._name:
                write = self._writes.take(one.number)
            elif self._is_resuming:
                write = self._writes.take_told_by(one)
            if write is None:
                events.append(event_of(one))
            else:
                events.append(event_of(one, write.attachment))
                done.append((write, one.revision))
        self._compacted = max(self._compacted, compacted)
        self._hub.publish(events)
        self._show(events[-1].revision)
        for write, revision in done:
            self._write_failure = ""
            if not write.committed.done():
                write.committed.set_result(revision)

    def _show(self, revision: int) -> None:
        """Everything up to a revision has been delivered: wake those who wait for it."""
        self._seen = revision
        waiting = self._waiting
        while waiting and waiting[0][0] <= revision:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def _take_welcome(self, pipe: Pipe, revision: int, compacted: int, is_whole: bool) -> None:
        """Live events come from here on. is_whole: whether everything came that happened since this client was connected before."""
        self._is_resuming = False
        self._compacted = max(self._compacted, compacted)
        if revision < self._seen:
            self._went_back = (
                f"{self._path}: the store is at revision {revision}, and has been at {self._seen} before: it has been replaced; "
                "start this server anew"
            )
            logger.error(self._went_back)
            self._give_up(self._went_back)
            return
        if not is_whole:
            self._give_up("the store was compacted while it could not be reached: it is not known whether it was made")
            for subscription in list(self._hub):
                subscription.lose(compacted)
        self._show(revision)
        for write in self._writes:
            _send(pipe, write)

    def _disconnected(self) -> None:
        """The owner has gone. What waits for it waits for the next one, but not for ever."""
        self._is_resuming = True
        self._inbox.forget()

        def look() -> None:
            if self._link.seconds_lost >= _NEARLY_PATIENCE:  # and not since another, later end of a connection
                self._give_up(self._link.unreachable())

        self._clock.call_later(PATIENCE, look)

    def _give_up(self, reason: str) -> None:
        self._writes.fail(StoreUnavailable(reason))
        for _, _, future in self._waiting:
            if not future.done():
                future.set_exception(StoreUnavailable(reason))
        self._waiting.clear()

    def _take_failure(self, number: int, error: str, arguments: list[Any]) -> None:
        """A write was not made."""
        write, failure = self._writes.take(number), decode_error(error, arguments)
        if isinstance(failure, StoreUnavailable):
            self._write_failure = str(failure)
        if write is not None and not write.committed.done():
            write.committed.set_exception(failure)

    @property
    def may_be_behind(self) -> bool:
        return self._link.pipe is None or self._committed is None or self._committed.get() > self._seen

    async def catch_up(self) -> None:
        """See Store. Costs no message: the owner's revision is in memory that this process has mapped, and the events up to it are on their way."""
        self._check_open()
        if self._link.pipe is None:
            await self._link.connected()
        assert self._committed is not None
        revision = self._committed.get()
        if revision > self._seen:
            await self._reached(revision)

    async def _reached(self, revision: int) -> None:
        """Return when everything up to a revision has been delivered. Raises StoreUnavailable, StoreClosed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._numbers), future))
        timer = self._clock.call_later(PATIENCE, self._expire, future, revision)
        try:
            await future
        finally:
            timer.cancel()

    def _expire(self, future: asyncio.Future[None], revision: int) -> None:
        if not future.done():
            future.set_exception(
                StoreUnavailable(f"{self._path}: the owner of the store has not told of revision {revision} in time")
            )

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        self._check_open()
        if start_revision < self._compacted:
            raise Compacted(start_revision, self._compacted)
        until = self._seen
        subscription = Subscription(self._hub, prefix, start_revision, deliver, lost)
        self._hub.add(subscription)
        if start_revision > until:
            return subscription
        subscription.backlog = []
        number = next(self._numbers)
        self._past[number] = subscription
        try:
            await self._tell_past(number, prefix, max(start_revision, 1), until)
        except BaseException:
            subscription.cancel()
            raise
        finally:
            del self._past[number]
        subscription.go_live()
        return subscription

    async def _tell_past(self, number: int, prefix: str, start_revision: int, until: int) -> None:
        """Let the owner send the past of a watch: on one connection, since a part of it may have been delivered when that ends. Raises StoreError."""
        pipe = await self._link.connected()
        try:
            error, *rest = await pipe.call(PAST, number, prefix, start_revision, until)
        except PipeError as broken:
            raise StoreUnavailable(f"{self._path}: the past of a watch did not come: {broken}") from broken
        if error:
            raise self._failure(error, rest[0])
        await self._inbox.emptied()
        if pipe.is_lost:
            raise StoreUnavailable(f"{self._path}: the past of a watch did not come: the connection has ended")

    def _take_past(self, number: int, data: bytes) -> None:
        """A part of the past of a watch."""
        told = decode_events(data)
        self._inbox.take(partial(self._replay, number, told), told)

    def _replay(self, number: int, told: list[WireEvent]) -> None:
        subscription = self._past.get(number)
        if subscription is not None:
            subscription.replay([event_of(one) for one in told])

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self.revision:
            await self.catch_up()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        (compacted,) = await self._ask(COMPACT, revision)
        self._compacted = max(self._compacted, compacted)


def _send(pipe: Pipe, write: RemoteWrite) -> None:
    pipe.notify(WRITE, write.number, write.key, write.value, write.guard, write.ttl)
