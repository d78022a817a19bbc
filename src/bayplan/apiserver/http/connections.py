"""The open connections of the HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from bayplan.apiserver.http.connection import ApiHandler, Connection


class ConnectionServer(web.Server):
    """Makes a `Connection` for each client."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], api: ApiHandler, **settings: Any) -> None:
        super().__init__(handler)
        self._handler = api
        self._settings = settings

    def __call__(self) -> RequestHandler:
        """The protocol of a new connection."""
        return Connection(self, self._handler, loop=asyncio.get_running_loop(), **self._settings)

    def all(self) -> list[Connection]:
        """The open connections, and those that are being closed."""
        return [one for one in self.connections if isinstance(one, Connection)]

    def end(self) -> None:
        """Close all connections at once."""
        for connection, transport in tuple(self._connections.items()):
            assert isinstance(connection, Connection)
            connection.end()
            transport.abort()
