"""What the client does when its peer does something unusual, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.csi.messages import RegistrationStatus
from bayplan.support.clock import SystemClock
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.support.grpc_client import frames
from bayplan.support.grpc_client.calls import UnaryCall
from bayplan.support.grpc_client.channel import GrpcChannel
from bayplan.support.grpc_client.connection import Http2Connection
from bayplan.support.grpc_client.frames import frame
from bayplan.testing.clock import ManualClock
from tests.support.grpc_client.scripted import PATIENCE, Peer, Script, framed, scripted

METHOD = "/test.Service/Method"
SENT = RegistrationStatus(True, "text")


async def _call(channel: GrpcChannel, text: str = "text") -> RegistrationStatus:
    request = RegistrationStatus(True, text)
    answer: RegistrationStatus = await channel.call(METHOD, request, RegistrationStatus, seconds=PATIENCE, metadata=())
    return answer


def _play(steps: Callable[[GrpcChannel], Awaitable[None]], *scripts: Script) -> None:
    async def run() -> None:
        async with scripted(*scripts) as target:
            channel = GrpcChannel(target, clock=SystemClock())
            try:
                await steps(channel)
            finally:
                await channel.close()

    asyncio.run(run())


async def _expect_answer(channel: GrpcChannel) -> None:
    assert await _call(channel) == SENT


async def _echo(peer: Peer) -> None:
    await peer.greet()
    while True:
        _, _, stream, payload = await peer.next(frames.DATA)
        peer.answer(stream, payload[5:])


def test_headers_in_several_frames_with_padding_and_data_in_pieces() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        _, _, stream, payload = await peer.next(frames.DATA)
        begin = peer.block((":status", "200"), ("x", "y" * 50))
        peer.send(frame(frames.HEADERS, frames.PADDED, stream, b"\x03" + begin[:10] + bytes(3)))
        peer.send(frame(frames.CONTINUATION, 0, stream, begin[10:20]))
        peer.send(frame(frames.CONTINUATION, frames.END_HEADERS, stream, begin[20:]))
        for each in framed(payload[5:]):
            peer.send(frame(frames.DATA, frames.PADDED, stream, b"\x01" + bytes([each]) + bytes(1)))
        peer.send(frame(0xFE, 0, 0, b"of a type that nobody knows"))
        end = peer.block(("grpc-status", "0"))
        peer.send(frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, end))
        await peer.next(frames.GOAWAY)

    _play(_expect_answer, script)


@pytest.mark.parametrize(
    ("respond", "kind", "text"),
    [
        (lambda peer, stream: peer.answer(stream, status="5", text="no %22a%22 %C3%A4%"), RpcError, r'NotFound desc = no "a" ä%'),
        (lambda peer, stream: peer.answer(stream, status="77"), RpcError, "Unknown"),
        (lambda peer, stream: peer.send(frames.reset_frame(stream, frames.REFUSED_STREAM)), UnsentError, "Unavailable"),
        (lambda peer, stream: peer.send(frames.reset_frame(stream, frames.ENHANCE_YOUR_CALM)), RpcError, "ResourceExhausted"),
        (lambda peer, stream: peer.send(frames.reset_frame(stream, 2)), RpcError, "Internal desc = .*error 0x2"),
        (lambda peer, stream: peer.send(frame(frames.HEADERS, 5, stream, peer.block((":status", "503")))), RpcError, "HTTP status 503"),
        (lambda peer, stream: peer.send(frame(frames.DATA, 1, stream, framed(b""))), RpcError, "without a status"),
        (
            lambda peer, stream: peer.send(frame(frames.HEADERS, 5, stream, peer.block((":status", "200"), ("grpc-status", "0")))),
            RpcError,
            "without a response",
        ),
    ],
)  # fmt: skip
def test_calls_that_fail_leave_the_connection_as_it_is(
    respond: Callable[[Peer, int], None], kind: type[RpcError], text: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        _, _, stream, _ = await peer.next(frames.DATA)
        respond(peer, stream)
        _, _, stream, payload = await peer.next(frames.DATA)
        peer.answer(stream, payload[5:])
        await peer.next(frames.GOAWAY)

    async def steps(channel: GrpcChannel) -> None:
        with pytest.raises(RpcError, match=text) as caught:
            await _call(channel)
        assert type(caught.value) is kind
        assert await _call(channel) == SENT

    _play(steps, script)


@pytest.mark.parametrize(
    "broken",
    [
        lambda peer: frame(frames.DATA, 0, 1, b"\x01\0\0\0\0"),
        lambda peer: frame(frames.PUSH_PROMISE, 4, 1, bytes(4)),
        lambda peer: frame(frames.CONTINUATION, 4, 1, b""),
        lambda peer: frame(frames.HEADERS, 0, 1, b"") + frame(frames.PING, 0, 0, bytes(8)),
        lambda peer: frame(frames.HEADERS, 4, 1, b"\xbe"),
        lambda peer: frame(frames.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        lambda peer: frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 1 << 31}),
        lambda peer: frames.settings_frame({frames.MAX_FRAME_SIZE: 1}),
        lambda peer: frame(frames.RST_STREAM, 0, 1, b"\0"),
        lambda peer: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_a_peer_that_breaks_the_protocol_is_left_and_asked_anew(broken: Callable[[Peer], bytes]) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.next(frames.DATA)
        peer.send(broken(peer))
        await peer.gone()

    async def steps(channel: GrpcChannel) -> None:
        with pytest.raises(RpcError, match="broke the protocol") as caught:
            await _call(channel)
        assert (type(caught.value), caught.value.code) == (RpcError, "UNAVAILABLE")
        assert await _call(channel) == SENT

    _play(steps, script, _echo)


def test_a_server_that_goes_away_answers_what_it_has_seen_and_the_rest_goes_to_the_next_connection() -> None:
    both = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        _, _, first, payload = await peer.next(frames.DATA)
        await peer.next(frames.DATA)
        peer.send(frame(frames.GOAWAY, 0, 0, first.to_bytes(4, "big") + bytes(4) + b"maintenance"))
        await both.wait()
        peer.answer(first, payload[5:])
        await peer.gone()

    async def steps(channel: GrpcChannel) -> None:
        first, second = asyncio.create_task(_call(channel, "first")), asyncio.create_task(_call(channel, "second"))
        with pytest.raises(UnsentError, match="maintenance"):
            await second
        assert (await _call(channel, "third")).error == "third"
        both.set()
        assert (await first).error == "first"

    _play(steps, script, _echo)


def test_calls_wait_until_the_server_has_room_for_them() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet({frames.MAX_CONCURRENT_STREAMS: 2})
        for _ in range(3):
            running = [await peer.next(frames.DATA) for _ in range(2)]
            for _, _, stream, payload in running:
                peer.answer(stream, payload[5:])
        await peer.next(frames.GOAWAY)

    async def steps(channel: GrpcChannel) -> None:
        answers = await asyncio.gather(*(_call(channel, str(number)) for number in range(6)))
        assert [answer.error for answer in answers] == [str(number) for number in range(6)]

    _play(steps, script)


def test_nothing_is_sent_beyond_the_windows() -> None:
    text = "x" * 1000

    async def script(peer: Peer) -> None:
        await peer.greet({frames.INITIAL_WINDOW_SIZE: 100})
        _, _, stream, payload = await peer.next(frames.DATA)
        assert len(payload) == 100
        peer.send(frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 300}))
        payload += (await peer.next(frames.DATA))[3]
        assert len(payload) == 300
        peer.send(frames.window_update(stream, 1000))
        while len(payload) < 5 + int.from_bytes(payload[1:5], "big"):
            payload += (await peer.next(frames.DATA))[3]
        peer.answer(stream, payload[5:])
        await peer.next(frames.GOAWAY)

    async def steps(channel: GrpcChannel) -> None:
        assert (await _call(channel, text)).error == text

    _play(steps, script)


def test_a_server_that_says_nothing_at_all_has_not_seen_the_request() -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async def steps(channel: GrpcChannel) -> None:
        with pytest.raises(UnsentError, match="within 2 seconds"):
            await _call(channel)

    _play(steps, script)


def test_a_call_that_is_cancelled_or_takes_too_long_ends_at_the_server_as_well() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        for _ in range(2):
            _, _, stream, _ = await peer.next(frames.DATA)
            _, _, ended, code = await peer.next(frames.RST_STREAM)
            assert (ended, int.from_bytes(code, "big")) == (stream, frames.CANCEL)
        await peer.next(frames.GOAWAY)

    async def steps(channel: GrpcChannel) -> None:
        with pytest.raises(RpcError, match="DeadlineExceeded"):
            await channel.call(METHOD, SENT, RegistrationStatus, seconds=0.05, metadata=())
        task = asyncio.create_task(_call(channel))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _play(steps, script)


class _Transport(asyncio.Transport):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.aborted = True


@pytest.mark.parametrize("lives", [True, False])
def test_a_peer_that_owes_an_answer_and_is_quiet_is_asked_and_given_up_after_forty_seconds(lives: bool) -> None:
    async def run() -> None:
        clock, transport = ManualClock(), _Transport()
        connection = Http2Connection(clock)
        connection.connection_made(transport)
        connection.data_received(frames.settings_frame({}))
        await connection.ready
        clock.advance(65)
        await asyncio.sleep(0)
        assert b"\0\0\x08\x06" not in transport.written, "nobody waits: it is not asked"
        call = UnaryCall(b"", asyncio.get_running_loop().create_future())
        connection.start(call, b"", last=True)
        clock.advance(30)
        await asyncio.sleep(0)
        assert b"\0\0\x08\x06" in transport.written
        if lives:
            connection.data_received(frame(frames.PING, frames.ACK, 0, bytes(8)))
        clock.advance(25)
        assert transport.aborted != lives
        assert call.future.done() != lives
        if not lives:
            with pytest.raises(RpcError, match="nothing for 40 seconds"):
                call.future.result()

    asyncio.run(run())
