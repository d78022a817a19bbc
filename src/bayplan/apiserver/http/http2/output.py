"""What a stream has to send: bytes that wait for the windows of the stream and its connection, and the writer through which aiohttp's responses send them.

    response -> StreamWriter -> StreamOutput -> the connection takes pieces when windows are open and the client reads

`StreamOutput` has the methods of a transport, so that watches and relays treat a stream as they treat a connection of HTTP/1.1. A stream whose client does not
read holds what was written to it, and whoever writes waits, or looks at `get_write_buffer_size`; other streams go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

from aiohttp.abc import AbstractStreamWriter
from h2.errors import ErrorCodes
from multidict import CIMultiDict

from bayplan.apiserver.http.http2.fields import Field

_HIGH: Final = 1 << 16
"""Bytes that may wait before who writes has to."""
_OF_CONNECTIONS: Final = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))


class StreamLink(Protocol):
    """What a stream needs of its connection: see FrameSender."""

    transport: asyncio.Transport | None

    def send_fields(self, stream_id: int, fields: Sequence[Field], *, ends: bool) -> None:
        """Send header fields."""

    def send_body(self, output: StreamOutput) -> None:
        """Send what waits in an output, as far as windows and the client allow."""

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream at once."""

    def unsent(self) -> int:
        """Bytes that are out of the hands of streams and that the system has not taken."""


class StreamOutput(asyncio.Transport):
    """The sending side of one stream."""

    def __init__(self, link: StreamLink, stream_id: int) -> None:
        super().__init__()
        self._link = link
        self.stream_id = stream_id
        self._pieces: deque[bytes | memoryview] = deque()
        self._size = 0
        self._ends = False
        """Whether nothing will be written any more."""
        self.is_done = False
        """Whether everything has been sent, or nobody wants it any more."""
        self._waiter: asyncio.Future[None] | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See BaseTransport: what is known of the connection."""
        transport = self._link.transport
        return transport.get_extra_info(name, default) if transport is not None else default

    def is_closing(self) -> bool:
        """See BaseTransport."""
        return self.is_done

    def get_write_buffer_size(self) -> int:
        """See WriteTransport: bytes that wait, of this stream and before it in the connection."""
        return self._size + self._link.unsent()

    @property
    def has_pieces(self) -> bool:
        """Whether bytes wait, or the end."""
        return bool(self._pieces) or (self._ends and not self.is_done)

    @property
    def has_bytes(self) -> bool:
        """Whether bytes wait."""
        return self._size > 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See WriteTransport."""
        if self.is_done or self._ends or not data:
            return
        self._pieces.append(bytes(data) if isinstance(data, bytearray) else data)
        self._size += len(data)
        self._link.send_body(self)

    def write_last(self, data: bytes | bytearray | memoryview) -> None:
        """Write what is left, which may be nothing: the stream ends with it."""
        if self.is_done or self._ends:
            return
        if data:
            self._pieces.append(bytes(data) if isinstance(data, bytearray) else data)
            self._size += len(data)
        self._ends = True
        self._link.send_body(self)

    def take(self, most: int) -> tuple[bytes, bool]:
        """At most so many of the bytes that wait, and whether the stream ends with them."""
        pieces, taken, size = self._pieces, [], 0
        while pieces and size < most:
            piece = pieces.popleft()
            if len(piece) > most - size:
                view = memoryview(piece)
                pieces.appendleft(view[most - size :])
                piece = view[: most - size]
            taken.append(piece)
            size += len(piece)
        self._size -= size
        if self._size <= _HIGH // 2 and not self._ends:
            self._wake()
        only = taken[0] if len(taken) == 1 else b"".join(taken)
        return only if isinstance(only, bytes) else bytes(only), self._ends and not pieces

    def finished(self) -> None:
        """All has been sent, or the stream is no more."""
        self.is_done = True
        self._pieces.clear()
        self._size = 0
        self._wake()

    def abort(self) -> None:
        """See WriteTransport: end the stream, without what waits."""
        if not self.is_done:
            self._link.reset(self.stream_id, ErrorCodes.CANCEL)

    close = abort

    async def until_taken(self) -> None:
        """Wait until most of what was written has been sent; all of it, if nothing more will be written."""
        while not self.is_done and (self._ends or self._size > _HIGH):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class StreamWriter(AbstractStreamWriter):
    """Sends a response of aiohttp's over a stream."""

    def __init__(self, link: StreamLink, output: StreamOutput) -> None:
        self._link = link
        self._output = output
        self._fields: list[Field] | None = None
        """What has not been sent of the head."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """See AbstractStreamWriter: they go with the first bytes of the body, or with `send_headers`."""
        self._fields = [(b":status", status_line.split(" ", 2)[1].encode())]
        for name, value in headers.items():
            if (lower := name.lower()) not in _OF_CONNECTIONS:
                self._fields.append((lower.encode(), value.encode("utf-8", "surrogateescape")))

    def send_headers(self, *, ends: bool = False) -> None:
        """See AbstractStreamWriter. ends: whether there is no body."""
        fields, self._fields = self._fields, None
        if fields is not None and not self._output.is_done:
            self._link.send_fields(self._output.stream_id, fields, ends=ends)

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """See AbstractStreamWriter. Raises ConnectionResetError if the client has gone."""
        self.send_headers()
        if self._output.is_done:
            raise ConnectionResetError("the client has gone")
        self.output_size += len(chunk)
        self._output.write(chunk)
        await self.drain()

    async def write_eof(self, chunk: bytes = b"") -> None:
        """See AbstractStreamWriter: returns when everything has been sent."""
        self.send_headers(ends=not chunk)
        if not self._output.is_done:
            self.output_size += len(chunk)
            self._output.write_last(chunk)
            await self._output.until_taken()

    async def drain(self) -> None:
        """See AbstractStreamWriter. Raises ConnectionResetError if the client has gone."""
        await self._output.until_taken()
        if self._output.is_done:
            raise ConnectionResetError("the client has gone")

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """See AbstractStreamWriter: bodies come compressed, if at all."""

    def enable_chunking(self) -> None:
        """See AbstractStreamWriter: frames are chunks."""
