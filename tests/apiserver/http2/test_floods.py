"""Floods end their connection, with one line in the log, and leave nothing behind."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from bayplan.apiserver.http.http2.connection import Http2Connection
from tests.apiserver.http2.http2_client import MAPS, Http2Client, connected, http2_served, until
from tests.apiserver.serving import Served

COUNT = 5000
Flood = Callable[[Http2Client], Awaitable[None]]


async def rapid_resets(client: Http2Client) -> None:
    for _ in range(COUNT // 50):
        if client.goaways:
            return
        for _ in range(50):
            stream = client.state.get_next_available_stream_id()
            client.state.send_headers(stream, client.fields("GET", f"{MAPS}?watch=1"), end_stream=True)
            client.state.reset_stream(stream, ErrorCodes.CANCEL)
        client.flush()
        await asyncio.sleep(0)


async def pings(client: Http2Client) -> None:
    client.writer.write(PingFrame(0, b"12345678").serialize() * COUNT)


async def settings(client: Http2Client) -> None:
    client.writer.write(SettingsFrame(0, settings={3: 100}).serialize() * COUNT)


async def priorities(client: Http2Client) -> None:
    client.writer.write(PriorityFrame(1, depends_on=0, stream_weight=1).serialize() * COUNT)


async def windows(client: Http2Client) -> None:
    client.writer.write(WindowUpdateFrame(0, window_increment=1).serialize() * COUNT)


async def windows_of_streams_that_are_no_more(client: Http2Client) -> None:
    await client.ask("GET", "/version")
    client.writer.write(WindowUpdateFrame(1, window_increment=1).serialize() * COUNT)


async def empty_data(client: Http2Client) -> None:
    stream = client.begin("POST", MAPS, ("content-type", "application/json"), ends=False)
    client.writer.write(DataFrame(stream, b"").serialize() * COUNT)


async def tiny_data(client: Http2Client) -> None:
    stream = client.begin("POST", MAPS, ("content-type", "application/json"), ends=False)
    client.writer.write(DataFrame(stream, b" ").serialize() * COUNT)


async def continuations(client: Http2Client) -> None:
    head = HeadersFrame(1, b"\x82")
    client.writer.write(head.serialize() + ContinuationFrame(1, b"").serialize() * COUNT)


async def too_many_streams(client: Http2Client) -> None:
    for index in range(COUNT):
        if client.goaways:
            return
        stream = client.state.get_next_available_stream_id()
        client.state.remote_settings[3] = COUNT
        client.state.remote_settings.acknowledge()
        client.state.send_headers(stream, client.fields("GET", f"{MAPS}?watch=1"), end_stream=True)
        if index % 50 == 0:
            client.flush()
            await asyncio.sleep(0)
    client.flush()


FLOODS: list[Flood] = [
    rapid_resets, pings, settings, priorities, windows, windows_of_streams_that_are_no_more, empty_data, tiny_data, continuations,
    too_many_streams,
]  # fmt: skip


def opened(server: Served) -> list[Http2Connection]:
    assert server.http._connections is not None
    return [one for one in server.http._connections.all() if isinstance(one, Http2Connection)]


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_a_flood_ends_its_connection_and_no_other(flood: Flood, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with http2_served() as (server, other):
            watch = other.begin("GET", f"{MAPS}?watch=1")
            await other.until(lambda: watch in other.heads)
            async with connected(server) as client:
                await flood(client)
                await client.until_goaway()
                assert client.goaways[-1][0] == ErrorCodes.ENHANCE_YOUR_CALM
                await client.until(lambda: client.is_closed)
            assert (await other.ask("GET", "/version")).status == 200
            assert watch not in other.ended
            await until(lambda: len(opened(server)) == len(server.http._watches._streams) == 1)
            assert (
                b'bayplan_http2_connections_ended_total{code="ENHANCE_YOUR_CALM"} 1'
                in (await other.ask("GET", "/metrics")).body
            )

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert [one.getMessage().partition(": ")[0] for one in caplog.records] == [
        "the HTTP/2 connection of 127.0.0.1 is ended with ENHANCE_YOUR_CALM"
    ]


def test_a_client_that_cancels_now_and_then_is_no_flood() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            for _ in range(12):
                streams = [client.begin("GET", f"{MAPS}?watch=1") for _ in range(80)]
                await client.until_heads(streams)
                for stream in streams:
                    client.state.reset_stream(stream, ErrorCodes.CANCEL)
                client.flush()
                assert (await client.ask("GET", "/version")).status == 200
            assert not client.goaways

    asyncio.run(run())


def test_streams_beyond_the_limit_are_refused_and_the_others_answered() -> None:
    async def run() -> None:
        async with http2_served(http2_max_streams=3) as (_, client):
            watches = [client.begin("GET", f"{MAPS}?watch=1") for _ in range(3)]
            await client.until(lambda: all(one in client.heads for one in watches))
            assert client.state.remote_settings.max_concurrent_streams == 3
            client.state.remote_settings[3] = 100
            client.state.remote_settings.acknowledge()
            fourth = client.begin("GET", "/version")
            await client.until(lambda: fourth in client.resets)
            assert client.resets[fourth] == ErrorCodes.REFUSED_STREAM
            client.state.reset_stream(watches[0], ErrorCodes.CANCEL)
            assert (await client.answer(client.begin("GET", "/version"))).status == 200
            assert not client.goaways

    asyncio.run(run())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", ErrorCodes.PROTOCOL_ERROR),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 1 << 24)[:3] + b"\0" * 6, ErrorCodes.FRAME_SIZE_ERROR),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 40, ErrorCodes.FRAME_SIZE_ERROR),
    ],
    ids=["another protocol", "a frame too large", "no frame"],
)
def test_what_is_no_http_2_ends_the_connection(data: bytes, code: ErrorCodes, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with http2_served() as (server, other):
            async with connected(server, greets=False) as client:
                client.state.initiate_connection()
                client.state.clear_outbound_data_buffer()
                client.writer.write(data)
                await client.until(lambda: client.is_closed)
                assert [one for one, _ in client.goaways] == [code]
            assert (await other.ask("GET", "/version")).status == 200

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert len(caplog.records) == 1


def test_a_client_may_not_make_the_table_of_header_fields_grow() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            client.state.update_settings({1: 1 << 30})
            client.flush()
            for _ in range(50):
                await client.ask("GET", "/version")
            assert client.state.decoder.header_table.maxsize == 0  # the server has said that it uses none
            assert len(opened(server)) == 1

    asyncio.run(run())
