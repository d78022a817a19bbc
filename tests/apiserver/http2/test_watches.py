"""Watches over HTTP/2: they end with their streams, and one that is not read stops nobody else."""

from __future__ import annotations

import asyncio

from tests.apiserver.http2.http2_client import MAPS, http2_served, until
from tests.apiserver.serving import Served


def watches(server: Served) -> int:
    return len(server.http._watches._streams)


def test_a_watch_ends_with_its_stream() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            streams = [client.begin("GET", f"{MAPS}?watch=1") for _ in range(5)]
            await client.until(lambda: all(stream in client.heads for stream in streams))
            assert watches(server) == 5
            client.state.reset_stream(streams[0], 8)
            client.flush()
            await until(lambda: watches(server) == 4)
            await client.ask("POST", MAPS, {"metadata": {"name": "seen"}})
            await client.until(lambda: all(b'"seen"' in client.bodies[stream] for stream in streams[1:]))
            assert b'"seen"' not in client.bodies[streams[0]]
        await until(lambda: watches(server) == 0)

    asyncio.run(run())


def test_a_watch_ends_in_time_and_without_a_trace() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            answer = await client.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true")
            assert answer.status == 200
            assert watches(server) == 0
            assert (await client.ask("GET", "/version")).status == 200

    asyncio.run(run())


def test_a_watch_that_is_not_read_is_cut_off_and_stops_nobody() -> None:
    async def run() -> None:
        async with http2_served(request_timeout=0.5) as (server, client):
            client.reads = False
            stream = client.begin("GET", f"{MAPS}?watch=1")
            await client.until(lambda: stream in client.heads)
            body = {"metadata": {"generateName": "filler-"}, "data": {"text": "x" * 30_000}}
            for _ in range(12):
                async with server.session.post(server.url + MAPS, json=body, headers=server.headers()) as answer:
                    assert answer.status == 201
            await client.until(lambda: stream in client.resets)
            assert client.resets[stream] == 8
            assert len(client.bodies[stream]) <= 65_535
            await until(lambda: watches(server) == 0)
            assert (await client.answer(client.begin("HEAD", "/version"))).status == 405  # needs no window

    asyncio.run(run())


def test_a_long_list_that_is_not_read_holds_up_no_other_stream() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            for index in range(8):
                await client.ask("POST", MAPS, {"metadata": {"name": f"m{index}"}, "data": {"text": "x" * 100_000}})
            client.state.increment_flow_control_window(10_000_000)  # of the connection, not of streams
            client.reads = False
            stalled = client.begin("GET", MAPS)
            await client.until(lambda: len(client.bodies[stalled]) == 65_535)
            assert (await client.answer(client.begin("GET", "/version"))).status == 200
            client.state.increment_flow_control_window(1_000_000, stalled)
            client.flush()
            assert len((await client.answer(stalled)).json["items"]) >= 8

    asyncio.run(run())


def test_an_event_is_seen_by_all_watches_of_a_connection() -> None:
    async def run() -> None:
        async with http2_served(http2_max_streams=200) as (_, client):
            streams = [client.begin("GET", f"{MAPS}?watch=1") for _ in range(150)]
            await client.until(lambda: all(stream in client.heads for stream in streams))
            await client.ask("POST", MAPS, {"metadata": {"name": "seen-by-all"}})
            await client.until(lambda: all(b"seen-by-all" in client.bodies[stream] for stream in streams))

    asyncio.run(run())
