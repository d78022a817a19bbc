"""Questions and news between the two ends of a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.support.pipe import Pipe, PipeError, open_pipe


@contextlib.asynccontextmanager
async def two_ends() -> AsyncIterator[tuple[Pipe, Pipe]]:
    ours, theirs = [await open_pipe(end) for end in socket.socketpair()]
    try:
        yield ours, theirs
    finally:
        for end in (ours, theirs):
            end.close()
            await end.ended()


async def double(number: int) -> int:
    return 2 * number


def test_questions_are_answered_in_any_order_and_both_ways() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), two_ends() as (ours, theirs):
            gate = asyncio.Event()

            async def late(text: str) -> list[str]:
                await gate.wait()
                return [text]

            theirs.request_handlers |= {"double": double, "late": late}
            ours.request_handlers["double"] = double
            waiting = ours.call("late", "x")
            assert await asyncio.gather(*(ours.call("double", number) for number in range(100))) == [
                2 * number for number in range(100)
            ]
            assert not waiting.done()
            gate.set()
            assert await waiting == ["x"]
            assert await theirs.call("double", 21) == 42

    asyncio.run(run())


def test_news_are_heard_in_order_before_later_answers() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), two_ends() as (ours, theirs):
            heard: list[int] = []
            theirs.notification_handlers["news"] = heard.append
            theirs.request_handlers["double"] = double
            for number in range(500):
                ours.notify("news", number)
                if number % 100 == 50:
                    ours.flush()
            await ours.call("double", 1)
            assert heard == list(range(500))

    asyncio.run(run())


def test_others_have_their_turns_while_much_is_asked() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), two_ends() as (ours, theirs):
            at_once, most = 0, 0

            async def counted(number: int) -> int:
                nonlocal at_once, most
                at_once += 1
                most = max(most, at_once)
                asyncio.get_running_loop().call_soon(forget)
                return number

            def forget() -> None:
                nonlocal at_once
                at_once = 0

            theirs.request_handlers["counted"] = counted
            assert await asyncio.gather(*(ours.call("counted", number) for number in range(1000))) == list(range(1000))
            assert 1 < most <= 100

    asyncio.run(run())


def test_what_is_large_comes_whole() -> None:
    async def run() -> None:
        async with asyncio.timeout(30), two_ends() as (ours, theirs):

            async def echo(data: bytes) -> bytes:
                return data

            theirs.request_handlers["echo"] = echo
            data = bytes(range(256)) * 50_000
            assert await asyncio.gather(*(ours.call("echo", data[:size]) for size in (0, 1, 70_000, len(data)))) == [
                data[:size] for size in (0, 1, 70_000, len(data))
            ]

    asyncio.run(run())


class Spout(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There are none."""


@given(st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=6), st.data())
def test_frames_may_be_cut_anywhere(turns: list[list[bytes]], data: st.DataObject) -> None:
    async def run() -> None:
        spout, heard = Spout(), list[bytes]()
        sender, receiver = Pipe(), Pipe()
        sender.connection_made(spout)
        receiver.notification_handlers["news"] = heard.append
        for turn in turns:
            for one in turn:
                sender.notify("news", one)
            sender.flush()
        stream = spout.written
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            if begin < end:
                receiver.data_received(stream[begin:end])
        assert heard == [one for turn in turns for one in turn]

    asyncio.run(run())


def test_what_an_answerer_raises_is_an_error_for_who_asked(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with asyncio.timeout(10), two_ends() as (ours, theirs):

            async def broken() -> None:
                raise ValueError("no")

            theirs.request_handlers["broken"] = broken
            with pytest.raises(PipeError, match="ValueError: no"):
                await ours.call("broken")
            with pytest.raises(PipeError, match="MalformedCall: there is no topic 'unknown'"):
                await ours.call("unknown")

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    broken, unknown = caplog.records
    assert broken.exc_info is not None
    assert isinstance(broken.exc_info[1], ValueError)
    assert unknown.exc_info is None
    assert unknown.getMessage() == "refused unknown: there is no topic 'unknown'"


def test_the_end_of_one_side_is_an_error_for_who_waits_and_ends_what_answers_there() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), two_ends() as (ours, theirs):
            started, ended, lost = asyncio.Event(), asyncio.Event(), asyncio.Event()

            async def forever() -> None:
                started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            theirs.request_handlers["forever"] = forever
            theirs.when_lost = lost.set
            waiting = ours.call("forever")
            await started.wait()
            ours.close()
            await ended.wait()
            await lost.wait()
            with pytest.raises(PipeError, match="has gone"):
                await waiting
            with pytest.raises(PipeError, match="has gone"):
                await theirs.call("forever")
            theirs.notify("nobody hears this")

    asyncio.run(run())


def test_what_is_said_after_the_end_goes_nowhere() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), two_ends() as (ours, theirs):
            heard: list[int] = []
            theirs.notification_handlers["news"] = heard.append
            ours.notify("news", 1)
            ours.close()
            ours.notify("news", 2)
            await theirs.ended()
            assert heard == [1]

    asyncio.run(run())


def test_who_sends_too_much_can_wait_until_it_is_read() -> None:
    async def run() -> None:
        async with asyncio.timeout(30), two_ends() as (ours, theirs):
            heard: list[bytes] = []
            theirs.notification_handlers["news"] = heard.append
            theirs.request_handlers["double"] = double
            block = b"x" * (1 << 20)
            for _ in range(16):
                ours.notify("news", block)
                ours.flush()
            draining = asyncio.create_task(ours.drained())
            await asyncio.sleep(0)
            assert not draining.done()
            await draining
            await ours.call("double", 1)
            assert len(heard) == 16

    asyncio.run(run())
