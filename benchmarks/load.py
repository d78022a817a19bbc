"""A load generator that costs little itself: keep-alive connections over TLS with prepared requests, one answer at a time on each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import yaml


class Target:
    """A server from a kubeconfig with a token."""

    def __init__(self, kubeconfig: Path) -> None:
        import base64

        config = yaml.safe_load(kubeconfig.read_text())
        url = urlsplit(config["clusters"][0]["cluster"]["server"])
        self.host, self.port = url.hostname or "127.0.0.1", url.port or 443
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        self.token: str = config["users"][0]["user"]["token"]

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        """A request as bytes."""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\nAccept: application/json\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"\r\n" + body


class AnswerReader:
    """Cuts the answers of one connection, which come one at a time and say how long they are."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._needed = self._status = 0

    def feed(self, data: bytes) -> tuple[int, int] | None:
        """Status and size of the answer, if it is complete now."""
        self._buffer += data
        if not self._needed:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = bytes(self._buffer[:end]).lower()
            self._status = int(head[9:12])
            at = head.index(b"content-length:") + 15
            self._needed = end + 4 + int(head[at : at + 12].split(b"\r", 1)[0])
        if len(self._buffer) < self._needed:
            return None
        size, self._needed = self._needed, 0
        self._buffer.clear()
        return self._status, size


class _Connection(asyncio.Protocol):
    """Sends a request, waits for its answer, sends the next."""

    def __init__(self, on_answer: Callable[[int, int], None]) -> None:
        self._requests: Iterator[bytes] = iter(())
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_answer = on_answer
        self._answers = AnswerReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, requests: Iterator[bytes]) -> asyncio.Future[None]:
        """Send what others do not take from the requests; done when there are none left. Then the connection closes."""
        self._requests = requests
        self._send()
        return self._done

    def _send(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        answer = self._answers.feed(data)
        if answer is not None:
            self._on_answer(*answer)
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionResetError("the server closed the connection"))


class Connections:
    """Open connections, which have made their handshakes."""

    def __init__(self, on_answer: Callable[[int, int], None] | None = None) -> None:
        """on_answer: told of the status and the size of each answer."""
        self._open: list[_Connection] = []
        self._failures: list[int] = []
        self._on_answer = on_answer

    async def add(self, target: Target) -> None:
        """Open one more. Raises OSError."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self._check), target.host, target.port, ssl=target.tls
        )
        self._open.append(connection)

    def _check(self, status: int, size: int) -> None:
        if status >= 300:
            self._failures.append(status)
        if self._on_answer is not None:
            self._on_answer(status, size)

    async def send(self, requests: Iterator[bytes]) -> None:
        """Send all requests and close. Raises RuntimeError if an answer is no success, OSError."""
        await asyncio.gather(*[connection.send(requests) for connection in self._open])
        if self._failures:
            raise RuntimeError(f"{len(self._failures)} requests failed, the first with status {self._failures[0]}")


async def connect(target: Target, count: int, on_answer: Callable[[int, int], None] | None = None) -> Connections:
    """So many connections. Raises OSError."""
    connections = Connections(on_answer)
    for _ in range(count):
        await connections.add(target)
    return connections


async def run(
    target: Target, requests: Iterator[bytes], connections: int, on_answer: Callable[[int, int], None] | None = None
) -> None:
    """Send all requests over so many connections. Raises RuntimeError if an answer is no success, OSError."""
    await (await connect(target, connections, on_answer)).send(requests)


class WatchCounter(asyncio.Protocol):
    """A watch that looks at the raw lines: calls back with each one."""

    def __init__(self, request: bytes, on_line: Callable[[bytes], None]) -> None:
        self._request = request
        self._on_line = on_line
        self._rest = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self._on_line(line)


async def watch(target: Target, path: str, on_line: Callable[[bytes], None]) -> WatchCounter:
    """Open a watch; close its transport to end it."""
    counter = WatchCounter(target.request("GET", path), on_line)
    await asyncio.get_running_loop().create_connection(lambda: counter, target.host, target.port, ssl=target.tls)
    return counter
