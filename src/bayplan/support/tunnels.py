"""Two HTTP connections whose protocol has changed become a tunnel: what comes on one goes out on the other, both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from http import HTTPStatus

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from bayplan.support.clock import Clock

_DRAIN_SECONDS = 0.005
_TUNNEL_BYTES = 1 << 18
"""Bytes that may wait for a kubelet in a tunnel before the client is asked to wait, and in the buffer of either end."""
_TUNNEL_BYTES_BACK = 1 << 26
"""Bytes that may wait for a client before the kubelet is asked to wait. Very many: a TLS connection that is paused when its other end closes keeps the last
bytes to itself with uvloop."""
_LINGER_SECONDS = 2.0
"""For a client to read all and close, after a kubelet has closed."""


async def tunnel(http: web.BaseRequest, answer: aiohttp.ClientResponse, clock: Clock) -> web.StreamResponse:
    """Tell the client that the protocol changes, and carry bytes both ways until one end closes. answer: the backend's 101. Raises ConnectionError."""
    connection, client = answer.connection, http.transport
    if connection is None or connection.transport is None or connection.protocol is None or client is None:
        raise ConnectionError("the connection is closed")
    backend = connection.transport
    head = b"".join(b"%b: %b\r\n" % pair for pair in answer.raw_headers)
    client.write(b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % head)
    there = _Direction(clock, client, _TUNNEL_BYTES)
    back = _Direction(clock, backend, _TUNNEL_BYTES_BACK)
    http.protocol.set_parser(there)  # type: ignore[arg-type]  # what aiohttp needs of a parser
    connection.protocol.set_parser(back, None)
    carried = [asyncio.create_task(there.carry(backend)), asyncio.create_task(back.carry(client))]
    try:
        await asyncio.wait(carried, return_when=asyncio.FIRST_COMPLETED)
        if backend.is_closing() and not client.is_closing():
            await carried[1]  # what came last
            # To close on a client that still sends takes from it what it has not read yet.
            await there.ended(_LINGER_SECONDS)
    finally:
        for task in carried:
            task.cancel()
        backend.close()
        client.close()
    return _Sent(status=HTTPStatus.SWITCHING_PROTOCOLS)


class _Direction:
    """What goes one way through a tunnel. aiohttp feeds it as it feeds the parser of a protocol; its source is paused without aiohttp,
    which would pause its own parser."""

    def __init__(self, clock: Clock, source: asyncio.Transport, most: int) -> None:
        """most: bytes that may wait before the source is asked to wait."""
        self._clock = clock
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

    async def ended(self, seconds: float) -> None:
        """Return when the source has closed, or so many seconds have passed. What it still sends goes nowhere."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._has_ended:
                    self._pieces.clear()
                    self._waiting = 0
                    self._news.clear()
                    await self._news.wait()

    async def carry(self, target: asyncio.Transport) -> None:
        """Write what comes, as fast as the target takes it, until one of the two closes."""
        while not target.is_closing():
            if self._pieces:
                piece = self._pieces.popleft()
                self._waiting -= len(piece)
                target.write(piece)
                while target.get_write_buffer_size() > _TUNNEL_BYTES and not target.is_closing():
                    await self._clock.sleep(_DRAIN_SECONDS)
            elif self._has_ended:
                return
            else:
                if self._is_paused:
                    self._is_paused = False
                    self._source.resume_reading()
                self._news.clear()
                await self._news.wait()


class _Sent(web.StreamResponse):
    """An answer that has been given already, after which the connection is of no further use."""

    @property
    def keep_alive(self) -> bool:
        """Never."""
        return False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to send."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""
