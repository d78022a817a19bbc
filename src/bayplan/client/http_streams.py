"""Streams over HTTP: logs that are followed, and commands in containers over WebSockets.

Source: Kubernetes' `v5.channel.k8s.io` (KEP-4006): each message begins with the number of its channel: 0 input, 1 output, 2 errors, 3 the outcome as a Status, 4
sizes of the terminal. Servers that know version 4 only are spoken to in that.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from bayplan.api.types import meta_v1
from bayplan.client.http import HttpTransport

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_INPUT, _OUTPUT, _ERRORS, _OUTCOME, _SIZES = range(5)
_PIECE: Final = 1 << 16


class ExecSession:
    """A command that runs in a container, with a terminal. Iterate over what it prints; then `outcome` says how it ended."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.outcome = "the connection to the container broke"
        """Why it ended; "" if the command succeeded."""

    async def send(self, data: bytes) -> None:
        """What is typed. Raises ConnectionError."""
        await self._socket.send_bytes(bytes((_INPUT,)) + data)

    async def resize(self, columns: int, rows: int) -> None:
        """The terminal has another size. Raises ConnectionError."""
        await self._socket.send_bytes(bytes((_SIZES,)) + msgspec.json.encode({"Width": columns, "Height": rows}))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel in (_OUTPUT, _ERRORS) and data:
                yield data
            elif channel == _OUTCOME:
                self.outcome = _outcome(data)

    async def close(self) -> None:
        """End it, as a terminal that is closed."""
        await self._socket.close()


def _outcome(data: bytes) -> str:
    with contextlib.suppress(msgspec.DecodeError):
        status = msgspec.json.decode(data, type=meta_v1.Status)
        return "" if status.status == "Success" else status.message
    return data.decode(errors="replace")


class HttpStreams:
    """Opens streams of one cluster as one user."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    async def exec(self, path: str, command: Sequence[str], container: str = "") -> ExecSession:
        """Run a command in a container, with a terminal. path: of the pod's subresource `exec`. Raises ApiError, TransportError."""
        query = [("stdin", "true"), ("stdout", "true"), ("tty", "true"), *(("command", part) for part in command)]
        query += [("container", container)] if container else []
        return ExecSession(await self._transport.open_socket(path, query, _PROTOCOLS))

    async def text(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """What a path answers, piece by piece, for as long as it does. Raises ApiError, TransportError."""
        response = await self._transport.open_text(path, query)
        try:
            async for piece in response.content.iter_chunked(_PIECE):
                yield piece
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


def streams_of(transport: Any) -> HttpStreams | None:
    """Streams of a transport; None if it is none over HTTP."""
    return HttpStreams(transport) if isinstance(transport, HttpTransport) else None
