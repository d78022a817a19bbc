"""What ports of simulated pods lead to: an address that this machine reaches, or a command that reads and writes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from bayplan.kubelet.simulator.answers.objects import ForwardRule
from bayplan.streaming.interface import Duplex, StreamError

_CHUNK = 1 << 15
_CONNECT_SECONDS = 10.0


async def connect_to(rule: ForwardRule) -> Duplex:
    """Raises StreamError."""
    if rule.command:
        try:
            process = await asyncio.create_subprocess_exec(
                *rule.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise StreamError(f"{rule.command[0]} cannot be run: {error}") from error
        assert process.stdout is not None
        assert process.stdin is not None
        return _CommandDuplex(process.stdout, process.stdin, process)
    assert rule.target is not None
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(rule.target.address, rule.target.port)
    except (OSError, TimeoutError) as error:
        where = f"{rule.target.address}:{rule.target.port}"
        raise StreamError(f"failed to dial {where}: {error or 'no answer in time'}") from error
    return _Duplex(reader, writer)


class _Duplex:
    """A pair of asyncio's streams. It is a Duplex."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """See Duplex."""
        try:
            return await self._reader.read(_CHUNK)
        except OSError:  # it broke off
            return b""

    async def write(self, data: bytes) -> None:
        """See Duplex."""
        self._writer.write(data)
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionResetError(str(error)) from error

    async def finish(self) -> None:
        """See Duplex."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def close(self) -> None:
        """See Duplex."""
        self._writer.close()
        with contextlib.suppress(OSError):  # it was closed by the other end
            await self._writer.wait_closed()


class _CommandDuplex(_Duplex):
    """Input and output of a command."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: asyncio.subprocess.Process
    ) -> None:
        super().__init__(reader, writer)
        self._process = process

    async def close(self) -> None:
        """See Duplex."""
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await super().close()
