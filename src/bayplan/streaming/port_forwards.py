"""`portforward`: connections to ports of a pod, as kubectl and other clients ask for them.

    SPDY                    a pair of streams for each connection, `data` and `error`, of one `requestID` and `port`
    SPDY in a WebSocket     the same, its bytes in messages (`SPDY/3.1+portforward.k8s.io`), as kubectl does since 1.31
    WebSocket               ports in the query; of the n-th, channel 2n carries the data and 2n+1 errors; each begins with the port

Source: Kubernetes' `kubelet/pkg/cri/streaming/portforward`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Protocol

from aiohttp import WSMsgType, web

from bayplan.streaming.channels import Channels
from bayplan.streaming.interface import Connect, Duplex, StreamError
from bayplan.streaming.serving import while_connected
from bayplan.streaming.spdy import SpdyConnection, SpdyStream
from bayplan.support.clock import Clock
from bayplan.support.web.upgrades import Sent, Upgraded, is_websocket_request

_PROTOCOL: Final = "portforward.k8s.io"
_TUNNELLED: Final = f"SPDY/3.1+{_PROTOCOL}"
_CHANNELS: Final = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
LONGEST_MESSAGE: Final = 1 << 26
"""Bytes of a message from a client."""
_MOST_PORTS: Final = 1 << 16
_CHANNEL_PORTS: Final = 127
"""Ports for which one byte can number the channels."""


class _Way(Protocol):
    """One stream or channel, both ways."""

    async def read(self) -> bytes:
        """See Reader."""

    async def write(self, data: bytes) -> None:
        """See Writer."""

    async def finish(self) -> None:
        """Nothing more will be written."""


async def serve_port_forward(
    http: web.BaseRequest, ports: Sequence[int], connect: Connect, subject: str, clock: Clock
) -> web.StreamResponse:
    """Connect the client to ports until it goes. ports: those that the query names, for WebSockets. subject: the pod, for errors."""
    if is_websocket_request(http):
        return await _over_socket(http, ports, connect, subject)
    offered = [one.strip() for one in ",".join(http.headers.getall("X-Stream-Protocol-Version", [])).split(",")]
    if _PROTOCOL not in offered and offered != [""]:
        text = f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server accepts {_PROTOCOL}"
        return web.Response(status=403, text=text)
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": _PROTOCOL}
    carrier = Upgraded(http, headers, clock)
    await _over_spdy(SpdyConnection(carrier), connect, subject)
    await carrier.close()
    return Sent()


async def _over_socket(
    http: web.BaseRequest, ports: Sequence[int], connect: Connect, subject: str
) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=(_TUNNELLED, *_CHANNELS), compress=False, max_msg_size=LONGEST_MESSAGE)
    if not socket.can_prepare(http).protocol and len(ports) > _CHANNEL_PORTS:
        return web.Response(status=400, text=f"at most {_CHANNEL_PORTS} ports can be forwarded over one WebSocket")
    await socket.prepare(http)
    if socket.ws_protocol == _TUNNELLED:
        await _over_spdy(SpdyConnection(Messages(socket)), connect, subject)
    else:
        channels = Channels(socket, 2 * len(ports))
        await while_connected(channels.run(), _over_channels(channels, ports, connect, subject))
    await socket.close()
    return socket


class Messages:
    """The bytes in the messages of a WebSocket. It is a Carrier."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        """See Carrier."""
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                if message.data:
                    return bytes(message.data)
            elif message.type is not WSMsgType.TEXT:
                return b""

    async def write(self, data: bytes) -> None:
        """See Carrier."""
        await self._socket.send_bytes(data)


async def _over_spdy(connection: SpdyConnection, connect: Connect, subject: str) -> None:
    await while_connected(connection.run(), _serve_pairs(connection, connect, subject))


async def _serve_pairs(connection: SpdyConnection, connect: Connect, subject: str) -> None:
    """Connect each pair of streams, until no further one comes."""
    halves: dict[str, dict[str, SpdyStream]] = {}
    async with asyncio.TaskGroup() as group:
        while (stream := await connection.accept()) is not None:
            headers = stream.headers
            kind, port = headers.get("streamtype", ""), headers.get("port", "")
            if kind not in ("data", "error") or not port.isdecimal() or not 0 < int(port) < _MOST_PORTS:
                with contextlib.suppress(ConnectionError):  # if the client has gone
                    await stream.finish()
                continue
            request = headers.get("requestid") or str(stream.number - (0 if kind == "error" else 2))
            pair = halves.setdefault(request, {})
            pair[kind] = stream
            if len(pair) == 2:
                del halves[request]
                group.create_task(_forward(pair["data"], pair["error"], int(port), connect, subject))


async def _over_channels(channels: Channels, ports: Sequence[int], connect: Connect, subject: str) -> None:
    """Raises ConnectionError if the client goes at once."""
    pairs = [(channels[2 * index], channels[2 * index + 1], port) for index, port in enumerate(ports)]
    for data, error, port in pairs:
        await data.write(port.to_bytes(2, "little"))
        await error.write(port.to_bytes(2, "little"))
    async with asyncio.TaskGroup() as group:
        for data, error, port in pairs:
            group.create_task(_forward(data, error, port, connect, subject))


async def _forward(data: _Way, error: _Way, port: int, connect: Connect, subject: str) -> None:
    """Carry bytes between a client and a port, both ways, until both ends have finished or one has gone."""
    with contextlib.suppress(ConnectionError):  # if the client has gone
        try:
            duplex = await connect(port)
        except StreamError as problem:
            await error.write(f"error forwarding port {port} to pod {subject}: {problem}".encode())
        else:
            try:
                await _carry_both(data, duplex)
            finally:
                await duplex.close()
        await data.finish()
        await error.finish()


async def _carry_both(data: _Way, duplex: Duplex) -> None:
    """Until the port has said all; a client that has may still listen."""
    there = asyncio.create_task(_carry(data, duplex))
    try:
        with contextlib.suppress(ConnectionError):  # if one of them has gone
            await _carry(duplex, data, finishes=False)
    finally:
        there.cancel()
        await asyncio.wait((there,))


async def _carry(source: _Way | Duplex, target: _Way | Duplex, *, finishes: bool = True) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await source.read():
            await target.write(piece)
        if finishes:
            await target.finish()
