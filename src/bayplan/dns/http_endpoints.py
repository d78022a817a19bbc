"""`/health`, `/ready` and `/metrics` over HTTP, at the ports where CoreDNS has them."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.dns.errors import ListenError
from bayplan.dns.settings import DnsSettings
from bayplan.support.metrics.instruments import Registry
from bayplan.support.web.pages import Page, PageServer, metrics_page, ready_page

_OPTIONS = {"/health": "--health-port", "/ready": "--ready-port", "/metrics": "--metrics-port"}


class HttpEndpoints:
    """One HTTP server for each of the three. not_ready: why no answers should be expected yet; "" when they should."""

    def __init__(self, settings: DnsSettings, registry: Registry, not_ready: Callable[[], str]) -> None:
        self._address = settings.bind_address
        self._pages: tuple[tuple[str, int | None, Page], ...] = (
            ("/health", settings.health_port, ready_page(lambda: "", "OK")),
            ("/ready", settings.ready_port, ready_page(not_ready, "OK")),
            ("/metrics", settings.metrics_port, metrics_page(registry)),
        )
        self._servers: list[PageServer] = []
        self.ports: dict[str, int] = {}
        """Path -> port that it is served at."""

    async def start(self) -> None:
        """Listen. Raises ListenError."""
        for path, port, page in self._pages:
            if port is not None:
                await self._serve(path, port, page)

    async def stop(self) -> None:
        """Stop listening."""
        for server in self._servers:
            await server.stop()

    async def _serve(self, path: str, port: int, page: Page) -> None:
        server = PageServer({path: page})
        try:
            self.ports[path] = await server.start(self._address, port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {self._address}:{port} for {path}: {error.strerror or error}; "
                f"choose another port with {_OPTIONS[path]}, or none with {_OPTIONS[path]}=0"
            ) from error
        self._servers.append(server)
