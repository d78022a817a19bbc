"""A few pages over HTTP, such as health and metrics of a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from bayplan.support.memory.memo_metrics import memo_metrics
from bayplan.support.metrics.instruments import CONTENT_TYPE, Registry

Page = Callable[[], web.Response]
Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]
"""Answers requests that have more to say than a path."""


class PageServer:
    """Serves pages by their paths; nothing else is found there."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self.handlers: dict[str, Handler] = {}
        """More of them, by their paths."""
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen. Returns the port, which the system chooses for 0. Raises OSError."""
        self._runner = runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            await self.stop()
            raise
        found: int = runner.addresses[0][1]
        return found

    async def stop(self) -> None:
        """Stop listening, if it does."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        handler = self.handlers.get(request.path)
        if handler is not None:
            return await handler(request)
        page = self._pages.get(request.path)
        return page() if page is not None else web.Response(status=404, text="404 page not found\n")


def metrics_page(registry: Registry) -> Page:
    """A page with all metrics, those of the process's memos included, for Prometheus."""
    return lambda: web.Response(body=registry.render() + memo_metrics(), headers={"Content-Type": CONTENT_TYPE})


def ready_page(not_ready: Callable[[], str], ready: str = "ok") -> Page:
    """A page that says `ready`, or 503 and why not. not_ready: why not; "" if all is well."""

    def page() -> web.Response:
        reason = not_ready()
        return web.Response(status=503, text=reason) if reason else web.Response(text=ready)

    return page
