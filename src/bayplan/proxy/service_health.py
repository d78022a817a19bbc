"""Servers that load balancers ask whether this node has endpoints of a service (`healthCheckNodePort`), one for each service of external policy Local."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web

from bayplan.proxy.rules.desired_table import ServiceKey

logger = logging.getLogger(__name__)


class _Server:
    """One service's server. count: ready endpoints on this node."""

    def __init__(self, key: ServiceKey, port: int, is_healthy: Callable[[], bool]) -> None:
        self.port = port
        self.count = 0
        self._key = key
        self._is_healthy = is_healthy
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None))

    async def start(self, addresses: Sequence[str]) -> None:
        """Listen. Raises OSError."""
        await self._runner.setup()
        try:
            for address in addresses:
                await web.TCPSite(self._runner, address, self.port).start()
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        healthy = self._is_healthy()
        namespace, name = self._key
        body = {
            "service": {"namespace": namespace, "name": name},
            "localEndpoints": self.count,
            "serviceProxyHealthy": healthy,
        }
        return web.Response(
            status=200 if self.count and healthy else 503,
            body=json.dumps(body, indent="\t").encode(),
            headers={
                "Content-Type": "application/json",
                "X-Content-Type-Options": "nosniff",
                "X-Load-Balancing-Endpoint-Weight": str(self.count),
            },
        )


class ServiceHealthServers:
    """The servers of one family. failed: called with a service and why its server cannot listen; it is tried again at the next sync."""

    def __init__(
        self,
        is_healthy: Callable[[], bool],
        addresses: Callable[[], Sequence[str]],
        failed: Callable[[ServiceKey, str], None],
    ) -> None:
        self._is_healthy = is_healthy
        self._addresses = addresses
        self._failed = failed
        self._servers: dict[ServiceKey, _Server] = {}

    async def sync(self, wanted: Mapping[ServiceKey, tuple[int, int]]) -> None:
        """Serve these services, and no others: service -> (port, ready endpoints)."""
        for key, server in list(self._servers.items()):
            if key not in wanted or wanted[key][0] != server.port:
                del self._servers[key]
                await server.stop()
        for key, (port, count) in wanted.items():
            if key not in self._servers and not await self._start(key, port):
                continue
            self._servers[key].count = count

    async def stop(self) -> None:
        """Stop listening."""
        await self.sync({})

    async def _start(self, key: ServiceKey, port: int) -> bool:
        server = _Server(key, port, self._is_healthy)
        try:
            await server.start(self._addresses())
        except OSError as error:
            reason = f"failed to start healthcheck {key[0]}/{key[1]} on port {port}: {error.strerror or error}"
            logger.error("%s", reason)
            self._failed(key, reason)
            return False
        self._servers[key] = server
        return True
