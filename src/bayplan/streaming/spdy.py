"""A SPDY connection on which one end opens streams, over anything that carries bytes.

Kubernetes' clients neither keep nor expect windows (flow control): a stream that nobody reads makes the whole connection wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from bayplan.streaming.pieces import Pieces
from bayplan.streaming.spdy_frames import Control, ControlFrame, DataFrame, FrameReader, FrameWriter, SpdyError

_PIECE: Final = 1 << 15
"""Bytes of a data frame."""
_MOST_STREAMS: Final = 1000
"""Streams of one connection that are open at once."""
_PROTOCOL_ERROR: Final = 1
_REFUSED: Final = 3


class Carrier(Protocol):
    """What carries a connection's bytes."""

    async def read(self) -> bytes:
        """What comes next; b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send, when there is room. Raises ConnectionError."""


class SpdyStream:
    """One stream. It is a Reader and a Writer, and ends each way by itself."""

    def __init__(self, number: int, headers: Mapping[str, str], connection: SpdyConnection) -> None:
        self.number = number
        self.headers = headers
        """Names in small letters."""
        self._connection = connection
        self.is_whole = False
        """Whether the other end has said itself that it sends nothing more: it was not cut off."""
        self._incoming = Pieces()
        self._has_finished = False

    async def read(self) -> bytes:
        """See Reader."""
        return await self._incoming.read()

    async def write(self, data: bytes) -> None:
        """See Writer."""
        if self._has_finished:
            raise ConnectionResetError("the stream is closed")
        for start in range(0, len(data), _PIECE):
            await self._connection.send_data(self.number, data[start : start + _PIECE])

    async def finish(self) -> None:
        """Nothing more will be written. Raises ConnectionError."""
        if not self._has_finished:
            self._has_finished = True
            await self._connection.send_data(self.number, b"", is_last=True)
            self._connection.forget_if_over(self)

    @property
    def is_over(self) -> bool:
        """Whether it has ended both ways."""
        return self._incoming.has_ended and self._has_finished

    async def take(self, data: bytes) -> None:
        """Bytes have come; returns when there is room for more."""
        await self._incoming.take(data)

    def end(self, *, both: bool = False) -> None:
        """The other end sends nothing more; both: it was cut off, and takes nothing more."""
        self.is_whole = self.is_whole or not (both or self._incoming.has_ended)
        self._incoming.end()
        self._has_finished = self._has_finished or both


class SpdyConnection:
    """One end of a connection: the one that accepts streams, or the one that opens them."""

    def __init__(self, carrier: Carrier, *, opens: bool = False) -> None:
        """opens: this end opens the streams, and accepts none."""
        self._carrier = carrier
        self._opens = opens
        self._reader, self._writer = FrameReader(), FrameWriter()
        self._sending = asyncio.Lock()
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._last = 0

    async def accept(self) -> SpdyStream | None:
        """The next stream that the other end opens; None when the connection has ended."""
        stream = await self._opened.get()
        if stream is None:
            self._opened.put_nowait(None)
        return stream

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """Begin a stream, without waiting for the other end to agree. Raises ConnectionError."""
        self._last = self._last + 2 if self._last else 1
        stream = SpdyStream(self._last, headers, self)
        self._streams[stream.number] = stream
        await self._send(self._writer.open(stream.number, headers))
        return stream

    async def run(self) -> None:
        """Read until the other end closes. Raises SpdyError, ConnectionError."""
        try:
            while data := await self._carrier.read():
                for frame in self._reader.feed(data):
                    if isinstance(frame, DataFrame):
                        await self._take_data(frame)
                    elif not await self._take_control(frame):
                        return
        finally:
            for stream in self._streams.values():
                stream.end(both=True)
            self._opened.put_nowait(None)

    async def send_data(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        """Bytes of a stream. Raises ConnectionError."""
        await self._send(self._writer.data(number, data, is_last=is_last))

    async def go_away(self) -> None:
        """Take no further streams. Raises ConnectionError."""
        await self._send(self._writer.go_away(self._last))

    def forget_if_over(self, stream: SpdyStream) -> None:
        """A stream may have ended both ways."""
        if stream.is_over:
            self._streams.pop(stream.number, None)

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self._carrier.write(data)

    async def _take_data(self, frame: DataFrame) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            return  # it has ended on this side
        await stream.take(frame.data)
        if frame.is_last:
            stream.end()
            self.forget_if_over(stream)

    async def _take_control(self, frame: ControlFrame) -> bool:
        """Whether the connection goes on."""
        stream = self._streams.get(frame.number)
        if frame.type == Control.SYN_STREAM:
            await self._open(frame)
        elif frame.type == Control.PING:
            await self._send(self._writer.ping(frame.number))
        elif frame.type == Control.RST_STREAM and stream is not None:
            stream.end(both=True)
            self.forget_if_over(stream)
        elif frame.is_last and stream is not None:
            stream.end()
            self.forget_if_over(stream)
        return frame.type != Control.GOAWAY or bool(self._streams)

    async def _open(self, frame: ControlFrame) -> None:
        number = frame.number
        if self._opens or number <= self._last or number % 2 == 0:
            await self._send(self._writer.reset(number, _PROTOCOL_ERROR))
            raise SpdyError(f"stream {number} cannot follow stream {self._last}")
        self._last = number
        if len(self._streams) >= _MOST_STREAMS:
            await self._send(self._writer.reset(number, _REFUSED))
            return
        stream = SpdyStream(number, frame.headers or {}, self)
        self._streams[number] = stream
        await self._send(self._writer.reply(number))
        if frame.is_last:
            stream.end()
        self._opened.put_nowait(stream)
