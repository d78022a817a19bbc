"""A peer that says over HTTP/2 what a test wants it to say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from hpack import Encoder

from bayplan.support.grpc_client import frames
from bayplan.support.grpc_client.frames import Frame, FrameReader, frame

PATIENCE = 20.0
"""Seconds after which waiting for something that must come is a failure."""


class Peer:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader()
        self._read: list[Frame] = []
        self._encoder = Encoder()
        self._encoder.header_table_size = 0

    async def greet(self, settings: dict[int, int] | None = None) -> None:
        """Take the client's beginning and tell settings."""
        assert await self._reader.readexactly(len(frames.PREFACE)) == frames.PREFACE
        self.send(frames.settings_frame(settings or {}))

    def send(self, *data: bytes) -> None:
        """Send frames."""
        self._writer.write(b"".join(data))

    async def next(self, *kinds: int) -> Frame:
        """The next frame of one of these types that is no acknowledgement; others are skipped. Raises ConnectionError at the end."""
        while True:
            while self._read:
                found = self._read.pop(0)
                acknowledges = found[0] in (frames.SETTINGS, frames.PING) and found[1] & frames.ACK
                if found[0] in kinds and not acknowledges:
                    return found
            async with asyncio.timeout(PATIENCE):
                data = await self._reader.read(65_536)
            if not data:
                raise ConnectionError("the client has closed the connection")
            self._read += self._frames.feed(data)

    async def gone(self) -> None:
        """Return when the client has closed the connection, whatever it sends before."""
        async with asyncio.timeout(PATIENCE):
            while await self._reader.read(65_536):
                pass

    def block(self, *fields: tuple[str, str]) -> bytes:
        """A header block."""
        return bytes(self._encoder.encode(fields))

    def answer(self, stream: int, message: bytes = b"", status: str = "0", text: str = "") -> None:
        """Answer a call as servers of gRPC do."""
        begin = self.block((":status", "200"), ("content-type", "application/grpc"))
        end = self.block(("grpc-status", status), ("grpc-message", text))
        self.send(frame(frames.HEADERS, frames.END_HEADERS, stream, begin))
        if status == "0":
            self.send(frame(frames.DATA, 0, stream, framed(message)))
        self.send(frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, end))


def framed(message: bytes) -> bytes:
    """A message as gRPC sends it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


Script = Callable[[Peer], Awaitable[None]]


@contextlib.asynccontextmanager
async def scripted(*scripts: Script) -> AsyncIterator[str]:
    """The address of a server that plays a script for each connection, the last one again and again. What a script asserts fails the test."""
    failures: list[BaseException] = []
    left = list(scripts)

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await (left.pop(0) if len(left) > 1 else left[0])(Peer(reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        server.close()
    if failures:
        raise failures[0]
