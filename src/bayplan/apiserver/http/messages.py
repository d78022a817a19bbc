"""A stream of bytes as the messages of a WebSocket, for clients in browsers. What they send is ignored.

Source: `k8s.io/streaming/pkg/httpstream/wsstream/stream.go`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

import aiohttp
from aiohttp import web

_BINARY: Final = "binary.k8s.io"
_BASE64: Final = "base64.binary.k8s.io"
_MESSAGE_BYTES: Final = 2048
_RECEIVED_BYTES: Final = 1 << 16
"""Largest message of a client; there is nothing to say."""


class Content(Protocol):
    """Bytes that come as they are read."""

    async def read(self, n: int) -> bytes:
        """At most so many; b"" at the end."""


class LogContent:
    """Pieces of a log, read as the content of an answer is."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        """pieces: b"" among them means nothing."""
        self._pieces = pieces
        self._rest = b""

    async def read(self, n: int) -> bytes:
        """See Content."""
        while not self._rest:
            try:
                self._rest = await anext(self._pieces)
            except StopAsyncIteration:
                return b""
        found, self._rest = self._rest[:n], self._rest[n:]
        return found


async def send_messages(http: web.BaseRequest, content: Content) -> web.StreamResponse:
    """Send an empty message, then what `content` has until it ends or the client closes. Without a subprotocol messages are binary."""
    wanted = [one.strip() for one in http.headers.get("Sec-WebSocket-Protocol", "").split(",") if one.strip()]
    chosen = next((one for one in wanted if one in (_BINARY, _BASE64)), "")
    if wanted and not chosen:
        return web.Response(status=403)
    socket = web.WebSocketResponse(protocols=(chosen,) if chosen else (), compress=False, max_msg_size=_RECEIVED_BYTES)
    await socket.prepare(http)
    sending = asyncio.create_task(_send(socket, content, as_text=chosen == _BASE64))
    receiving = asyncio.create_task(_ignore(socket))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, aiohttp.ClientError):
            await sending  # a client that has gone, or a kubelet: the messages end here
        await socket.close()
        receiving.cancel()
    return socket


async def _send(socket: web.WebSocketResponse, content: Content, *, as_text: bool) -> None:
    piece = b""
    while True:
        if as_text:
            await socket.send_str(base64.b64encode(piece).decode())
        else:
            await socket.send_bytes(piece)
        piece = await content.read(_MESSAGE_BYTES)
        if not piece:
            return


async def _ignore(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass
