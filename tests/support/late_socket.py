"""A socket whose owner is busy: it takes connections at once, and says nothing on them for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

LATE_SECONDS = 0.5


@asynccontextmanager
async def late_socket(socket: Path, server: Path) -> AsyncIterator[None]:
    """Listen at `socket` and forward to `server` each connection that its client still has after LATE_SECONDS."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        received = bytearray()
        try:
            if not await _gives_up(reader, received):
                await _forward(reader, writer, server, bytes(received))
        finally:
            writer.close()
            tasks.discard(task)

    listener = await asyncio.start_unix_server(serve, socket)
    try:
        yield
    finally:
        listener.close()
        running = list(tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _gives_up(reader: asyncio.StreamReader, received: bytearray) -> bool:
    """Collect what the client sends; whether it has closed the connection meanwhile."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LATE_SECONDS):
            while data := await reader.read(1 << 16):
                received += data
            return True
    return False


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Path, received: bytes) -> None:
    """Carry bytes in both directions until one side ends."""
    answers, requests = await asyncio.open_unix_connection(server)
    requests.write(received)
    copies = [asyncio.create_task(_copy(reader, requests)), asyncio.create_task(_copy(answers, writer))]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        requests.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        sink.write(data)
        await sink.drain()
