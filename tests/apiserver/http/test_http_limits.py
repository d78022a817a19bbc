"""What protects the server from its clients: limits of time, size and number, compression, and pieces."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import ssl
import time
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.apiserver.inflight import InFlight
from bayplan.apiserver.reads.pieces import JsonList
from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.serving import Served, client_of, served

MAPS = "/api/v1/namespaces/default/configmaps"
USER, ADMIN = User("u"), User("a", ("system:masters",))


async def fill(server: Served, count: int, size: int) -> None:
    """Make config maps of `size` bytes."""
    for index in range(count):
        body = {"metadata": {"name": f"filler-{index:05d}"}, "data": {"text": "x" * size}}
        async with server.session.post(server.url + MAPS, json=body, headers=server.headers()) as answer:
            assert answer.status == 201


@pytest.mark.parametrize(("sizes", "head"), [((1,), b"["), ((300_000, 5, 7), b"[["), (tuple([100] * 5000), b"[")])
def test_pieces_are_the_whole(sizes: tuple[int, ...], head: bytes) -> None:
    body = JsonList(head, [b"x" * size for size in sizes])
    whole = body.whole()
    assert b"".join(body.pieces(b"\n")) == whole + b"\n"
    assert body.size == len(whole)


def test_a_long_list_comes_in_pieces_and_compressed_for_who_wants_it() -> None:
    async def run() -> None:
        async with served() as server:
            await fill(server, 30, 50_000)
            bodies = []
            for encoding in ("identity", "gzip", "deflate, gzip"):
                headers = {**server.headers(), "Accept-Encoding": encoding}
                async with server.session.get(server.url + MAPS, headers=headers, auto_decompress=False) as answer:
                    data = await answer.read()
                    compressed = "gzip" in encoding
                    assert answer.headers.get("Content-Encoding") == ("gzip" if compressed else None)
                    assert answer.headers.get("Vary") == ("Accept-Encoding" if compressed else None)
                    bodies.append(gzip.decompress(data) if compressed else data)
            assert bodies[0] == bodies[1] == bodies[2]
            assert bodies[0].endswith(b"]}\n")
            assert len(json.loads(bodies[0])["items"]) >= 30
            headers = {**server.headers(), "Accept-Encoding": "gzip"}
            async with server.session.get(f"{server.url}{MAPS}?limit=1", headers=headers) as answer:
                assert "Content-Encoding" not in answer.headers
            async with server.session.get(f"{server.url}{MAPS}?pretty=1", headers=server.headers()) as answer:
                assert (await answer.read()).startswith(b'{\n  "kind"')
            listed = await client_of(server.api).list(core_v1.ConfigMap, "default")
            assert len(listed.items) >= 30

    asyncio.run(run())


def test_an_object_that_etcd_would_not_take_is_refused() -> None:
    async def run() -> None:
        async with served() as server:
            body = {
                "metadata": {"name": "d", "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i", "args": ["x" * 1_600_000]}]},
                    },
                },
            }
            path = f"{server.url}/apis/apps/v1/namespaces/default/deployments"
            headers = {**server.headers(), "Content-Type": "application/json"}
            async with server.session.post(path, data=io.BytesIO(json.dumps(body).encode()), headers=headers) as answer:
                assert answer.status == 500
                assert (await answer.json())["message"] == "etcdserver: request is too large"

    asyncio.run(run())


def request(method: str = "GET", path: str = "/api/v1/pods", user: User = USER, **query: str) -> Request:
    return Request(method, path, query, user)


def test_requests_beyond_the_limit_have_to_wait() -> None:
    counted = InFlight(1, 1)
    first = counted.enter(request())
    assert first is False
    assert counted.enter(request()) is None
    assert counted.enter(request("POST")) is True
    assert counted.enter(request("PUT")) is None
    counted.leave(first)
    assert counted.enter(request()) is False


@pytest.mark.parametrize(
    "exempt",
    [
        request(user=ADMIN),
        request(path="/livez"),
        request(watch="true"),
        request(path="/api/v1/watch/pods"),
        request(path="/api/v1/namespaces/a/pods/b/log"),
    ],
    ids=["administrators", "health checks", "watches", "old watch paths", "logs"],
)
def test_what_always_gets_in(exempt: Request) -> None:
    counted = InFlight(1, 1)
    counted.enter(request())
    assert counted.enter(exempt) is False


def test_no_limit_is_no_limit() -> None:
    counted = InFlight(0, 0)
    assert [counted.enter(request("POST")) for _ in range(1000)] == [True] * 1000


def test_only_what_lasts_is_long_running() -> None:
    assert not request(path="/api/v1/namespaces/log/pods").info.is_long_running
    assert not request(path="/api/v1/namespaces/a/configmaps/log").info.is_long_running
    assert not request(path="/api/v1/pods", watch="false").info.is_long_running
    assert request(path="/api/v1/nodes/a/proxy").info.is_long_running
    assert request(path="/apis/apps/v1/watch/deployments").info.is_long_running


def test_who_has_to_wait_is_told_when_to_come_back() -> None:
    async def run() -> None:
        async with served(ApiServerSettings(enable_priority_and_fairness=False, max_requests_inflight=1)) as server:
            listing = [fetch_status(server, "carol") for _ in range(20)]
            server.api.measured.in_flight.labels("readOnly")
            answers = await asyncio.gather(*listing)
            assert {status for status, _ in answers} <= {200, 429}
            assert all(retry == "1" for status, retry in answers if status == 429)

    async def fetch_status(server: Served, user: str) -> tuple[int, str | None]:
        async with server.session.get(server.url + MAPS, headers=server.headers(user)) as answer:
            return answer.status, answer.headers.get("Retry-After")

    asyncio.run(run())


async def raw_connection(server: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), ssl=context)


def test_a_body_that_does_not_come_ends_the_connection() -> None:
    async def run() -> None:
        async with served(ApiServerSettings(request_timeout=0.05)) as server:
            reader, writer = await raw_connection(server)
            token = server.headers()["Authorization"]
            head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: 100\r\n\r\n{{"
            writer.write(head.encode())
            answer = await asyncio.wait_for(reader.read(), 10)
            assert answer.startswith(b"HTTP/1.1 504")
            writer.close()

    asyncio.run(run())


def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def run() -> None:
        async with served(ApiServerSettings(request_timeout=0.2)) as server:
            await fill(server, 40, 900_000)
            reader, writer = await raw_connection(server)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            token = server.headers()["Authorization"]
            writer.write(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n".encode())
            await asyncio.sleep(0.5)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            received = 0
            with contextlib.suppress(ConnectionResetError, ssl.SSLError):
                while data := await asyncio.wait_for(reader.read(1 << 20), 10):
                    received += len(data)
            assert received < 36_000_000
            writer.close()

    asyncio.run(run())


def test_health_is_answered_while_slow_clients_watches_and_long_lists_keep_the_server_busy() -> None:
    async def run() -> None:
        async with served() as server:
            await fill(server, 200, 5_000)
            slow = [await raw_connection(server) for _ in range(60)]
            token = server.headers()["Authorization"]
            for index, (_, writer) in enumerate(slow):
                writer.write(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n".encode())
                if index % 2:
                    writer.write(f"Authorization: {token}\r\n\r\n".encode())
            watches = [
                await server.session.get(f"{server.url}{MAPS}?watch=1", headers=server.headers()) for _ in range(40)
            ]
            lists = [asyncio.create_task(read_all(server)) for _ in range(20)]
            worst = 0.0
            for _ in range(10):
                started = time.perf_counter()
                async with server.session.get(f"{server.url}/livez") as answer:
                    assert await answer.text() == "ok"
                worst = max(worst, time.perf_counter() - started)
                await fill_one(server)
            await asyncio.gather(*lists)
            for watch in watches:
                watch.close()
            for _, writer in slow:
                writer.close()
            assert worst < 1.0

    async def read_all(server: Served) -> None:
        async with server.session.get(server.url + MAPS, headers=server.headers()) as answer:
            assert len((await answer.json())["items"]) >= 200

    made = 0

    async def fill_one(server: Served) -> None:
        nonlocal made
        made += 1
        body: dict[str, Any] = {"metadata": {"name": f"more-{made}"}}
        async with server.session.post(server.url + MAPS, json=body, headers=server.headers()) as answer:
            assert answer.status == 201

    asyncio.run(run())


def test_metrics_have_the_names_of_kubernetes() -> None:
    async def run() -> None:
        async with served() as server:
            async with server.session.get(f"{server.url}{MAPS}?watch=1&timeoutSeconds=1000", headers=server.headers()):
                await fill(server, 2, 10)
                async with server.session.get(f"{server.url}/metrics", headers=server.headers()) as answer:
                    text = await answer.text()
            lines = text.splitlines()
            total = next(line for line in lines if line.startswith("apiserver_request_total") and '"POST"' in line)
            for label in ('resource="configmaps"', 'scope="resource"', 'code="201"', 'version="v1"'):
                assert label in total
            assert total.endswith(" 2")
            assert 'apiserver_storage_objects{resource="configmaps"}' in text
            watching = [line for line in lines if line.startswith("apiserver_longrunning_requests") and "WATCH" in line]
            assert [line.rpartition(" ")[2] for line in watching] == ["1"]
            assert 'apiserver_current_inflight_requests{request_kind="readOnly"} 1\n' in text
            assert "apiserver_request_duration_seconds_bucket" in text

    asyncio.run(run())


def test_a_connection_without_a_request_is_closed() -> None:
    async def run() -> None:
        async with served(ApiServerSettings(header_timeout=-1.0)) as server:
            reader, writer = await raw_connection(server)
            writer.write(b"GET /livez HTTP/1.1\r\nHost")
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_long_answer_to_head_has_no_body(encoding: str) -> None:
    async def run() -> None:
        async with served() as server:
            reader, writer = await raw_connection(server)
            head = (
                f"Host: x\r\nAuthorization: {server.headers()['Authorization']}\r\nAccept-Encoding: {encoding}\r\n\r\n"
            )
            for _ in range(3):
                writer.write(f"HEAD /openapi/v2 HTTP/1.1\r\n{head}".encode())
                answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                assert answer.startswith(b"HTTP/1.1 200 ")
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1", "h2c"])
@pytest.mark.parametrize(("token", "size"), [("wrong", 1_300_000), ("wrong", 10), ("", 10), ("", 1_300_000)])
def test_an_upgrade_that_is_refused_ends_the_connection_with_its_answer(protocol: str, token: str, size: int) -> None:
    async def run() -> None:
        async with served() as server:
            reader, writer = await raw_connection(server)
            authorization = f"Bearer {token}" if token else server.headers()["Authorization"]
            head = (
                f"PATCH /api/v1/namespaces/nosuch HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n"
                f"Connection: Upgrade\r\nUpgrade: {protocol}\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: {size}\r\n\r\n"
            )
            writer.write(head.encode() + b"x" * size)
            answer = await asyncio.wait_for(reader.read(), 10)
            assert answer.startswith(b"HTTP/1.1 401 " if token else b"HTTP/1.1 415 ")
            assert b"\r\nconnection: close\r\n" in answer.lower()
            writer.close()

    asyncio.run(run())
