"""The end of connections that speak HTTP/2: no request is lost by it."""

from __future__ import annotations

import asyncio
import json

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

from bayplan.apiserver.context import Call
from bayplan.apiserver.http.http2.connection import Http2Connection
from bayplan.apiserver.http.http2.state import LAST_STREAM
from tests.apiserver.http2.http2_client import MAPS, connected, http2_served, http2_settings, until
from tests.apiserver.serving import Served, served


def client_goaway() -> bytes:
    return GoAwayFrame(0, last_stream_id=0).serialize()


def the_connection(server: Served) -> Http2Connection:
    assert server.http._connections is not None
    (found,) = (one for one in server.http._connections.all() if isinstance(one, Http2Connection))
    return found


def test_a_server_that_stops_answers_what_has_come_and_sends_goaway_twice() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            seen, go_on = asyncio.Event(), asyncio.Event()

            async def wait(call: Call) -> None:
                if call.path.name == "slow":
                    seen.set()
                    await go_on.wait()

            server.api.interceptor = wait
            await client.ask("POST", MAPS, {"metadata": {"name": "slow"}})
            watch = client.begin("GET", f"{MAPS}?watch=1")
            await client.until(lambda: watch in client.heads)
            slow = client.begin("GET", f"{MAPS}/slow")
            await seen.wait()
            stopping = asyncio.create_task(server.http.stop())
            await client.until(lambda: len(client.goaways) == 2)
            assert client.goaways == [(0, LAST_STREAM), (0, slow)]
            assert slow not in client.ended
            go_on.set()
            assert (await client.answer(slow)).json["metadata"]["name"] == "slow"
            await client.until(lambda: client.is_closed)
            assert watch in client.ended
            await asyncio.wait_for(stopping, 10)

    asyncio.run(run())


def test_a_request_that_crosses_the_first_goaway_is_answered_and_later_ones_are_refused() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            watch = client.begin("GET", f"{MAPS}?watch=1")
            await client.until(lambda: watch in client.heads)
            the_connection(server).leave()
            crossing = client.begin("GET", "/version")
            assert (await client.answer(crossing)).status == 200
            await client.until(lambda: len(client.goaways) == 2)
            late = client.begin("GET", "/version")
            await client.until(lambda: late in client.resets)
            assert client.resets[late] == ErrorCodes.REFUSED_STREAM
            assert watch not in client.ended
            client.state.reset_stream(watch, ErrorCodes.CANCEL)
            client.flush()
            await client.until(lambda: client.is_closed)

    asyncio.run(run())


def test_connections_end_by_chance_after_their_responses() -> None:
    async def run() -> None:
        async with http2_served(goaway_chance=1.0) as (_, client):
            assert (await client.ask("GET", "/version")).status == 200
            await client.until(lambda: client.is_closed)
            assert [code for code, _ in client.goaways] == [0, 0]

    asyncio.run(run())


def test_what_a_client_that_leaves_has_asked_is_answered() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            body = json.dumps({"metadata": {"name": "last"}}).encode()
            stream = client.begin("POST", MAPS, ("content-type", "application/json"), ends=False)
            await client.send_body(stream, body)
            client.writer.write(client_goaway())
            await client.until(lambda: client.is_closed)
            async with server.session.get(f"{server.url}{MAPS}/last", headers=server.headers()) as answer:
                assert answer.status == 200
            await until(lambda: not server.http._connections or server.http._connections.http2_count == 0)

    asyncio.run(run())


@pytest.mark.parametrize("field", ["rests_since", "head_since"])
def test_connections_that_are_not_used_are_closed(field: str) -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            await client.ask("GET", "/version")
            setattr(the_connection(server), field, 1.0)
            server.http._end_unused_connections()
            await client.until(lambda: client.is_closed)
            assert client.goaways == [(0, 1)]

    asyncio.run(run())


def test_a_client_that_says_nothing_is_not_kept() -> None:
    async def run() -> None:
        async with served(http2_settings(header_timeout=0.0)) as server, connected(server, greets=False) as client:
            await until(lambda: bool(server.http._connections and server.http._connections.http2_count))
            await asyncio.sleep(0)
            server.http._end_unused_connections()
            await client.until(lambda: client.is_closed)

    asyncio.run(run())


def test_a_head_that_does_not_come_to_its_end_is_known() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            await client.ask("GET", "/version")
            assert the_connection(server).head_since is None
            client.is_silent = True
            stream = client.begin("GET", "/version")
            data = client.state.data_to_send()
            client.writer.write(data[:12])
            await until(lambda: the_connection(server).head_since is not None)
            client.writer.write(data[12:])
            assert (await client.answer(stream)).status == 200
            assert the_connection(server).head_since is None

    asyncio.run(run())


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async def run() -> None:
        async with http2_served() as (server, client):
            await client.ask("GET", "/version")
            connection = the_connection(server)
            connection.pause_writing()
            stalled = client.begin("GET", "/version")
            await until(lambda: connection.is_busy)
            assert stalled not in client.ended
            assert server.http._connections is not None
            server.http._connections.check_http2_timeouts(60.0, 60.0)
            connection.sender.blocked_since = 1.0
            server.http._connections.check_http2_timeouts(60.0, 60.0)
            await client.until(lambda: client.is_closed)

    asyncio.run(run())


def test_a_write_goes_on_when_its_stream_is_cancelled() -> None:
    name = "goes-on"

    async def run() -> None:
        async with http2_served() as (server, client):
            seen, go_on = asyncio.Event(), asyncio.Event()

            async def wait(call: Call) -> None:
                if call.path.verb == "create":
                    seen.set()
                    await go_on.wait()

            server.api.interceptor = wait
            stream = client.begin("POST", MAPS, ("content-type", "application/json"), ends=False)
            await client.send_body(stream, json.dumps({"metadata": {"name": name}}).encode())
            await seen.wait()
            client.state.reset_stream(stream, ErrorCodes.CANCEL)
            client.flush()
            await until(lambda: not the_connection(server).is_busy)
            go_on.set()
            for _ in range(1000):
                answer = await client.ask("GET", f"{MAPS}/{name}")
                if answer.status == 200:
                    return
            pytest.fail("the write was broken off")

    asyncio.run(run())
