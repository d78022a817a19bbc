"""Answers as bytes on the connection: status line, headers and body belong together, whichever way an answer goes."""

from __future__ import annotations

import asyncio
import json
import ssl

import pytest
from multidict import CIMultiDict

from tests.apiserver.serving import TOKENS, Served, served

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def exchange(server: Served, *requests: bytes) -> list[tuple[int, CIMultiDict[str], bytes]]:
    """Send raw requests one after the other on one connection; status, headers and body of each answer."""
    connector = server.session.connector
    assert connector is not None
    trust = connector._ssl  # type: ignore[attr-defined]
    assert isinstance(trust, ssl.SSLContext)
    host, port = server.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=trust)
    answers = []
    for request in requests:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers: CIMultiDict[str] = CIMultiDict()
        for line in filter(None, head[1:]):
            name, _, value = line.partition(": ")
            headers.add(name, value)
        body = b"" if request.startswith(b"HEAD") else await reader.readexactly(int(headers["Content-Length"]))
        answers.append((int(head[0].split()[1]), headers, body))
    writer.close()
    return answers


def request(method: str, path: str, body: bytes = b"", version: str = "1.1", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: x", f"Authorization: Bearer {TOKENS['admin'][0]}", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_answers_on_one_connection_follow_each_other() -> None:
    async def run() -> None:
        async with served() as server:
            made, again, found = await exchange(
                server,
                request("POST", CONFIG_MAPS, b'{"metadata":{"name":"a"}}'),
                request("POST", CONFIG_MAPS, b'{"metadata":{"name":"a"}}'),
                request("GET", f"{CONFIG_MAPS}/a"),
            )
            assert [made[0], again[0], found[0]] == [201, 409, 200]
            assert found[2] == made[2]
            assert found[2].endswith(b"}\n")
            for _, headers, _ in (made, again, found):
                assert headers["Content-Type"] == "application/json"
                assert headers["Cache-Control"] == "no-cache, private"
                assert headers["Date"].endswith(" GMT")

    asyncio.run(run())


def test_a_large_answer_and_one_with_warnings_arrive_whole() -> None:
    async def run() -> None:
        async with served() as server:
            data = json.dumps({"metadata": {"name": "big"}, "data": {"x": "y" * 200_000}}).encode()
            warned = json.dumps({"metadata": {"name": "odd"}, "no\r\nsuch": 1}).encode()
            big, odd, found = await exchange(
                server,
                request("POST", CONFIG_MAPS, data),
                request("POST", CONFIG_MAPS, warned),
                request("GET", f"{CONFIG_MAPS}/big"),
            )
            assert json.loads(big[2])["data"] == {"x": "y" * 200_000}
            assert found[2] == big[2]
            assert (odd[0], odd[1]["Warning"]) == (201, r'299 - "unknown field \"no\\r\\nsuch\""')

    asyncio.run(run())


@pytest.mark.parametrize(
    ("version", "header", "kept"), [("1.0", "X: y", False), ("1.1", "Connection: close", False), ("1.1", "X: y", True)]
)
def test_the_connection_is_kept_as_the_client_asks(version: str, header: str, kept: bool) -> None:
    async def run() -> None:
        async with served() as server:
            (answer,) = await exchange(server, request("GET", "/api", b"", version, header))
            assert answer[0] == 200
            assert (answer[1].get("Connection", "") != "close") is (kept or version == "1.0")

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/livez", "/readyz?verbose", "/healthz?exclude=nosuch"])
def test_health_checks_say_the_same_on_the_fast_path(path: str) -> None:
    async def run() -> None:
        async with served() as server:
            slow, fast = await exchange(server, request("GET", path), request("GET", path))
            assert fast[0] == slow[0] == 200
            assert fast[2] == slow[2]
            assert fast[1]["Content-Type"] == "text/plain; charset=utf-8"
            assert fast[1]["X-Content-Type-Options"] == "nosniff"
            own = {"Date", "Audit-Id"}
            shown = [
                {(name.lower(), value) for name, value in one[1].items() if name not in own} for one in (slow, fast)
            ]
            assert shown[0] == shown[1]

    asyncio.run(run())
