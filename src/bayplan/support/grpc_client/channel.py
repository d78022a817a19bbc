"""gRPC over TCP, with or without TLS: unary calls and streams, over a connection that is made when it is needed and again whenever it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from typing import Any, Final

from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.support.grpc.types import Metadata
from bayplan.support.grpc_client.calls import StreamingCall, UnaryCall
from bayplan.support.grpc_client.connection import Http2Connection
from bayplan.support.grpc_client.headers import request_block
from bayplan.support.web.tls_files import TlsFiles

_CONNECT_SECONDS: Final = 2.0
_PAUSE: Final = 0.1
"""Seconds after a connection could not be made within which no other is tried."""
_UNACKNOWLEDGED_SECONDS: Final = 10.0
"""After which the kernel takes a peer for dead that does not acknowledge what was sent."""
_MOST_BLOCKS: Final = 256
"""Header blocks that are kept."""


class GrpcChannel:
    """A connection to `host:port`."""

    def __init__(self, target: str, tls: TlsFiles | None = None, *, clock: Clock) -> None:
        """tls: None for plain text; the files are read for each connection. Raises OSError if one cannot be read."""
        self.target = target
        self._tls = tls
        self._clock = clock
        self._host, _, port = target.rpartition(":")
        self._host, self._port = self._host.strip("[]"), int(port)
        if tls is not None:
            tls.read()
        self._connection: Http2Connection | None = None
        self._connecting: asyncio.Task[Http2Connection | str] | None = None
        self._failed_at = -math.inf
        self._failure = ""
        self._blocks: dict[tuple[str, str, tuple[tuple[str, str], ...]], bytes] = {}
        self._closed = False

    async def call(self, method: str, request: Any, response: type[Any], *, seconds: float, metadata: Metadata) -> Any:
        """See Channel. Raises UnsentError if the peer has not seen the request."""
        connection = self._connection
        if connection is None or not connection.usable:
            started = self._clock.monotonic()
            connection = await self._connected()
            seconds = max(0.001, seconds - (self._clock.monotonic() - started))
        call = UnaryCall(self._block(method, _timeout(seconds), metadata), asyncio.get_running_loop().create_future())
        connection.start(call, _framed(request), last=True)
        timer = self._clock.call_later(seconds, self._expire, connection, call)
        try:
            data = await call.future
        finally:
            timer.cancel()
            if not call.ended:
                connection.cancel(call)
        return _parsed(response, data)

    def duplex(self, method: str, request: type[Any], response: type[Any], *, metadata: Metadata) -> GrpcStream:
        """See Channel."""
        return GrpcStream(self._started(StreamingCall(self._block(method, "", metadata)), b"", last=False), response)

    def stream(self, method: str, request: Any, response: type[Any], *, metadata: Metadata) -> GrpcStream:
        """See Channel."""
        call = StreamingCall(self._block(method, "", metadata))
        return GrpcStream(self._started(call, _framed(request), last=True), response)

    async def close(self) -> None:
        """See Channel."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort(f"the connection to {self.target} was closed")

    async def _started(self, call: StreamingCall, data: bytes, *, last: bool) -> tuple[Http2Connection, StreamingCall]:
        connection = await self._connected()
        connection.start(call, data, last=last)
        return connection, call

    def _expire(self, connection: Http2Connection, call: UnaryCall) -> None:
        kind = RpcError if call.stream else UnsentError  # it has started, or waits to
        if not call.future.done():
            call.future.set_exception(kind("DEADLINE_EXCEEDED", "Deadline Exceeded"))

    def _block(self, method: str, timeout: str, metadata: Metadata) -> bytes:
        key = (method, timeout, tuple(metadata))
        found = self._blocks.get(key)
        if found is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            scheme = "http" if self._tls is None else "https"
            found = self._blocks[key] = request_block(self.target, scheme, method, timeout, metadata)
        return found

    async def _connected(self) -> Http2Connection:
        """The connection, which all who ask meanwhile share. Raises UnsentError."""
        connection = self._connection
        if connection is not None and connection.usable:
            return connection
        if self._closed:
            raise UnsentError("UNAVAILABLE", f"the connection to {self.target} was closed")
        if self._clock.monotonic() - self._failed_at < _PAUSE:
            raise UnsentError("UNAVAILABLE", self._failure)
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        connecting = self._connecting
        try:
            made = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if not connecting.cancelled():
                raise
            made = f"the connection to {self.target} was closed"
        if isinstance(made, str):
            raise UnsentError("UNAVAILABLE", made)
        return made

    async def _connect(self) -> Http2Connection | str:
        """A new connection, or why there is none."""
        try:
            made = await self._dial()
        except TimeoutError:
            self._failure = f"no connection to {self.target} within {_CONNECT_SECONDS:g} seconds"
        except OSError as error:
            self._failure = f"no connection to {self.target}: {error.strerror or error}"
        except RpcError as error:
            self._failure = f"no connection to {self.target}: {error.message}"
        else:
            self._connection, self._failed_at = made, -math.inf
            return made
        finally:
            self._connecting = None
        self._failed_at = self._clock.monotonic()
        return self._failure

    async def _dial(self) -> Http2Connection:
        loop, clock = asyncio.get_running_loop(), self._clock
        made: Http2Connection | None = None
        context = None if self._tls is None else _context(self._tls)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                transport, made = await loop.create_connection(
                    lambda: Http2Connection(clock),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._host if context else None,
                )
                _keep_watch(transport)
                await made.ready
        except BaseException:
            if made is not None:
                made.close()
            raise
        return made


class GrpcStream:
    """A stream that begins as soon as there is a connection."""

    def __init__(self, starting: Any, response: type[Any]) -> None:
        """starting: the coroutine that gives the connection and the call."""
        self._starting: asyncio.Task[tuple[Http2Connection, StreamingCall]] = asyncio.get_running_loop().create_task(
            starting
        )
        self._starting.add_done_callback(_noticed)
        self._response = response

    async def _running(self) -> tuple[Http2Connection, StreamingCall]:
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if not self._starting.cancelled():
                raise
            raise RpcError("UNAVAILABLE", "the stream has ended") from None

    async def send(self, message: Any) -> None:
        """See Stream."""
        connection, call = await self._running()
        if call.ended:
            raise call.failure
        connection.send(call, _framed(message), last=False)
        await call.drained.wait()

    async def receive(self) -> Any | None:
        """See Stream."""
        _, call = await self._running()
        data = await call.next()
        return None if data is None else _parsed(self._response, data)

    def cancel(self) -> None:
        """See Stream."""
        if not self._starting.done():
            self._starting.cancel()
        elif not self._starting.cancelled() and self._starting.exception() is None:
            connection, call = self._starting.result()
            if not call.ended:
                connection.cancel(call)


def _noticed(task: asyncio.Task[Any]) -> None:
    """Whoever sends or receives learns why the stream did not begin; nobody has to."""
    if not task.cancelled():
        task.exception()


def _framed(message: Any) -> bytes:
    """A message as gRPC sends it: not compressed, its length, then itself."""
    data: bytes = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


def _parsed(response: type[Any], data: bytes) -> Any:
    try:
        return response.FromString(data)
    except Exception as error:  # whatever the class raises
        raise RpcError("INTERNAL", f"grpc: failed to unmarshal the received message: {error}") from error


def _timeout(seconds: float) -> str:
    """A time limit in gRPC's format, rounded up so that limits repeat."""
    return f"{math.ceil(seconds)}S" if seconds > 0.5 else f"{max(1, math.ceil(seconds * 1000))}m"


def _context(tls: TlsFiles) -> ssl.SSLContext:
    """Raises OSError."""
    context = ssl.create_default_context(cafile=tls.authority or None)
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key or None)
    context.set_alpn_protocols(["h2"])
    return context


def _keep_watch(transport: asyncio.BaseTransport) -> None:
    """Let the kernel notice a peer that is gone."""
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_UNACKNOWLEDGED_SECONDS * 1000))
