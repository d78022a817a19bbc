"""Connections to ports of pods, over SPDY, WebSockets, and SPDY in WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import aiohttp
from aiohttp import web

from bayplan.streaming.interface import Connect
from bayplan.streaming.port_forwards import serve_port_forward
from bayplan.streaming.spdy_frames import DataFrame, FrameReader, FrameWriter
from bayplan.support.clock import SystemClock
from tests.streaming.peers import Echo, SpdyClient, in_loop, refuse, served

PROTOCOL = "X-Stream-Protocol-Version: portforward.k8s.io"


@contextlib.asynccontextmanager
async def serving(connect: Connect, ports: Sequence[int] = ()) -> AsyncIterator[int]:
    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        return await serve_port_forward(http, ports, connect, "web, uid u", SystemClock())

    async with served(answer) as port:
        yield port


class Echoes:
    """Connects to echoes, and remembers them."""

    def __init__(self) -> None:
        self.made: list[tuple[int, Echo]] = []

    async def __call__(self, port: int) -> Echo:
        self.made.append((port, Echo()))
        return self.made[-1][1]


@in_loop
async def test_pairs_of_streams_are_connections() -> None:
    echoes = Echoes()
    async with serving(echoes) as port:
        client = await SpdyClient.connect(port, PROTOCOL)
        pairs = []
        for request, number in (("1", "80"), ("2", "81")):
            headers = {"port": number, "requestID": request}
            error = client.open(streamType="error", **headers)
            client.send(error, b"", is_last=True)
            pairs.append((error, client.open(streamType="data", **headers)))
        for index, (_, data) in enumerate(pairs):
            client.send(data, b"to %d" % index, is_last=True)
        await client.read_until(lambda: {number for pair in pairs for number in pair} <= client.finished)
        assert [bytes(client.received[data]) for _, data in pairs] == [b"to 0", b"to 1"]
        assert [bytes(client.received[error]) for error, _ in pairs] == [b"", b""]
        assert [number for number, _ in echoes.made] == [80, 81]
        assert all(echo.closed.is_set() for _, echo in echoes.made)
        await client.close()


@in_loop
async def test_what_cannot_be_connected_is_an_error_of_that_connection() -> None:
    async with serving(refuse) as port:
        client = await SpdyClient.connect(port, PROTOCOL)
        headers = {"port": "80", "requestID": "1"}
        error, data = client.open(streamType="error", **headers), client.open(streamType="data", **headers)
        await client.read_until(lambda: {error, data} <= client.finished)
        expected = "error forwarding port 80 to pod web, uid u: nobody listens at 80"
        assert client.received[error].decode() == expected
        await client.close()


@in_loop
async def test_a_stream_that_says_no_port_is_ended() -> None:
    async with serving(Echoes()) as port:
        client = await SpdyClient.connect(port, PROTOCOL)
        odd = [client.open(streamType="data", port=text, requestID="1") for text in ("", "0", "70000", "x")]
        await client.read_until(lambda: set(odd) <= client.finished)
        assert all(not client.received[each] for each in odd)
        await client.close()


@in_loop
async def test_connections_end_when_the_client_goes() -> None:
    echoes = Echoes()
    async with serving(echoes) as port:
        client = await SpdyClient.connect(port, PROTOCOL)
        for kind in ("error", "data"):
            last = client.open(streamType=kind, port="80", requestID="1")
        client.send(last, b"x")
        await client.read_until(lambda: client.received[last] == b"x")
        await client.close()
        await asyncio.wait_for(echoes.made[0][1].closed.wait(), 5)


@in_loop
async def test_another_protocol_is_refused() -> None:
    async with serving(Echoes()) as port:
        client = await SpdyClient.connect(port, "X-Stream-Protocol-Version: other")
        assert client.head.startswith("HTTP/1.1 403")
        await client.close()


@in_loop
async def test_ports_of_the_query_are_channels() -> None:
    echoes = Echoes()
    async with (
        serving(echoes, (80, 443)) as port,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/", protocols=("v4.channel.k8s.io",)) as socket,
    ):
        first = [await socket.receive_bytes() for _ in range(4)]
        assert first == [b"\0\x50\0", b"\1\x50\0", b"\2\xbb\1", b"\3\xbb\1"]
        await socket.send_bytes(b"\2hello")
        assert await socket.receive_bytes() == b"\2hello"
    assert [number for number, _ in echoes.made] == [80, 443]


@in_loop
async def test_more_ports_than_channels_are_refused() -> None:
    async with serving(Echoes(), range(1, 200)) as port, aiohttp.ClientSession() as session:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
        async with session.get(f"http://127.0.0.1:{port}/", headers=headers) as answer:
            assert (answer.status, await answer.text()) == (
                400,
                "at most 127 ports can be forwarded over one WebSocket",
            )


@in_loop
async def test_spdy_goes_through_a_websocket() -> None:
    writer, reader = FrameWriter(), FrameReader()
    url_protocol = "SPDY/3.1+portforward.k8s.io"
    async with (
        serving(Echoes()) as port,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/", protocols=(url_protocol,)) as socket,
    ):
        assert socket.protocol == url_protocol
        headers = {"port": "80", "requestID": "1"}
        await socket.send_bytes(writer.open(1, {"streamType": "error", **headers}))
        whole = writer.open(3, {"streamType": "data", **headers}) + writer.data(3, b"hello")
        await socket.send_bytes(whole[:9])
        await socket.send_bytes(whole[9:])
        received = b""
        while received != b"hello":
            for frame in reader.feed(await socket.receive_bytes(timeout=5)):
                if isinstance(frame, DataFrame):
                    assert frame.stream == 3
                    received += frame.data
