"""The fast path of requests whose headers are known: its answers are aiohttp's, whatever comes and however it is cut."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import re
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.apiserver.http import server as http_module
from bayplan.apiserver.http.connection import Connection
from tests.apiserver.http.test_http_answer import request
from tests.apiserver.http.test_http_limits import raw_connection
from tests.apiserver.serving import TOKENS, Served, served

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each request on a connection at rest: whether it took the fast path."""
    found: list[bool] = []
    take = Connection._take

    def noted(self: Connection, data: bytes) -> bool:
        found.append(take(self, data))
        return found[-1]

    monkeypatch.setattr(Connection, "_take", noted)
    return found


class Line:
    """A connection of a client that sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Send, with a moment between the pieces."""
        for piece in pieces:
            self.writer.write(piece)
            await asyncio.sleep(0.01 if len(pieces) > 1 else 0)

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        length = re.search(rb"Content-Length: (\d+)", head)
        assert length is not None, head
        return int(head.split()[1]), await self.reader.readexactly(int(length[1]))

    async def ask(self, *pieces: bytes) -> tuple[int, bytes]:
        """Send a request and wait for its answer."""
        await self.send(*pieces)
        return await self.answer()


@contextlib.asynccontextmanager
async def line(server: Served) -> AsyncIterator[Line]:
    reader, writer = await raw_connection(server)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


def make(name: str, *headers: str) -> bytes:
    return request("POST", MAPS, json.dumps({"metadata": {"name": name}}).encode(), "1.1", *headers)


def test_known_headers_take_the_short_way_on_any_connection(ways: list[bool]) -> None:
    async def run() -> None:
        async with served() as server:
            async with line(server) as first:
                assert (await first.ask(make("a")))[0] == 201
                long_way = await first.ask(make("a"))
                assert ways == [False, True]
            async with line(server) as second:
                assert await second.ask(make("a")) == long_way
                assert (await second.ask(make("a-longer-name")))[0] == 201
                assert (await second.ask(request("GET", f"{MAPS}/a")))[0] == 200  # without the headers of a body
                assert (await second.ask(request("GET", f"{MAPS}/a-longer-name?pretty=1")))[1].startswith(b"{\n")
            assert ways == [False, True, True, True, False, True]

    asyncio.run(run())


def test_a_token_is_asked_about_each_time(ways: list[bool]) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            mine = request("GET", "/api/v1/namespaces/default")
            other = mine.replace(TOKENS["admin"][0].encode(), TOKENS["carol"][0].encode())
            wrong = mine.replace(TOKENS["admin"][0].encode(), b"nobody")
            statuses = [(await one.ask(data))[0] for data in (mine, mine, other, other, wrong, wrong, mine)]
            assert statuses == [200, 200, 403, 403, 401, 401, 200]
            assert ways == [False, True, False, True, False, False, True]
            del server.api.context.authenticator.tokens[TOKENS["admin"][0]]
            assert (await one.ask(mine))[0] == 401

    asyncio.run(run())


def test_bodies_in_pieces_packed_or_chunked_are_read_by_aiohttp(ways: list[bool]) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            whole = make("a")
            assert (await one.ask(whole))[0] == 201
            later = make("b")
            assert (await one.ask(later[:-5], later[-5:]))[0] == 201
            assert (await one.ask(make("c")))[0] == 201
            assert ways == [False, False, True]
            body = gzip.compress(b'{"metadata":{"name":"d"}}')
            packed = request("POST", MAPS, body, "1.1", "Content-Encoding: gzip")
            for _ in range(2):
                assert (await one.ask(packed))[0] == 400  # bodies are taken as they come
            chunks = b'11\r\n{"metadata":{"nam\r\n8\r\ne":"e"}}\r\n0\r\n\r\n'
            chunked = request("POST", MAPS, b"", "1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
            for status in (201, 409):
                assert (await one.ask(chunked + chunks))[0] == status
            assert ways == [False, False, True, False, False, False, False]

    asyncio.run(run())


def test_queries_reach_the_server(ways: list[bool]) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            for name in "abc":
                await one.ask(make(name))
            ways.clear()
            limited = json.loads((await one.ask(request("GET", f"{MAPS}?limit=2")))[1])
            again = json.loads((await one.ask(request("GET", f"{MAPS}?limit=2&")))[1])
            assert len(limited["items"]) == len(again["items"]) == 2
            chosen = request("GET", f"{MAPS}?fieldSelector=metadata.name%3Db")
            assert [one["metadata"]["name"] for one in json.loads((await one.ask(chosen))[1])["items"]] == ["b"]
            assert ways == [False, True, False]

    asyncio.run(run())


def test_streams_and_answers_with_warnings_are_handed_to_aiohttp(ways: list[bool]) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one, line(server) as two:
            odd = request("POST", MAPS, b'{"metadata":{"name":"w"},"odd":1}')
            await one.ask(odd)
            await one.send(odd.replace(b'"w"', b'"x"'))
            head = await asyncio.wait_for(one.reader.readuntil(b"\r\n\r\n"), 10)
            assert b'Warning: 299 - "unknown field' in head
            await one.reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
            assert ways == [False, True]
            await one.ask(request("GET", MAPS))
            ways.clear()
            await one.send(request("GET", f"{MAPS}?watch=true"))
            assert b"chunked" in await asyncio.wait_for(one.reader.readuntil(b"\r\n\r\n"), 10)
            await two.ask(make("seen"))
            assert b'"seen"' in await asyncio.wait_for(one.reader.readuntil(b'"seen"'), 10)
            assert ways == [True, True]

    asyncio.run(run())


def test_a_request_under_way_is_answered_when_the_server_stops() -> None:
    async def run() -> None:
        async with served() as server:
            one = Line(*await raw_connection(server))
            await one.ask(make("a"))
            under_way = asyncio.Event()

            async def slow(_: object) -> None:
                under_way.set()
                await asyncio.sleep(0.2)

            server.api.interceptor = slow
            await one.send(make("b"))
            await asyncio.wait_for(under_way.wait(), 10)
        assert (await one.answer())[0] == 201
        assert await one.reader.read() == b""
        one.writer.close()

    asyncio.run(run())


def test_a_connection_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            for _ in range(2):
                assert (await one.ask(request("GET", MAPS)))[0] == 200
            monkeypatch.setattr(http_module, "_KEPT_SECONDS", -1.0)
            assert await asyncio.wait_for(one.reader.read(), 20) == b""

    asyncio.run(run())


def test_a_request_that_nobody_can_answer_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with served() as server, line(server) as one:
            await one.ask(request("GET", MAPS))

            async def broken(self: object, request: object) -> None:
                raise LookupError("a mistake")

            monkeypatch.setattr(http_module.HttpServer, "answer", broken)
            await one.send(request("GET", MAPS))
            assert await asyncio.wait_for(one.reader.read(), 10) == b""
        gc.collect()
        assert [str(error) for error in told] == ["a mistake"]

    asyncio.run(run())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.lists(st.integers(1, 400), max_size=8))
def test_answers_do_not_depend_on_how_requests_are_cut(kinds: list[int], cuts: list[int]) -> None:
    """Pipelined or one by one, in pieces or whole: the answers are the same and in order."""
    known = [
        request("GET", f"{MAPS}/none"),
        request("GET", "/api/v1/namespaces/default?pretty=1"),
        request("POST", MAPS, b'{"metadata":{"name":"BAD"}}'),
        request("POST", MAPS, b'{"metadata":{"name":"BAD","labels":{"a":"' + b"x" * 300 + b'"}}}'),
        request("DELETE", f"{MAPS}/none"),
        request("GET", "/version"),
    ]
    stream = b"".join(known[kind] for kind in kinds)
    pieces, start = [], 0
    for size in cuts:
        pieces.append(stream[start : start + size])
        start += size
    pieces.append(stream[start:])

    async def run() -> None:
        async with served() as server:
            async with line(server) as one:
                expected = [await one.ask(data) for data in known]
                again = [await one.ask(data) for data in known]
            assert again == expected
            async with line(server) as other:
                await other.send(*filter(None, pieces))
                assert [await other.answer() for _ in kinds] == [expected[kind] for kind in kinds]

    asyncio.run(run())
