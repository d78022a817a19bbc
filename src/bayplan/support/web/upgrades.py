"""HTTP connections whose protocol has changed: what comes on them, byte by byte, as aiohttp feeds it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from bayplan.support.clock import Clock

_DRAIN_SECONDS: Final = 0.005
MOST_WAITING: Final = 1 << 18
"""Bytes that may wait before who sends them is asked to wait."""
MOST_FROM_SERVERS: Final = 1 << 26
"""Bytes that may wait for a client before the server is asked to wait. Very many: a TLS connection that is paused when its other end closes keeps the last
bytes to itself with uvloop."""
LINGER_SECONDS: Final = 2.0
"""For a client to read all and close, when this end has nothing more to say."""


class Incoming:
    """What comes on a connection. aiohttp feeds it as it feeds the parser of a protocol; its source is paused without aiohttp,
    which would pause its own parser."""

    def __init__(self, source: asyncio.Transport, most: int = MOST_WAITING) -> None:
        """most: bytes that may wait before the source is asked to wait."""
        self._source = source
        self._most = most
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._is_paused = self._has_ended = False
        self._news = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """More from the source."""
        self._pieces.append(bytes(data))
        self._waiting += len(data)
        if self._waiting > self._most and not self._is_paused:
            self._is_paused = True
            self._source.pause_reading()
        self._news.set()
        return False, b""

    def feed_eof(self) -> None:
        """The source has closed."""
        self._has_ended = True
        self._news.set()

    async def read(self) -> bytes:
        """What comes next; b"" when the source has closed."""
        while not self._pieces:
            if self._has_ended:
                return b""
            if self._is_paused:
                self._is_paused = False
                self._source.resume_reading()
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._waiting -= len(piece)
        return piece

    async def ended(self, seconds: float) -> None:
        """Return when the source has closed, or so many seconds have passed. What it still sends goes nowhere."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self.read():
                    pass


async def write_all(target: asyncio.Transport, data: bytes, clock: Clock) -> None:
    """Write as fast as the target takes it. Raises ConnectionError if it closes."""
    if target.is_closing():
        raise ConnectionResetError("the connection is closed")
    target.write(data)
    while target.get_write_buffer_size() > MOST_WAITING:
        if target.is_closing():
            raise ConnectionResetError("the connection is closed")
        await clock.sleep(_DRAIN_SECONDS)


class Upgraded:
    """A client's connection that speaks another protocol than HTTP from now on."""

    def __init__(self, http: web.BaseRequest, headers: Mapping[str, str], clock: Clock) -> None:
        """Tell the client that the protocol changes. headers: of that answer. Raises ConnectionError."""
        if http.transport is None:
            raise ConnectionResetError("the connection is closed")
        self._transport, self._clock = http.transport, clock
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._transport.write(f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode("latin-1"))
        self._incoming = Incoming(self._transport)
        http.protocol.set_parser(self._incoming)  # type: ignore[arg-type]  # what aiohttp needs of a parser

    async def read(self) -> bytes:
        """What comes next; b"" at the end."""
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        """Send, when there is room. Raises ConnectionError."""
        await write_all(self._transport, data, self._clock)

    async def close(self) -> None:
        """Close when the client has read all and closed, or a moment later: to close on a client that still sends takes from it what it has not read."""
        if not self._transport.is_closing():
            await self._incoming.ended(LINGER_SECONDS)
        self._transport.close()


class Switched:
    """A server's connection that speaks another protocol than HTTP from now on: the other side of Upgraded."""

    def __init__(self, answer: aiohttp.ClientResponse, clock: Clock) -> None:
        """answer: the server's 101. Raises ConnectionError."""
        connection = answer.connection
        if connection is None or connection.transport is None or connection.protocol is None:
            raise ConnectionResetError("the connection is closed")
        self._transport, self._clock = connection.transport, clock
        self._incoming = Incoming(self._transport, MOST_FROM_SERVERS)
        connection.protocol.set_parser(self._incoming, None)

    async def read(self) -> bytes:
        """What comes next; b"" at the end."""
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        """Send, when there is room. Raises ConnectionError."""
        await write_all(self._transport, data, self._clock)

    def close(self) -> None:
        """End it both ways."""
        self._transport.close()


class Sent(web.StreamResponse):
    """An answer that has been given already, after which the connection is of no further use."""

    def __init__(self) -> None:
        super().__init__(status=HTTPStatus.SWITCHING_PROTOCOLS)

    @property
    def keep_alive(self) -> bool:
        """Never."""
        return False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to send."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""


def is_websocket_request(http: web.BaseRequest) -> bool:
    """Whether the client wants a WebSocket instead of an HTTP answer."""
    return wants_upgrade(http) and http.headers.get("Upgrade", "").lower() == "websocket"


def wants_upgrade(http: web.BaseRequest) -> bool:
    """Whether the client wants to speak another protocol."""
    return "upgrade" in http.headers.get("Connection", "").lower()
