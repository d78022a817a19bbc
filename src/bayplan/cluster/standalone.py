"""One component on its own, against an API server somewhere: health and metrics over HTTP, leader election, orderly stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bayplan.client import Client
from bayplan.client.leader_election import ElectionSettings, EndpointsLock, LeaderElector, LeaseLock, Lock
from bayplan.cluster.errors import ClusterError
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.running import wait_for_stop
from bayplan.support.web.pages import Handler, PageServer, metrics_page, ready_page

_LOCKS: Final[Mapping[str, Callable[[Client, str, str], Lock]]] = {"leases": LeaseLock, "endpoints": EndpointsLock}
"""By the resource that holds the lock."""
ELECTION_RESOURCES: Final = tuple(_LOCKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The lock that a component holds while it works."""

    name: str
    namespace: str = "kube-system"
    resource: str = "leases"
    """What the lock is: `leases`, or `endpoints` as in clusters before 1.14."""
    times: ElectionSettings = field(default_factory=ElectionSettings)


class HealthServer:
    """Serves `/healthz`, `/livez`, `/readyz` and `/metrics` of a component.

    not_ready: why `/readyz` is to fail; "" if it is not. option: the one that names the port, for errors. serves_metrics: whether there is a page of metrics.
    """

    def __init__(
        self,
        metrics: Registry,
        not_ready: Callable[[], str] = lambda: "",
        *,
        option: str = "--secure-port",
        serves_metrics: bool = True,
    ) -> None:
        self._option = option
        pages = dict.fromkeys(("/healthz", "/livez"), ready_page(lambda: ""))
        pages["/readyz"] = ready_page(not_ready)
        self._server = PageServer({**pages, "/metrics": metrics_page(metrics)} if serves_metrics else pages)

    def handle(self, path: str, handler: Handler) -> None:
        """Let something answer the requests for a path."""
        self._server.handlers[path] = handler

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 means not to. Raises ClusterError."""
        if port == 0:
            return
        try:
            await self._server.start(host, port)
        except OSError as error:
            raise ClusterError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another with {self._option}"
            ) from error

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.stop()


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
    """Run a component until told to stop; with `election` only while it holds that lock. Raises what the component raises.

    waits: told who holds the lock that the component waits for.
    """
    if election is not None:
        identity = f"{name}_{randomness.uuid4()}"
        elector = LeaderElector(
            _LOCKS[election.resource](client, election.namespace, election.name),
            identity,
            clock=clock,
            randomness=randomness,
            settings=election.times,
            on_new_leader=lambda leader: waits(leader) if leader not in ("", identity) else None,
        )
        running: Awaitable[None] = elector.run(work)
    else:
        running = work()
    try:
        await wait_for_stop(stop, running)
    finally:
        await health.stop()
        await client.close()
