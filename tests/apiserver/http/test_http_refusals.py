"""What is no proper HTTP, and what is but seldom seen: answers as Go's net/http gives them, and nothing of the request in the log."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from bayplan.apiserver.http import connection as http_connection
from bayplan.apiserver.http import server as http_module
from bayplan.apiserver.http.head import ChunkedBody, Refusal, refusal_of_beginning
from bayplan.apiserver.http.server import HttpServer
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.http.test_http_connection import MAPS, Line, line, make
from tests.apiserver.http.test_http_limits import raw_connection
from tests.apiserver.serving import TOKENS, Served, served

TOKEN = TOKENS["admin"][0]
AUTHORIZATION = f"Authorization: Bearer {TOKEN}\r\n".encode()
GET = b"GET /api/v1/namespaces/default HTTP/1.1\r\nHost: x\r\n" + AUTHORIZATION
POST = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode() + AUTHORIZATION
BAD = "400 Bad Request"
UNSUPPORTED = "505 HTTP Version Not Supported: unsupported protocol version"

REFUSED = {
    "line feeds alone": (GET.replace(b"\r\n", b"\n") + b"\n", BAD),
    "a line feed alone among others": (GET.replace(b"x\r\n", b"x\n", 1) + b"\r\n", BAD),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", UNSUPPORTED),
    "HTTP/2.0": (GET.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\n", UNSUPPORTED),
    "HTTP/1.2": (GET.replace(b"HTTP/1.1", b"HTTP/1.2") + b"\r\n", UNSUPPORTED),
    "no version": (GET.replace(b" HTTP/1.1", b"") + b"\r\n", BAD),
    "a version in small letters": (GET.replace(b"HTTP", b"http") + b"\r\n", BAD),
    "no host": (GET.replace(b"Host: x\r\n", b"") + b"\r\n", f"{BAD}: missing required Host header"),
    "two hosts": (GET + b"Host: y\r\n\r\n", f"{BAD}: too many Host headers"),
    "a host with a blank": (GET.replace(b"Host: x", b"Host: x y") + b"\r\n", f"{BAD}: malformed Host header"),
    "a blank before the colon": (GET + b"Accept : */*\r\n\r\n", BAD),
    "a header without a colon": (GET + b"Accept\r\n\r\n", BAD),
    "a folded header": (GET + b"Accept: a,\r\n b\r\n\r\n", BAD),
    "NUL in a value": (GET + b"Accept: a\0b\r\n\r\n", f"{BAD}: invalid header value"),
    "NUL in the path": (GET.replace(b"default", b"a\0b") + b"\r\n", BAD),
    "a wrong escape": (GET.replace(b"default", b"a%zzb") + b"\r\n", BAD),
    "an escape cut off": (GET.replace(b"default", b"a%2") + b"\r\n", BAD),
    "a path that does not begin with a slash": (GET.replace(b"/api", b"api", 1) + b"\r\n", BAD),
    "a star": (GET.replace(b"/api/v1/namespaces/default", b"*") + b"\r\n", BAD),
    "a tunnel": (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n" + AUTHORIZATION + b"\r\n", "405 Method Not Allowed"),
    "TLS in TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", BAD),
    "a negative length": (POST + b"Content-Length: -1\r\n\r\n", BAD),
    "a length with a sign": (POST + b"Content-Length: +2\r\n\r\n{}", BAD),
    "a length that is no number": (POST + b"Content-Length: two\r\n\r\n{}", BAD),
    "two lengths": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", BAD),
    "a length beyond all numbers": (POST + b"Content-Length: 99999999999999999999\r\n\r\n{}", BAD),
    "a length and chunks": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    "chunks in HTTP/1.0": (POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    "another encoding of the transfer": (
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        "501 Not Implemented: Unsupported transfer encoding",
    ),
    "a chunk without a size": (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", BAD),
    "a chunk that is longer": (POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", BAD),
    "too large": (
        GET + b"".join(b"X-%d: %b\r\n" % (n, b"x" * 9000) for n in range(130)) + b"\r\n",
        "431 Request Header Fields Too Large",
    ),
    "a header that never ends": (GET + b"X: " + b"x" * (1 << 21), "431 Request Header Fields Too Large"),
}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (nothing sets an event)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def plain(server: Served) -> AsyncIterator[Line]:
    """A connection without TLS, so that what the client has not sent can be told."""
    http = HttpServer(server.api, server.api.context.authenticator)
    port = await http.start("127.0.0.1", 0, None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Line(reader, writer)
    finally:
        writer.transport.abort()
        await http.stop()


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What is logged, by anybody and at any level."""
    found: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    keeper, root = Keeper(), logging.getLogger()
    level = root.level
    root.addHandler(keeper)
    root.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(keeper)
    root.setLevel(level)


@pytest.mark.parametrize(("data", "text"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_what_is_no_proper_request_is_refused_as_by_go(
    data: bytes, text: str, is_first: bool, logged: list[logging.LogRecord]
) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            if not is_first:
                assert (await one.ask(GET + b"\r\n"))[0] == 200
                assert (await one.ask(GET + b"\r\n"))[0] == 200
            await one.send(data)
            answer = await asyncio.wait_for(one.reader.read(), 10)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 " + text.partition(":")[0].encode() + b"\r\n")
            assert b"\r\nConnection: close" in head
            assert body.decode() == text
            async with server.session.get(f"{server.url}/livez") as health:
                assert health.status == 200

    asyncio.run(run())
    warnings = [one for one in logged if one.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "a request from 127.0.0.1 is refused" in warnings[0].getMessage()
    assert not warnings[0].exc_info
    assert not any(TOKEN in one.getMessage() or TOKEN in str(one.exc_info) for one in logged)


def test_an_expectation_that_nobody_meets_is_refused() -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            await one.send(POST + b"Expect: a miracle\r\nContent-Length: 2\r\n\r\n{}")
            assert (await asyncio.wait_for(one.reader.read(), 10)).startswith(b"HTTP/1.1 417 Expectation Failed\r\n")

    asyncio.run(run())


def test_who_asks_before_sending_a_body_is_told_to_go_on_but_not_before_it_is_known_who_asks() -> None:
    body = b'{"metadata":{"name":"a"}}'
    asking = POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)

    async def run() -> None:
        async with served() as server, line(server) as one:
            await one.send(asking)
            assert await asyncio.wait_for(one.reader.readuntil(b"\r\n\r\n"), 10) == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert (await one.ask(body))[0] == 201
            assert (await one.ask(GET + b"\r\n"))[0] == 200
            await one.send(asking.replace(TOKEN.encode(), b"nobody"))
            assert (await one.answer())[0] == 401

    asyncio.run(run())


def test_a_body_of_somebody_unknown_is_not_waited_for() -> None:
    unknown = POST.replace(TOKEN.encode(), b"nobody")

    async def run() -> None:
        async with served() as server:
            async with line(server) as one:  # little is left: it is read and dropped, and the connection goes on
                assert (await one.ask(unknown + b"Content-Length: 100000\r\n\r\n" + b"x" * 1000))[0] == 401
                assert (await one.ask(b"x" * 99_000 + GET + b"\r\n"))[0] == 200
            async with line(server) as two:
                await two.send(unknown + b"Content-Length: 2000000\r\n\r\n" + b"x" * 1000)
                answer = await asyncio.wait_for(two.reader.read(), 10)
                assert answer.startswith(b"HTTP/1.1 401")
                assert b"Connection: close" in answer

    asyncio.run(run())


def test_bodies_are_never_inflated() -> None:
    packed = gzip.compress(b'{"metadata":{"name":"' + b"a" * 50_000_000 + b'"}}')

    async def run() -> None:
        async with served() as server, line(server) as one:
            for encoding in (b"gzip", b"deflate", b"br"):
                head = POST + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (encoding, len(packed))
                status, body = await one.ask(head + packed)
                assert status == 400
                assert json.loads(body)["reason"] == "BadRequest"

    asyncio.run(run())


def test_what_is_seldom_seen_is_answered() -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            await one.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await one.answer())[0] == 200
            assert (await one.ask(GET.replace(b"/api/", b"https://kubernetes.example/api/", 1) + b"\r\n"))[0] == 200
            assert (await one.ask(GET + b"Content-Length: 3\r\n\r\nabc"))[0] == 200
            assert (await one.ask(b"\r\n" + GET + b"\r\n"))[0] == 200
            many = b"".join(b"X-%d: y\r\n" % number for number in range(500))
            assert (await one.ask(GET + many + b"\r\n"))[0] == 200
            chunks = b'4;a=b\r\n{"me\r\n15\r\ntadata":{"name":"c"}}\r\n0\r\nX-Trailer: y\r\n\r\n'
            assert (await one.ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + GET + b"\r\n"))[0] == 201
            assert (await one.answer())[0] == 200
            await one.send(GET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n")
            assert (await one.answer())[0] == 200
            assert await asyncio.wait_for(one.reader.read(), 10) == b""

    asyncio.run(run())


def test_requests_sent_ahead_wait_with_their_client() -> None:
    """Not in the server's memory: a client that sends more than is answered has to wait."""

    async def run() -> None:
        async with served() as server, plain(server) as one:
            await one.ask(GET + b"\r\n")
            go_on = asyncio.Event()

            async def slow(_: object) -> None:
                await go_on.wait()

            server.api.interceptor = slow
            one.writer.write((GET + b"\r\n") * 500_000)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.writer.drain(), 1)
            assert one.writer.transport.get_write_buffer_size() > 20_000_000
            go_on.set()
            for _ in range(200):
                assert (await one.answer())[0] == 200
            one.writer.transport.abort()

    asyncio.run(run())


def test_a_client_that_asks_on_and_on_and_never_reads_is_cut_off() -> None:
    async def run() -> None:
        settings = ApiServerSettings(request_timeout=0.3)
        async with served(settings) as server, plain(server) as one:
            body = {"metadata": {"name": "large"}, "data": {"text": "x" * 60_000}}
            await server.session.post(server.url + MAPS, json=body, headers=server.headers())
            one.writer.transport.pause_reading()  # type: ignore[attr-defined]
            ask = GET.replace(b"/api/v1/namespaces/default", f"{MAPS}/large".encode()) + b"\r\n"
            one.writer.write(ask * 3000)

            def is_cut_off() -> bool:
                one.writer.write(b"\r\n")  # which notices
                return one.writer.transport.is_closing()

            await until(is_cut_off)
            async with server.session.get(f"{server.url}/livez") as health:
                assert health.status == 200

    asyncio.run(run())


def test_many_questions_whether_the_server_is_there_are_answered_one_after_the_other() -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            await one.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" * 5000 + GET + b"\r\n")
            for _ in range(5000):
                assert (await one.answer())[0] == 200
            assert json.loads((await one.answer())[1])["kind"] == "Namespace"

    asyncio.run(run())


def test_the_cost_of_a_head_does_not_grow_with_the_number_of_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    original = refusal_of_beginning

    def counted(data: bytearray, seen: int) -> Refusal | None:
        nonlocal looked_at
        looked_at += len(data) - seen
        return original(data, seen)

    async def run() -> None:
        monkeypatch.setattr(http_connection, "refusal_of_beginning", counted)
        async with served() as server, plain(server) as one:
            head = GET + b"X: " + b"x" * 20_000 + b"\r\n\r\n"
            for at in range(0, len(head), 50):
                one.writer.write(head[at : at + 50])
                await asyncio.sleep(0)
            assert (await one.answer())[0] == 200
        assert 0 < looked_at <= len(head)

    asyncio.run(run())


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_a_client_that_goes_in_the_middle_of_a_body_is_no_error(framing: str, logged: list[logging.LogRecord]) -> None:
    async def run() -> None:
        async with served() as server:
            async with line(server) as one:
                await one.send(POST + framing.encode() + b"\r\n\r\n5\r\nhello\r\n")
                await until(lambda: server.http.has_requests)
                one.writer.transport.abort()
            await until(lambda: not server.http.has_requests)

    asyncio.run(run())
    assert not [one for one in logged if one.levelno >= logging.WARNING]


def test_chunks_that_go_wrong_later_are_refused_as_well(logged: list[logging.LogRecord]) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            await one.send(POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await until(lambda: server.http.has_requests)
            await one.send(b"x\r\n")
            answer = await asyncio.wait_for(one.reader.read(), 10)
            assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")

    asyncio.run(run())
    warnings = [one for one in logged if one.levelno >= logging.WARNING]
    assert [one.getMessage() for one in warnings] == ["a request from 127.0.0.1 is refused: 400 Bad Request"]


def test_a_head_has_to_come_in_time_on_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(http_module, "_REAP_SECONDS", 0.02)
        async with served(ApiServerSettings(header_timeout=0.5)) as server, line(server) as one:
            assert (await one.ask(GET + b"\r\n"))[0] == 200
            ended = asyncio.create_task(one.reader.read())
            unsent = list(GET)
            while unsent and not ended.done():  # byte by byte, which does not help
                one.writer.write(bytes([unsent.pop(0)]))
                await asyncio.wait([ended], timeout=0.05)
            assert await asyncio.wait_for(ended, 10) == b""
            assert 2 < len(unsent) < len(GET) - 2

    asyncio.run(run())


def test_a_handshake_has_to_end_in_time() -> None:
    async def run() -> None:
        async with served(ApiServerSettings(header_timeout=0.2)) as server:
            port = int(server.url.rpartition(":")[2])
            for data in (b"", b"\x16\x03\x01\x02\x00\x01"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(data)
                assert await asyncio.wait_for(reader.read(), 10) == b""
                writer.close()
            async with server.session.get(f"{server.url}/livez") as health:
                assert health.status == 200

    asyncio.run(run())


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_end_of_chunks_is_found_however_they_are_cut(size: int) -> None:
    chunks = b"5;x=y\r\nhello\r\n1F\r\n" + b"\r\n0\r\n\r\n" * 4 + b"abc" + b"\r\n0\r\nA: b\r\n\r\n"
    body, at, end = ChunkedBody(), 0, -1
    stream = chunks + b"GET /"
    while end < 0:
        piece = stream[at : at + size]
        end = body.feed(piece)
        at += len(piece) if end < 0 else end
    assert stream[at:] == b"GET /"


@pytest.mark.parametrize(
    "data", [b"\r\n", b"g\r\n", b"1\r\nab\r\n", b"1\nab", b"-1\r\n", b"1" * 20 + b"\r\n", b"x" * 5000]
)
def test_what_are_no_chunks_is_noticed(data: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        ChunkedBody().feed(data)


def test_a_server_that_stops_answers_what_is_still_coming_and_ends_watches() -> None:
    async def run() -> None:
        async with served() as server:
            half, ahead, idle, watch = [Line(*await raw_connection(server)) for _ in range(4)]
            whole = make("half")
            await half.send(whole[:-7])
            for one in (ahead, idle):
                assert (await one.ask(GET + b"\r\n"))[0] == 200
            await watch.send(GET.replace(b"/default", b"?watch=1&resourceVersion=0") + b"\r\n")
            await asyncio.wait_for(watch.reader.readuntil(b'"default"'), 10)
            stopping = asyncio.create_task(server.http.stop())
            await until(lambda: server.http.is_draining)
            await ahead.send((GET + b"\r\n") * 3)
            answers = [await ahead.answer() for _ in range(3)]
            assert [status for status, _ in answers] == [200, 200, 200]
            assert await asyncio.wait_for(ahead.reader.read(), 10) == b""
            await idle.send(GET.replace(b"/default", b"?watch=1") + b"\r\n")
            refusal = (await asyncio.wait_for(idle.reader.read(), 10)).decode()
            assert refusal.startswith("HTTP/1.1 503 ")
            assert "Connection: close" in refusal
            assert "Retry-After: 1" in refusal
            assert "apiserver is shutting down" in refusal
            assert not stopping.done()
            assert (await half.ask(whole[-7:]))[0] == 201
            rest = await asyncio.wait_for(watch.reader.read(), 10)
            assert b'"half"' not in rest  # it watches namespaces
            assert rest.endswith(b"\r\n0\r\n\r\n")
            await stopping
            for one in (half, ahead, idle, watch):
                one.writer.close()

    asyncio.run(run())


def test_with_retry_after_new_requests_are_refused_until_all_are_answered() -> None:
    async def run() -> None:
        async with served(ApiServerSettings(shutdown_send_retry_after=True)) as server:
            half, late = [Line(*await raw_connection(server)) for _ in range(2)]
            whole = make("half")
            await half.send(whole[:-7])
            await until(lambda: server.http.has_requests)
            stopping = asyncio.create_task(server.http.stop())
            await until(lambda: server.http.is_draining)
            new = Line(*await raw_connection(server))  # the server goes on listening
            for one in (late, new):
                await one.send(GET + b"\r\n")
                refusal = (await asyncio.wait_for(one.reader.read(), 10)).decode()
                assert refusal.startswith("HTTP/1.1 429 ")
                assert "Connection: close" in refusal
                assert "Retry-After: 5" in refusal
                assert refusal.endswith("The apiserver is shutting down, please try again later.\n")
            await asyncio.sleep(1.1)  # it goes on doing so, however long that takes, and leaves time for handshakes
            slow, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(slow.read(1), 0.2)
            writer.close()
            async with server.session.get(f"{server.url}/livez") as health:
                assert health.status == 200
            assert (await half.ask(whole[-7:]))[0] == 429
            await stopping
            for one in (half, late, new):
                one.writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("method", ["FOO", "PROPFIND", "get"])
def test_methods_that_parsers_do_not_know_are_answered_by_the_server(method: str) -> None:
    async def run() -> None:
        async with served() as server, line(server) as one:
            for body in (b"", b'{"metadata":{"name":"x"}}'):
                head = GET.replace(b"GET", method.encode()).replace(b"/api/v1/namespaces/default", MAPS.encode())
                code, answer = await one.ask(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                assert code == 405
                assert json.loads(answer)["reason"] == "MethodNotAllowed"
                assert (await one.ask(GET + b"\r\n"))[0] == 200
            assert (await one.ask(head.replace(MAPS.encode(), b"/nosuch") + b"\r\n"))[0] == 404
            code, answer = await one.ask(head.replace(TOKEN.encode(), TOKENS["carol"][0].encode()) + b"\r\n")
            assert code == 403
            assert 'cannot  resource "configmaps"' in json.loads(answer)["message"]

    asyncio.run(run())
