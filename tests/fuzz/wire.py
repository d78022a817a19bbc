"""Sending requests over HTTPS as bytes, so that everything about them may be wrong, and reading the answers."""

from __future__ import annotations

import asyncio
import enum
import re
import ssl
from dataclasses import dataclass

from benchmarks.load import Target

ANSWER_SECONDS = 30.0
"""A request that has no answer by then is a fault."""
_IDLE_SECONDS = 0.1
"""How long raw bytes may stay without an answer before the connection is given up."""
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")


@dataclass(slots=True)
class Answer:
    """What came back. `code` is 0 if nothing did."""

    code: int
    body: bytes


class Protocol(enum.Enum):
    """What raw bytes are sent over."""

    TCP = "tcp"
    TLS = "tls"
    HTTP2 = "h2"
    """TLS on which both sides have agreed to speak HTTP/2."""


def http2_tls() -> ssl.SSLContext:
    """TLS that offers HTTP/2 and nothing else. It does not look at certificates: the server is that of this process, on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class Connection:
    """One connection at a time; a new one whenever the last was closed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._http2_tls = http2_tls()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = self._reader, self._writer
        if reader is not None and writer is not None and not (writer.is_closing() or reader.at_eof()):
            return reader, writer
        await self.close()
        target = self._target
        opening = asyncio.open_connection(target.host, target.port, ssl=target.tls, server_hostname="localhost")
        opened = await asyncio.wait_for(opening, ANSWER_SECONDS)
        self._reader, self._writer = opened
        return opened

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def ask(self, data: bytes, *, is_head: bool) -> Answer:
        """Send a whole request and read its answer; of one that goes on for long only what is there at once. Raises TimeoutError."""
        for attempt in (1, 2):
            reader, writer = await self._open()
            writer.write(data)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._answer(reader, is_head=is_head)
            except asyncio.LimitOverrunError:
                found = await reader.read(500)
                await self.close()
                return Answer(0, found)
            except (asyncio.IncompleteReadError, ConnectionError):
                await self.close()
                if attempt == 2:  # a kept connection may have been closed before
                    return Answer(0, b"")
        raise AssertionError("unreachable")

    async def _answer(self, reader: asyncio.StreamReader, *, is_head: bool) -> Answer:
        head = await reader.readuntil(b"\r\n\r\n")
        code = int(head[9:12])
        if code == 100:
            return await self._answer(reader, is_head=is_head)
        length = _LENGTH.search(head)
        body = b""
        if is_head or code in (204, 304):
            pass
        elif length is not None:
            body = await reader.readexactly(int(length[1]))
        else:
            await self.close()  # a stream, or another protocol
        if b"connection: close" in head.lower():
            await self.close()
        return Answer(code, body)

    async def send_raw(self, data: bytes, protocol: Protocol) -> Answer:
        """Send bytes over a connection of their own and read what comes."""
        target = self._target
        tls = {Protocol.TCP: None, Protocol.TLS: target.tls, Protocol.HTTP2: self._http2_tls}[protocol]
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(
                target.host, target.port, ssl=tls, server_hostname="localhost" if tls is not None else None
            ),
            ANSWER_SECONDS,
        )
        found = b""
        try:
            writer.write(data)
            async with asyncio.timeout(_IDLE_SECONDS):
                found = await reader.read(1 << 16)
        except (TimeoutError, ConnectionError):
            pass  # which is an answer to such bytes, too
        finally:
            writer.transport.abort()
        code = int(found[9:12]) if found.startswith(b"HTTP/1.") and found[9:12].isdigit() else 0
        return Answer(code, found.partition(b"\r\n\r\n")[2])
