"""Requests that HTTP/2 does not allow: their streams are reset or refused as by Go's server, and the connection goes on."""

from __future__ import annotations

import asyncio

import pytest
from h2.errors import ErrorCodes

from tests.apiserver.http2.http2_client import http2_served

BASE = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/version")]

RESET = {
    "no method": [one for one in BASE if one[0] != ":method"],
    "no path": [one for one in BASE if one[0] != ":path"],
    "no scheme": [one for one in BASE if one[0] != ":scheme"],
    "an empty path": [*BASE[:3], (":path", "")],
    "a path without a slash": [*BASE[:3], (":path", "version")],
    "a path that is badly escaped": [*BASE[:3], (":path", "/%zz")],
    "a path with a blank": [*BASE[:3], (":path", "/a b")],
    "a scheme that is not HTTP": [BASE[0], (":scheme", "ftp"), *BASE[2:]],
    "CONNECT": [(":method", "CONNECT"), (":authority", "x:443")],
    "extended CONNECT": [(":method", "CONNECT"), *BASE[1:], (":protocol", "websocket")],
    "an unknown pseudo-header field": [*BASE, (":status", "200")],
    "a pseudo-header field twice": [*BASE, (":path", "/api")],
    "a pseudo-header field after others": [*BASE[:3], ("accept", "*/*"), BASE[3]],
    "a name in capitals": [*BASE, ("Accept", "*/*")],
    "a name with a blank": [*BASE, ("a b", "x")],
    "an empty name": [*BASE, ("", "x")],
    "a value with a line feed": [*BASE, ("x", "a\nb")],
    "a value with a zero": [*BASE, ("x", "a\0b")],
    "an authority with a slash": [*BASE[:2], (":authority", "a/b"), BASE[3]],
}


@pytest.mark.parametrize("fields", RESET.values(), ids=RESET)
def test_malformed_fields_reset_the_stream(fields: list[tuple[str, str]]) -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            await client.ask("GET", "/version")
            stream = client.send(fields)
            await client.until(lambda: stream in client.resets or client.is_closed)
            assert client.resets[stream] == ErrorCodes.PROTOCOL_ERROR
            assert (await client.ask("GET", "/version")).status == 200
            assert not client.goaways

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("connection", "close", 'request header "Connection" is not valid in HTTP/2\n'),
        ("transfer-encoding", "chunked", 'request header "Transfer-Encoding" is not valid in HTTP/2\n'),
        ("upgrade", "websocket", 'request header "Upgrade" is not valid in HTTP/2\n'),
        ("keep-alive", "1", 'request header "Keep-Alive" is not valid in HTTP/2\n'),
        ("proxy-connection", "close", 'request header "Proxy-Connection" is not valid in HTTP/2\n'),
        ("te", "gzip", 'request header "TE" may only be "trailers" in HTTP/2\n'),
    ],
)
def test_fields_of_connections_are_refused(name: str, value: str, text: str) -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            await client.ask("GET", "/version")
            answer = await client.ask("GET", "/version", None, (name, value))
            assert answer.status == 400
            assert answer.body.decode() == text
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert (await client.ask("GET", "/version")).status == 200

    asyncio.run(run())


def test_fields_that_are_too_long_are_refused() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            further = [(f"x-{index}", "x" * 10_000) for index in range(110)]
            answer = await client.answer(client.begin("GET", "/version", *further))
            assert answer.status == 431
            assert answer.body == b"<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"
            assert (await client.ask("GET", "/version")).status == 200

    asyncio.run(run())


def test_cookies_are_one_header_and_the_authority_is_the_host() -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            fields = [one for one in client.fields("GET", "/version") if one[0] != ":authority"]
            assert (
                await client.answer(client.send([*fields, ("host", "x"), ("cookie", "a=1"), ("cookie", "b=2")]))
            ).status == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    "malformed", [[("x", "1\ny\n2")], [("x", "1"), ("y", "2"), (":path", "/api")]], ids=["a line feed", "a second path"]
)
def test_malformed_fields_are_not_taken_for_known_ones(malformed: list[tuple[str, str]]) -> None:
    async def run() -> None:
        async with http2_served() as (_, client):
            for _ in range(2):  # from now on the fields are known
                assert (await client.ask("GET", "/version", None, ("x", "1"), ("y", "2"))).status == 200
            stream = client.begin("GET", "/version", *malformed)
            await client.until(lambda: stream in client.resets or stream in client.ended)
            assert client.resets[stream] == ErrorCodes.PROTOCOL_ERROR

    asyncio.run(run())
