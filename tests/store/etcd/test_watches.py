"""What watches make of a stream, told by one that says what the test lets it say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from bayplan.store.etcd.connection import Connection
from bayplan.store.etcd.errors import EtcdError
from bayplan.store.etcd.messages import MESSAGES
from bayplan.store.etcd.watches import EtcdWatch, WatchStream
from bayplan.support.clock import SystemClock


class Stream:
    """Gives the responses of the test, and notes what is sent; None ends it."""

    def __init__(self) -> None:
        self.responses: asyncio.Queue[Any] = asyncio.Queue()
        self.sent: list[str] = []

    async def receive(self) -> Any:
        return await self.responses.get()

    async def send(self, message: Any) -> None:
        self.sent.append(message.WhichOneof("request_union"))

    def cancel(self) -> None:
        """There is nothing to cancel."""


class Streams:
    """In place of a connection: a stream each time, the first of which may be held back."""

    endpoint = "here"

    def __init__(self) -> None:
        self.stream = Stream()
        self.may_open = asyncio.Event()
        self.may_open.set()

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        await self.may_open.wait()
        return ()

    def channel(self) -> Streams:
        return self

    def duplex(self, *_: Any, **__: Any) -> Stream:
        self.stream = Stream()
        return self.stream

    def next_endpoint(self) -> None:
        """There is one only."""


class Seen:
    """What a watch was told."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.progress: list[int] = []
        self.lost: list[EtcdError] = []

    def watch(self, *, tells_progress: bool = True) -> EtcdWatch:
        def take(events: Sequence[Any], _: int) -> None:
            self.events += [event.kv.mod_revision for event in events]

        return EtcdWatch(b"/a", b"/b", 5, take, self.lost.append, self.progress.append if tells_progress else None)


def response(watch_id: int, revision: int, *events: int, **fields: Any) -> Any:
    return MESSAGES["WatchResponse"](
        header=MESSAGES["ResponseHeader"](revision=revision),
        watch_id=watch_id,
        events=[MESSAGES["Event"](kv=MESSAGES["KeyValue"](key=b"/a", mod_revision=number)) for number in events],
        **fields,
    )


def run(test: Callable[[Streams, WatchStream], Awaitable[None]]) -> None:
    async def inner() -> None:
        streams = Streams()
        watches = WatchStream(cast(Connection, streams), SystemClock())
        try:
            await test(streams, watches)
        finally:
            await watches.close()

    asyncio.run(inner())


async def settled(until: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if until():
            return
        await asyncio.sleep(0)
    raise TimeoutError


async def told(streams: Streams, *responses: Any) -> None:
    """Let the stream say something, and wait until it was heard."""
    stream = streams.stream
    for one in responses:
        stream.responses.put_nowait(one)
    await settled(stream.responses.empty)
    await asyncio.sleep(0)


def test_progress_counts_when_the_watch_is_confirmed_and_no_fragment_is_missing() -> None:
    async def test(streams: Streams, watches: WatchStream) -> None:
        seen = Seen()
        watch = watches.watch(seen.watch())
        await settled(lambda: streams.stream.sent == ["create_request"])
        await told(streams, response(1, 9))
        assert (seen.progress, watch.next_revision) == ([], 5), "it is not confirmed yet"
        await told(streams, response(1, 9, created=True), response(1, 10), response(1, 7), response(1, 10))
        assert (seen.progress, watch.next_revision) == ([10, 10], 11), "what was known before is no progress"
        await told(streams, response(1, 12, 11, fragment=True), response(-1, 13))
        assert (seen.events, seen.progress, watch.next_revision) == ([], [10, 10], 11), (
            "more of the revision is to come"
        )
        await told(streams, response(1, 12, 11), response(-1, 13))
        assert (seen.events, seen.progress, watch.next_revision) == ([11, 11], [10, 10, 13], 14)

    run(test)


def test_a_watch_need_not_want_to_know_of_progress() -> None:
    async def test(streams: Streams, watches: WatchStream) -> None:
        seen = Seen()
        watch = watches.watch(seen.watch(tells_progress=False))
        await settled(lambda: streams.stream.sent == ["create_request"])
        await told(streams, response(1, 9, created=True), response(-1, 10), response(1, 11, 11))
        assert (watch.next_revision, seen.events) == (12, [11])

    run(test)


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_server_is_told_once_of_the_end_of_a_watch_that_it_has(is_lost: bool) -> None:
    async def test(streams: Streams, watches: WatchStream) -> None:
        seen = Seen()
        watch, other = watches.watch(seen.watch()), watches.watch(Seen().watch())
        await settled(lambda: len(streams.stream.sent) == 2)
        if is_lost:
            await told(streams, response(1, 9, canceled=True, cancel_reason="why"))
            assert len(seen.lost) == 1
        watch.cancel()
        watch.cancel()
        other.cancel()
        ends = ["cancel_request"] if is_lost else ["cancel_request", "cancel_request"]
        await settled(lambda: streams.stream.sent[2:] == ends)

    run(test)


def test_the_end_of_a_watch_that_no_stream_has_is_not_told() -> None:
    async def test(streams: Streams, watches: WatchStream) -> None:
        streams.may_open.clear()
        watches.watch(Seen().watch())
        await asyncio.sleep(0)
        watches.watch(Seen().watch()).cancel()
        streams.may_open.set()
        await settled(lambda: bool(streams.stream.sent))
        assert streams.stream.sent == ["create_request"]

    run(test)
