"""The open connections of the HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from bayplan.apiserver.http.connection import ApiHandler, Connection
from bayplan.apiserver.http.connection_share import ConnectionShare


class ConnectionServer(web.Server):
    """Makes a `Connection` for each client."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], api: ApiHandler, **settings: Any) -> None:
        super().__init__(handler)
        self._handler = api
        self._settings = settings
        self.share: ConnectionShare | None = None
        """Of this process in the connections of several."""

    def __call__(self) -> RequestHandler:
        """The protocol of a new connection."""
        return Connection(self, self._handler, loop=asyncio.get_running_loop(), **self._settings)

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

    def all(self) -> list[Connection]:
        """The open connections, and those that are being closed."""
        return [one for one in self.connections if isinstance(one, Connection)]

    def end(self) -> None:
        """Close all connections at once."""
        for connection, transport in tuple(self._connections.items()):
            assert isinstance(connection, Connection)
            connection.end()
            transport.abort()
