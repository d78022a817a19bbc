"""`/health`, `/ready` and `/metrics` over HTTP, at the ports where CoreDNS has them."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from bayplan.dns.errors import ListenError
from bayplan.dns.settings import DnsSettings
from bayplan.support.metrics import CONTENT_TYPE, Registry

_OPTIONS = {"/health": "--health-port", "/ready": "--ready-port", "/metrics": "--metrics-port"}


class HttpEndpoints:
    """One HTTP server for each of the three. not_ready: why no answers should be expected yet; "" when they should."""

    def __init__(self, settings: DnsSettings, registry: Registry, not_ready: Callable[[], str]) -> None:
        self._address = settings.bind_address
        self._settings = settings
        self._registry = registry
        self._not_ready = not_ready
        self._runners: list[web.ServerRunner] = []
        self.ports: dict[str, int] = {}
        """Path -> port that it is served at."""

    async def start(self) -> None:
        """Listen. Raises ListenError."""
        settings = self._settings
        for path, port, handler in (
            ("/health", settings.health_port, self._health),
            ("/ready", settings.ready_port, self._ready),
            ("/metrics", settings.metrics_port, self._metrics),
        ):
            if port is not None:
                await self._serve(path, port, handler)

    async def stop(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(self, path: str, port: int, handler: Callable[[], web.Response]) -> None:
        async def handle(request: web.BaseRequest) -> web.Response:
            return handler() if request.path == path else web.Response(status=404, text="404 page not found\n")

        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        self._runners.append(runner)
        try:
            await web.TCPSite(runner, self._address, port).start()
        except OSError as error:
            raise ListenError(
                f"cannot listen on {self._address}:{port} for {path}: {error.strerror or error}; "
                f"choose another port with {_OPTIONS[path]}, or none with {_OPTIONS[path]}=0"
            ) from error
        self.ports[path] = runner.addresses[0][1]

    def _health(self) -> web.Response:
        return web.Response(text="OK")

    def _ready(self) -> web.Response:
        reason = self._not_ready()
        return web.Response(status=503, text=reason) if reason else web.Response(text="OK")

    def _metrics(self) -> web.Response:
        return web.Response(body=self._registry.render(), headers={"Content-Type": CONTENT_TYPE})
