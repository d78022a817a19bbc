"""The client's side of streams, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final

from aiohttp import web

from bayplan.streaming.interface import CommandStreams, StreamError
from bayplan.streaming.spdy_frames import ControlFrame, DataFrame, FrameReader, FrameWriter

_PATIENCE: Final = 60.0
"""Seconds that a test may take."""


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that awaits, as one that pytest can run. What it awaits has to come in time."""

    async def bounded(*arguments: Any, **options: Any) -> None:
        async with asyncio.timeout(_PATIENCE):
            await test(*arguments, **options)

    @functools.wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        asyncio.run(bounded(*arguments, **options))

    return run


class EndlessCommand:
    """A command that goes on for ever."""

    def __init__(self) -> None:
        self.started, self.ended = asyncio.Event(), asyncio.Event()

    async def run(self, streams: CommandStreams) -> int:
        """Go on until this is cancelled."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return 0


@contextlib.asynccontextmanager
async def served(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[int]:
    """The port of a server that answers every request so."""
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class SpdyClient:
    """A client that opens streams, as Kubernetes' do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self.head = head
        """The server's answer to the request for another protocol."""
        self.received: dict[int, bytearray] = {}
        self.finished: set[int] = set()
        self.controls: list[ControlFrame] = []
        self.frames = FrameWriter()
        self._reader, self._writer = reader, writer
        self._frames_read = FrameReader()
        self._number = -1

    @classmethod
    async def connect(cls, port: int, *headers: str) -> SpdyClient:
        """Ask a server to speak SPDY."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = ("POST / HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: SPDY/3.1", *headers, "", "")
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        return cls(reader, writer, head)

    def open(self, **headers: str) -> int:
        """A new stream's number."""
        self._number += 2
        self.received[self._number] = bytearray()
        self._writer.write(self.frames.open(self._number, headers))
        return self._number

    def send(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        """Bytes of a stream."""
        self._writer.write(self.frames.data(stream, data, is_last=is_last))

    def send_raw(self, data: bytes) -> None:
        """Whatever it is."""
        self._writer.write(data)

    async def read_until(self, done: Callable[[], bool]) -> None:
        """Read until something has come."""
        async with asyncio.timeout(10):
            while not done():
                data = await self._reader.read(1 << 16)
                if not data:
                    raise AssertionError(f"the server has closed: {self.received}, {self.controls}")
                for frame in self._frames_read.feed(data):
                    if isinstance(frame, DataFrame):
                        self.received[frame.stream] += frame.data
                        if frame.is_last:
                            self.finished.add(frame.stream)
                    else:
                        self.controls.append(frame)

    async def closed(self) -> None:
        """Return when the server has closed."""
        async with asyncio.timeout(10):
            while await self._reader.read(1 << 16):
                pass

    async def close(self) -> None:
        """Go."""
        self._writer.close()


class Echo:
    """A Duplex that says what it was told."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def read(self) -> bytes:
        return await self._pieces.get()

    async def write(self, data: bytes) -> None:
        await self._pieces.put(data)

    async def finish(self) -> None:
        await self._pieces.put(b"")

    async def close(self) -> None:
        self.closed.set()


async def refuse(port: int) -> Echo:
    """A Connect that reaches nothing."""
    raise StreamError(f"nobody listens at {port}")
