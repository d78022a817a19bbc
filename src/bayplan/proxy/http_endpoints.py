"""What the proxy says over HTTP, at kube-proxy's ports and paths: health, mode, configuration, metrics."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from bayplan.proxy.configuration import KubeProxyConfiguration
from bayplan.proxy.errors import ListenError
from bayplan.proxy.health import ProxyHealth
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.support.clock import Clock
from bayplan.support.configuration import to_tree
from bayplan.support.metrics.instruments import Counter, Family, Registry
from bayplan.support.web.pages import Page, PageServer, metrics_page

logger = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 5.0
"""After which an address that is taken is tried again."""
_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


class HttpEndpoints:
    """Two servers: health for load balancers and kubelets, and metrics for this machine."""

    def __init__(
        self,
        configuration: KubeProxyConfiguration,
        health: ProxyHealth,
        registry: Registry,
        metrics: ProxyMetrics,
        clock: Clock,
    ) -> None:
        self._hard_fail = configuration.bind_address_hard_fail
        self._configuration = configuration
        self._health = health
        self._registry = registry
        self._metrics = metrics
        self._clock = clock
        self._servers: list[PageServer] = []
        self._retries: list[asyncio.Task[None]] = []
        self.ports: dict[str, int] = {}
        """healthz, metrics -> port that it is served at."""

    async def start(self) -> None:
        """Listen. Raises ListenError, unless an address that is taken is to be tried again later (`bindAddressHardFail`)."""
        configuration = self._configuration
        health = {"/healthz": self._healthz, "/livez": self._livez}
        metrics = {
            "/healthz": lambda: web.Response(text="ok"),
            "/metrics": metrics_page(self._registry),
            "/proxyMode": lambda: web.Response(text=configuration.mode, headers=_HEADERS),
            "/configz": self._configz,
        }
        await self._serve("healthz", configuration.healthz_bind_address, health)
        await self._serve("metrics", configuration.metrics_bind_address, metrics)

    async def stop(self) -> None:
        """Stop listening."""
        for task in self._retries:
            task.cancel()
        await asyncio.gather(*self._retries, return_exceptions=True)
        for server in self._servers:
            await server.stop()

    async def _serve(self, name: str, address: str, pages: Mapping[str, Page]) -> None:
        if not address:
            return
        try:
            await self._listen(name, address, pages)
        except ListenError as error:
            if self._hard_fail:
                raise
            logger.error("%s", error)
            self._retries.append(asyncio.create_task(self._listen_later(name, address, pages)))

    async def _listen_later(self, name: str, address: str, pages: Mapping[str, Page]) -> None:
        while True:
            await self._clock.sleep(_RETRY_SECONDS)
            try:
                await self._listen(name, address, pages)
            except ListenError as error:
                logger.error("%s", error)
            else:
                return

    async def _listen(self, name: str, address: str, pages: Mapping[str, Page]) -> None:
        host, _, port = address.rpartition(":")
        server = PageServer(pages)
        try:
            self.ports[name] = await server.start(host.strip("[]"), int(port))
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address} for {name}: {error.strerror or error}; "
                f"choose another address with {name}BindAddress or --{name}-bind-address"
            ) from error
        self._servers.append(server)

    def _healthz(self) -> web.Response:
        return self._answer(*self._health.healthz(), self._metrics.healthz)

    def _livez(self) -> web.Response:
        return self._answer(*self._health.livez(), self._metrics.livez)

    def _answer(self, good: bool, body: dict[str, Any], counted: Family[Counter]) -> web.Response:
        status = 200 if good else 503
        counted.labels(str(status)).inc()
        text = json.dumps(body, separators=(",", ":"))
        return web.Response(status=status, text=text, content_type="application/json", headers=_HEADERS)

    def _configz(self) -> web.Response:
        return web.json_response({"kubeproxy.config.k8s.io": to_tree(self._configuration)})
