"""All watches of a client on one stream, which is opened again at the right revisions after any failure.

A watch gets the events of its range in order, those of one revision together (a response that comes in fragments is put together first), none twice and none left
out. When that is not possible any more, because the revision at which it would have to go on was compacted meanwhile or the server refuses it, `on_lost` is called
once and the watch has ended. After a failure the stream is opened at the next member, with a pause that grows up to a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from bayplan.store.etcd.connection import Connection
from bayplan.store.etcd.errors import EtcdAccessDenied, EtcdCompacted, EtcdError, error_of, is_stale_token
from bayplan.store.etcd.messages import FILTER_DELETE, FILTER_PUT, MESSAGES, WATCH
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError
from bayplan.support.grpc.types import Stream

log = logging.getLogger(__name__)

BeforeEvents = Callable[[Sequence[Any]], Awaitable[None]]
"""Called with the events of a response, which wait until it returns, as do all that follow."""
OnEvents = Callable[[Sequence[Any], int], None]
"""Called on the event loop with mvccpb.Event messages (type, kv, prev_kv) and the revision that the server had reached."""
OnLost = Callable[[EtcdError], None]
"""Called when a watch has ended for good: EtcdCompacted, EtcdAccessDenied or another reason of the server."""
OnProgress = Callable[[int], None]
"""Called with a revision up to which there are no events but those that were delivered."""
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 1.0
_NO_ID: Final = -1
"""The watch id of responses about all watches, and of some about a watch that the server refuses."""


class EtcdWatch:
    """One watch. `next_revision` is where it goes on after a failure; 0 until a watch from now on has begun."""

    __slots__ = (
        "_cancel", "created", "end", "events", "filters", "key", "next_revision", "on_events", "on_lost", "on_progress", "previous",
    )  # fmt: skip

    def __init__(
        self,
        key: bytes,
        end: bytes,
        start_revision: int,
        on_events: OnEvents,
        on_lost: OnLost,
        on_progress: OnProgress | None = None,
        previous: bool = False,
        filters: tuple[int, ...] = (),
    ) -> None:
        self.key, self.end = key, end
        self.next_revision = start_revision
        self.on_events, self.on_lost, self.on_progress = on_events, on_lost, on_progress
        self.previous = previous
        """Whether events carry the value before."""
        self.filters = filters
        """Kinds of events that are left out."""
        self.events: list[Any] = []
        """Fragments of a response that is not complete yet."""
        self.created = False
        """Whether the stream of now has confirmed it."""
        self._cancel: Callable[[EtcdWatch], None] | None = None

    def cancel(self) -> None:
        """End it: nothing is called after this returns. Calling it again does nothing."""
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel(self)

    def begin(self, cancel: Callable[[EtcdWatch], None]) -> None:
        """It takes part from now on. cancel: what ends that."""
        self._cancel = cancel

    def request(self, watch_id: int) -> Any:
        """The message that opens it where it has to go on.

        It asks for one revision more, whose events are left out: a watch that begins at the very revision to which etcd was compacted is accepted, though
        deletions at that revision are not kept.
        """
        self.events, self.created = [], False
        create = MESSAGES["WatchCreateRequest"](
            key=self.key,
            range_end=self.end,
            start_revision=max(self.next_revision - 1, min(self.next_revision, 1)),
            progress_notify=True,
            filters=self.filters,
            prev_kv=self.previous,
            watch_id=watch_id,
            fragment=True,
        )
        return MESSAGES["WatchRequest"](create_request=create)

    def take(self, revision: int) -> None:
        """A response is complete. revision: that the server had reached."""
        events, self.events = self.events, []
        if events[0].kv.mod_revision < self.next_revision:
            events = [event for event in events if event.kv.mod_revision >= self.next_revision]
        if events:
            self.next_revision = events[-1].kv.mod_revision + 1
            self.on_events(events, revision)


class WatchStream:
    """The stream. It is open as long as there are watches."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._watches: dict[int, EtcdWatch] = {}
        self._next_id = 1
        self._task: asyncio.Task[None] | None = None
        self._creating: deque[int] = deque()
        """Watches that the open stream was asked for and has not confirmed, in order: some servers refuse one without naming it."""
        self._outbox: deque[Any] = deque()
        """Messages that the open stream has still to send."""
        self._outgoing = asyncio.Event()
        self._is_open = False
        self._closed = False
        self.before_events: BeforeEvents | None = None

    def watch(self, watch: EtcdWatch) -> EtcdWatch:
        """Let a watch take part."""
        if self._closed:
            raise EtcdError("the etcd client is closed")
        watch_id = self._next_id
        self._next_id += 1
        self._watches[watch_id] = watch
        watch.begin(lambda _: self._remove(watch_id))
        if self._is_open:
            self._creating.append(watch_id)
            self._send(watch.request(watch_id))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return watch

    def _send(self, message: Any) -> None:
        self._outbox.append(message)
        self._outgoing.set()

    def _remove(self, watch_id: int) -> None:
        if self._watches.pop(watch_id, None) is not None and self._is_open:
            cancel = MESSAGES["WatchCancelRequest"](watch_id=watch_id)
            self._send(MESSAGES["WatchRequest"](cancel_request=cancel))

    def request_progress(self) -> None:
        """See EtcdClient; does nothing while the stream is broken."""
        if self._is_open:
            self._send(MESSAGES["WatchRequest"](progress_request=MESSAGES["WatchProgressRequest"]()))

    async def compacted_revision(self, key: bytes) -> int:
        """The compacted revision, as a watch of the past of a key learns it that is known to be compacted."""
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def lost(error: EtcdError) -> None:
            if found.done():
                return
            if isinstance(error, EtcdCompacted):
                found.set_result(error.compact_revision)
            else:
                found.set_exception(error)

        watch = EtcdWatch(key, b"", 1, lambda *_: None, lost, filters=(FILTER_PUT, FILTER_DELETE))
        self.watch(watch)
        try:
            return await found
        finally:
            watch.cancel()

    async def close(self) -> None:
        """End all watches, without a word to their owners."""
        self._closed = True
        self._watches.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        """Keep the stream open until there are no watches."""
        wait = _FIRST_WAIT
        while not self._closed:
            started = self._clock.monotonic()
            try:
                await self._serve()
                reason: str = "the server ended it"
            except RpcError as error:
                reason = str(error)
                if is_stale_token(error):
                    self._connection.forget_token()
                failure = error_of(error)
                if isinstance(failure, EtcdAccessDenied) and not is_stale_token(error):
                    self._lose_all(failure)
            except EtcdError as error:
                reason = str(error)
            finally:
                self._is_open = False
                self._outbox.clear()
            if self._watches:
                log.warning(
                    "etcd at %s: the stream of watches broke (%s), opening it again", self._connection.endpoint, reason
                )
            self._connection.next_endpoint()
            if self._clock.monotonic() - started > _LONGEST_WAIT:
                wait = _FIRST_WAIT
            await self._clock.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _lose_all(self, failure: EtcdError) -> None:
        for watch_id in list(self._watches):
            self._lose(watch_id, failure)

    def _lose(self, watch_id: int, failure: EtcdError) -> None:
        watch = self._watches.pop(watch_id, None)
        if watch is not None:
            watch.on_lost(failure)

    async def _serve(self) -> None:
        """One stream, until it ends. Raises RpcError, EtcdError."""
        metadata = (*await self._connection.metadata(), ("hasleader", "true"))
        stream = self._connection.channel().duplex(
            WATCH, MESSAGES["WatchRequest"], MESSAGES["WatchResponse"], metadata=metadata
        )
        self._creating = deque(self._watches)
        self._outbox.extend(watch.request(watch_id) for watch_id, watch in self._watches.items())
        self._outgoing.set()
        self._is_open = True
        sender = asyncio.get_running_loop().create_task(self._send_all(stream))
        try:
            while (response := await stream.receive()) is not None:
                if self.before_events is not None and response.events:
                    await self.before_events(response.events)
                self._take(response)
        finally:
            self._is_open = False
            sender.cancel()
            stream.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send_all(self, stream: Stream) -> None:
        while True:
            await self._outgoing.wait()
            self._outgoing.clear()
            while self._outbox:
                await stream.send(self._outbox.popleft())

    def _take(self, response: Any) -> None:
        watch_id, revision = response.watch_id, response.header.revision
        if watch_id == _NO_ID and not response.created and not response.canceled:
            for each in tuple(self._watches.values()):
                _progress(each, revision)
            return
        if response.created and self._creating:
            created = self._creating.popleft()
            watch_id = created if watch_id == _NO_ID else watch_id
        watch = self._watches.get(watch_id)
        if watch is None:
            return
        if response.canceled:
            self._lose(watch_id, _reason(response))
        elif response.created:
            watch.created = True
            watch.next_revision = watch.next_revision or revision + 1
        elif not response.events:
            _progress(watch, revision)
        else:
            watch.events.extend(response.events)
            if not response.fragment:
                watch.take(revision)


def _progress(watch: EtcdWatch, revision: int) -> None:
    if watch.created and not watch.events and revision + 1 >= watch.next_revision:
        watch.next_revision = revision + 1
        if watch.on_progress is not None:
            watch.on_progress(revision)


def _reason(response: Any) -> EtcdError:
    if response.compact_revision:
        text = f"the watch cannot go on: revision {response.compact_revision} and what was before it has been compacted"
        return EtcdCompacted(text, response.compact_revision)
    reason = response.cancel_reason or "the server ended the watch"
    return error_of(RpcError("PERMISSION_DENIED" if "permission denied" in reason else "UNKNOWN", reason))
