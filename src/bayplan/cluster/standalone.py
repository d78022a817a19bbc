"""One component on its own, against an API server somewhere: health and metrics over HTTP, leader election, orderly stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from bayplan.client import Client
from bayplan.client.leader_election import ElectionSettings, LeaderElector, LeaseLock
from bayplan.cluster.errors import ClusterError
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.randomness import Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The lease that a component holds while it works."""

    name: str
    namespace: str = "kube-system"
    times: ElectionSettings = field(default_factory=ElectionSettings)


class HealthServer:
    """Serves `/healthz`, `/livez`, `/readyz` and `/metrics` of a component.

    not_ready: why `/readyz` is to fail; "" if it is not. option: the one that names the port, for errors.
    """

    def __init__(
        self, metrics: Registry, not_ready: Callable[[], str] = lambda: "", *, option: str = "--secure-port"
    ) -> None:
        self._metrics = metrics
        self._not_ready = not_ready
        self._option = option
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 means not to. Raises ClusterError."""
        if port == 0:
            return
        runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise ClusterError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another with {self._option}"
            ) from error
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        reason = self._not_ready() if request.path == "/readyz" else ""
        if reason:
            return web.Response(status=503, text=reason)
        if request.path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        if request.path == "/metrics":
            return web.Response(
                body=self._metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
            )
        return web.Response(status=404, text="404 page not found\n")


async def run_component(
    client: Client,
    name: str,
    work: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
    *,
    clock: Clock,
    randomness: Randomness,
    election: Election | None,
    waits: Callable[[str], None],
    health: HealthServer,
) -> None:
    """Run a component until told to stop; with `election` only while it holds that lease. Raises what the component raises.

    waits: told who holds the lease that the component waits for.
    """
    if election is not None:
        identity = f"{name}_{randomness.uuid4()}"
        elector = LeaderElector(
            LeaseLock(client, election.namespace, election.name),
            identity,
            clock=clock,
            randomness=randomness,
            settings=election.times,
            on_new_leader=lambda leader: waits(leader) if leader not in ("", identity) else None,
        )
        running = asyncio.ensure_future(elector.run(work))
    else:
        running = asyncio.ensure_future(work())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, stopping):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await health.stop()
        await client.close()
