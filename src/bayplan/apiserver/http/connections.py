"""The open connections of the HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from bayplan.apiserver.http.connection import ApiHandler, Connection
from bayplan.apiserver.http.connection_share import ConnectionShare
from bayplan.apiserver.http.exchange import OpenConnection
from bayplan.support.clock import Clock

if TYPE_CHECKING:
    from bayplan.apiserver.http.http2.connection import Http2Connection
    from bayplan.apiserver.http.http2.settings import Http2Metrics, Http2Settings


class ConnectionServer(web.Server):
    """Makes a `Connection` for each client, or an `Http2Connection` if the client and the settings want it."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Any],
        api: ApiHandler,
        clock: Clock,
        http2: Http2Settings | None,
        **settings: Any,
    ) -> None:
        """http2: how HTTP/2 is spoken; None if it is not."""
        super().__init__(handler)
        self._handler = api
        self._respond = handler
        self._clock = clock
        self._http2 = http2
        self._settings = settings
        self._http2_connections: dict[Http2Connection, asyncio.Transport] = {}
        self.http2_metrics: Http2Metrics | None = None
        """Where HTTP/2 is measured; to be set if it is spoken."""
        self.share: ConnectionShare | None = None
        """Of this process in the connections of several."""

    def protocol(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        if self._http2 is None:
            return self()
        from bayplan.apiserver.http.http2.negotiation import Negotiated

        return Negotiated(self, self._make_http2)

    def __call__(self) -> RequestHandler:
        """The protocol of a new connection that speaks HTTP/1.1."""
        return Connection(self, self._handler, loop=asyncio.get_running_loop(), **self._settings)

    def _make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        """See web.Server."""
        assert isinstance(protocol, Connection)
        if protocol.method is not None:
            message = message._replace(method=protocol.method)
        return super()._make_request(message, payload, protocol, writer, task)

    def _make_http2(self) -> asyncio.Protocol:
        from bayplan.apiserver.http.http2.connection import Http2Connection

        assert self._http2 is not None
        assert self.http2_metrics is not None
        return Http2Connection(self._handler, self._respond, self, self._clock, self._http2, self.http2_metrics)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """See web.Server."""
        super().connection_made(handler, transport)
        if self.share is not None:
            self.share.opened()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """See web.Server."""
        if self.share is not None and handler in self._connections:
            self.share.closed()
        super().connection_lost(handler, exc)

    def http2_opened(self, connection: Http2Connection, transport: asyncio.Transport) -> None:
        """A client has come."""
        self._http2_connections[connection] = transport
        if self.share is not None:
            self.share.opened()

    def http2_closed(self, connection: Http2Connection) -> None:
        """It has gone."""
        if self._http2_connections.pop(connection, None) is not None and self.share is not None:
            self.share.closed()

    @property
    def http2_count(self) -> int:
        """Connections that speak HTTP/2."""
        return len(self._http2_connections)

    def all(self) -> list[OpenConnection]:
        """The open connections, and those that are being closed."""
        return [*(one for one in self.connections if isinstance(one, Connection)), *self._http2_connections]

    def check_http2_timeouts(self, body_seconds: float, read_seconds: float) -> None:
        """Go on with requests whose bodies do not come, and cut off clients that do not read, after so many seconds."""
        for connection in tuple(self._http2_connections):
            connection.check_timeouts(body_seconds, read_seconds)

    def leave(self) -> None:
        """Announce the end to clients whom that can be told beside their answers."""
        for connection in tuple(self._http2_connections):
            connection.leave()

    def end(self) -> None:
        """Close all connections at once."""
        opened: list[tuple[Any, asyncio.Transport]] = [*self._connections.items(), *self._http2_connections.items()]
        for connection, transport in opened:
            connection.end()
            transport.abort()
