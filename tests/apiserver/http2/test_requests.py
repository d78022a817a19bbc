"""Requests over HTTP/2: the same answers as over HTTP/1.1, on streams of one connection."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from typing import Any

import aiohttp
import pytest

from tests.apiserver.http2.http2_client import MAPS, SECONDS, connected, http2_served, http2_settings
from tests.apiserver.serving import served

_OWN = ("Audit-Id", "Date", "Server", "Content-Length")
"""Headers that differ from answer to answer."""


def a_map(name: str, size: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"text": "x" * size}}


def test_every_verb_is_answered_on_one_connection() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            assert (await client.ask("POST", MAPS, a_map("a"))).status == 201
            got = await client.ask("GET", f"{MAPS}/a")
            assert got.status == 200
            assert got.json["data"] == {"text": "x"}
            got.json["data"]["text"] = "y"
            assert (await client.ask("PUT", f"{MAPS}/a", got.json | {"data": {"text": "y"}})).json["data"][
                "text"
            ] == "y"
            merge = ("content-type", "application/merge-patch+json")
            patched = await client.ask("PATCH", f"{MAPS}/a", {"data": {"more": "z"}}, merge)
            assert patched.json["data"] == {"text": "y", "more": "z"}
            assert "a" in [one["metadata"]["name"] for one in (await client.ask("GET", MAPS)).json["items"]]
            assert (await client.ask("DELETE", f"{MAPS}/a")).json["status"] == "Success"
            assert (await client.ask("GET", f"{MAPS}/a")).status == 404
            assert (await client.ask("DELETE", MAPS)).json["kind"] == "ConfigMapList"
            assert (await client.ask("HEAD", "/version")).body == b""
            assert (await client.ask("OPTIONS", "/version")).status in (200, 405)

    asyncio.run(run())


PATHS = (
    "/version", "/api", "/livez", f"{MAPS}/a", f"{MAPS}/missing", f"{MAPS}?limit=1&continue=x", "/apis/nowhere/v1", f"{MAPS}/a?pretty=true",
    "/api/v1/namespaces/%ff/configmaps", "/openapi/v2", "/readyz?verbose", "/api/v1/nodes/x/proxy", "/api/v1/namespaces/default/pods/x/exec",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_answers_are_those_of_http_1(path: str) -> None:
    """The first request takes the slow path, the second one the fast path if there is one for it."""

    async def run() -> None:
        async with http2_served() as (server, client):
            await client.ask("POST", MAPS, a_map("a"))
            headers = {**server.headers(), "Accept": "application/json", "User-Agent": "test/1"}
            url = server.url + path
            for _ in range(2):
                async with server.session.get(
                    url, headers=headers, allow_redirects=False, skip_auto_headers=["Accept-Encoding"]
                ) as one:
                    expected = await one.read()
                    wanted = {name.lower(): value for name, value in one.headers.items() if name not in _OWN}
                    status = one.status
                answer = await client.ask("GET", path)
                assert answer.status == status
                assert answer.body == expected
                wanted.pop("transfer-encoding", None)
                given = {
                    name: value for name, value in answer.headers.items() if name[0] != ":" and name.title() not in _OWN
                }
                assert given == wanted

    asyncio.run(run())


def test_streams_of_a_connection_are_answered_beside_one_another() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            watch = client.begin("GET", f"{MAPS}?watch=1")
            await client.until(lambda: watch in client.heads)
            streams = []
            for index in range(40):
                stream = client.begin("POST", MAPS, ("content-type", "application/json"), ends=False)
                await client.send_body(stream, json.dumps(a_map(f"m{index}")).encode())
                streams.append(stream)
            assert {(await client.answer(stream)).status for stream in streams} == {201}
            await client.until(lambda: client.bodies[watch].count(b'"type":"ADDED"') >= 40)
            assert watch not in client.ended

    asyncio.run(run())


def test_a_body_larger_than_all_windows_is_read() -> None:
    size = 1_000_000

    async def run() -> None:
        async with http2_served() as (_, client):
            assert (await client.ask("POST", MAPS, a_map("large", size))).status == 201
            answer = await client.ask("GET", f"{MAPS}/large")
            assert len(answer.json["data"]["text"]) == size
            for _ in range(4):  # more than the window of the connection
                assert (await client.ask("PUT", f"{MAPS}/large", a_map("large", size))).status == 200

    asyncio.run(run())


def test_a_body_over_the_limit_is_refused_without_being_read() -> None:
    async def run() -> None:
        async with http2_served(max_request_bytes=100_000) as (_, client):
            stream = client.begin(
                "POST", MAPS, ("content-type", "application/json"), ("content-length", "5000000"), ends=False
            )
            answer = await client.answer(stream)
            assert answer.status == 413
            await client.until(lambda: stream in client.resets)
            assert client.resets[stream] == 0  # NO_ERROR: the rest is not wanted
            unsaid = client.begin("POST", MAPS, ("content-type", "application/json"), ends=False)
            await client.send_body(unsaid, b"x" * 200_000)
            assert (await client.answer(unsaid)).status == 413
            assert (await client.ask("GET", "/version")).status == 200

    asyncio.run(run())


def test_a_long_list_passes_small_windows_and_is_compressed_for_who_wants_it() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            for index in range(20):
                await client.ask("POST", MAPS, a_map(f"m{index}", 50_000))
            plain = await client.ask("GET", MAPS)
            packed = await client.ask("GET", MAPS, None, ("accept-encoding", "gzip"))
            assert packed.headers["content-encoding"] == "gzip"
            assert gzip.decompress(packed.body) == plain.body
            assert len(plain.body) > 1_000_000

    asyncio.run(run())


def test_a_body_that_is_waited_for_is_asked_for() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            body = json.dumps(a_map("expected", 100_000)).encode()
            kind = ("content-type", "application/json")
            stream = client.begin(
                "POST", MAPS, kind, ("content-length", str(len(body))), ("expect", "100-continue"), ends=False
            )
            await client.until(lambda: stream in client.continued)
            await client.send_body(stream, body)
            assert (await client.answer(stream)).status == 201

    asyncio.run(run())


def test_a_small_body_that_does_not_come_is_not_waited_for_for_ever() -> None:
    async def run() -> None:
        async with http2_served(request_timeout=0.2) as (server, client):
            stream = client.begin(
                "POST", MAPS, ("content-type", "application/json"), ("content-length", "10"), ends=False
            )
            await client.ask("GET", "/version")
            assert server.http._connections is not None
            server.http._connections.check_http2_timeouts(0.0, 60.0)
            assert (await client.answer(stream)).status == 504

    asyncio.run(run())


def test_trailers_are_read_and_mean_nothing() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            stream = client.begin("POST", MAPS, ("content-type", "application/json"), ("te", "trailers"), ends=False)
            client.state.send_data(stream, json.dumps(a_map("trailed")).encode())
            client.state.send_headers(stream, [("x-checksum", "1")], end_stream=True)
            client.flush()
            assert (await client.answer(stream)).status == 201

    asyncio.run(run())


def test_who_offers_http_1_only_gets_it() -> None:
    async def run() -> None:
        async with served(http2_settings()) as server:
            async with server.session.get(f"{server.url}/version", headers=server.headers()) as answer:
                assert answer.version == aiohttp.HttpVersion11
                assert answer.status == 200
            async with connected(server) as client:
                assert (await client.ask("GET", "/version")).status == 200
                assert b"bayplan_http2_connections 1" in (await client.ask("GET", "/metrics")).body

    asyncio.run(run())


def test_http_2_is_not_offered_unless_it_is_wanted() -> None:
    async def run() -> None:
        async with served() as server:
            trust = ssl.create_default_context()
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            trust.set_alpn_protocols(["h2", "http/1.1"])
            port = int(server.url.rpartition(":")[2])
            async with asyncio.timeout(SECONDS):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
            writer.close()

    asyncio.run(run())


def test_methods_that_nobody_knows_are_answered_by_the_server() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            answer = await client.ask("FOO", MAPS)
            assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")
            assert (await client.ask("FOO", "/nosuch")).status == 404

    asyncio.run(run())
