"""A process of a group of API servers, as it sees itself: one of the API servers, the owner of the store that they share, or a host of components.

main process                              this process
serve store, serve API (which number),
run components                        ->
                                      <-  metrics of all, lines of the audit log, forwards that were changed
metrics of this one, forwards, stop   ->
ping                                  ->  pong
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from bayplan.apiserver.http.connection_share import ConnectionShare
from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.cluster.cluster import Cluster, kubernetes_addresses
from bayplan.cluster.components import SCHEDULER
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.processes.child_main import name_process, run_child
from bayplan.cluster.processes.group_member import GroupMember
from bayplan.cluster.questions.what_if import NO_SCHEDULER, respond, take
from bayplan.cluster.settings import ClusterSettings
from bayplan.store.errors import StoreError
from bayplan.store.remote.server import StoreServer
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from bayplan.support.memory.memo_metrics import memo_metrics
from bayplan.support.metrics.shared_numbers import SharedNumbers
from bayplan.support.pipe import Pipe, PipeError, open_pipe
from bayplan.support.randomness import SystemRandomness

if TYPE_CHECKING:
    from bayplan.cluster.elected_components import ElectedComponents

logger = logging.getLogger(__name__)

_BEFORE_FORK: Final = ("bayplan.cluster.cluster", "bayplan.store.sqlite.store", "bayplan.store.remote.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What all processes of a group know from their beginning."""

    settings: ClusterSettings
    """Of the whole: `store` is what is kept, and limits are those of all API servers together."""
    processes: int
    """How many processes serve the API."""
    own_addresses: tuple[str, ...] = ()
    """The address of each, if each is a server of its own; none if all are one server."""
    components: tuple[str, ...] = ()
    """What runs besides API servers. If these are servers of their own, as many hosts stand for election; otherwise there is one, without election."""
    url: str = ""
    """Of the address behind which all are."""
    sockets: tuple[int, ...]
    """Descriptors of the listening sockets."""
    counts: int
    """Descriptor of the memory with the number of connections of each."""
    store_socket: Path | None
    """Where the owner of the store is reached; None if each API server reaches the store by itself."""

    def settings_of(self, index: int) -> ClusterSettings:
        """The settings of one API server, which gets its part of what may be worked on at once."""
        api = self.settings.api
        alone = replace(self.settings, run_scheduler=False, descheduler_policy=None)
        store = self.settings.store if self.store_socket is None else f"unix:{self.store_socket}"
        if self.own_addresses:
            return replace(alone, store=store)
        reading = _part(api.max_requests_inflight, self.processes, index)
        changing = _part(api.max_mutating_requests_inflight, self.processes, index)
        api = replace(api, max_requests_inflight=reading, max_mutating_requests_inflight=changing)
        return replace(alone, api=api, store=store)


def _part(limit: int, processes: int, index: int) -> int:
    """The part of one process; 0, which is no limit, stays 0."""
    whole, rest = divmod(limit, processes)
    return max(whole + (index < rest), 1) if limit > 0 else limit


def load_modules() -> None:
    """Load what every process needs, as far as that can be shared."""
    for module in _BEFORE_FORK:
        importlib.import_module(module)


def work(end: socket.socket, plan: GroupPlan) -> NoReturn:
    """What a process of a group does, all its life."""
    run_child("a process of the API server", lambda: _Host(plan).run(end))


class _Host:
    """Runs the store or an API server, as the pipe says."""

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._store: StoreServer | None = None
        self._cluster: Cluster | None = None
        self._components: ElectedComponents | None = None
        self._electing: asyncio.Task[None] | None = None

    async def run(self, end: socket.socket) -> None:
        """Do what the pipe says until it ends."""
        self._pipe: Pipe = await open_pipe(end)
        self._pipe.request_handlers |= {
            "serve store": self._serve_store,
            "serve API": self._serve_api,
            "run components": self._run_components,
            "metrics": self._metrics,
            "what-if": self._what_if,
            "stop": self._stop,
        }
        self._pipe.notification_handlers |= {
            "ping": lambda: self._pipe.notify("pong"),
            "forwards": self._set_forwards,
        }
        await self._pipe.ended()
        await self._stop()

    async def _serve_store(self) -> str:
        """Own the store; what is wrong, if it cannot be opened."""
        name_process("bayplan-store")
        assert self._plan.store_socket is not None
        store = open_store(self._plan.settings.store, clock=SystemClock(), tells_previous=False)
        self._store = StoreServer(store, self._plan.store_socket)
        try:
            await self._store.start()
        except StoreError as error:
            return str(error)
        return ""

    async def _serve_api(self, index: int, forwards: Sequence[str]) -> str:
        """Be an API server; what is wrong, if that is not possible. forwards: those that were set while the group ran, if any were."""
        name_process(f"bayplan-api-{index}")
        plan = self._plan
        counts = SharedNumbers(plan.counts, plan.processes)
        audit = plan.settings.api.audit
        member = GroupMember(
            sockets=[socket.socket(fileno=number) for number in plan.sockets],
            share=ConnectionShare(counts, index),
            leads=index == 0 or bool(plan.own_addresses),
            own_address=plan.own_addresses[index] if plan.own_addresses else "",
            identity=f"{socket.gethostname()}-{index}" if plan.own_addresses else "",
            metrics=partial(self._pipe.call, "metrics of all") if not plan.own_addresses else None,
            audit_lines=_PipedLines(self._pipe) if audit is not None and audit.log is not None else None,
        )
        try:
            self._cluster = cluster = Cluster(plan.settings_of(index), member=member)
            if forwards:
                self._set_forwards(forwards)
            await cluster.start()
        except (ClusterError, StoreError, ValueError) as error:
            return str(error)
        cluster.api.context.services.forwards.on_change(self._forwards_changed)
        if SCHEDULER in plan.components:
            cluster.api.what_if = partial(take, self._ask)
        return ""

    async def _run_components(self, index: int) -> str:
        """Run components, or stand for their election; what is wrong with their settings, if that is so."""
        name_process(f"bayplan-comp-{index}")
        from bayplan.cluster.credentials import obtain
        from bayplan.cluster.elected_components import ElectedComponents

        clock, randomness, settings = SystemClock(), SystemRandomness(), self._plan.settings
        try:
            self._components = components = ElectedComponents(
                settings,
                self._plan.url,
                obtain(settings.directory, kubernetes_addresses(settings), clock.now()),
                f"{socket.gethostname()}-{index}_{randomness.uuid4()}",
                clock=clock,
                randomness=randomness,
            )
        except (ClusterError, ValueError, OSError) as error:
            return str(error)
        running = components.elect if self._plan.own_addresses else components.run
        self._electing = asyncio.get_running_loop().create_task(running(self._plan.components))
        self._electing.add_done_callback(self._election_ended)
        return ""

    def _election_ended(self, electing: asyncio.Task[None]) -> None:
        """A lease was lost, and with it the right to go on: end this process, so that nothing of it writes any more."""
        if not electing.cancelled():
            logger.error("the components end: %s", electing.exception())
            self._pipe.abort()

    def _set_forwards(self, forwards: Sequence[str]) -> None:
        """Another process was told of other forwards."""
        if self._cluster is not None:
            self._cluster.api.context.services.forwards.replace([parse_forward(one) for one in forwards])

    def _forwards_changed(self) -> None:
        if self._cluster is not None:
            forwards = [str(one) for one in self._cluster.api.context.services.forwards.all()]
            self._pipe.notify("forwards changed", forwards)

    async def _ask(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """Have the main process ask the process in which the scheduler runs."""
        try:
            code, data = await self._pipe.call("ask", body, namespace, explain)
        except PipeError:
            return NO_SCHEDULER
        return code, data

    async def _what_if(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """The response of the scheduler that runs here (see `what_if.respond`)."""
        scheduler = self._components.scheduler if self._components is not None else None
        return await respond(scheduler, body, namespace=namespace, explain=explain)

    async def _metrics(self) -> bytes:
        if self._components is not None:
            return self._components.metrics.render() + memo_metrics()
        return await self._cluster.api.own_metrics() if self._cluster is not None else memo_metrics()

    async def _stop(self) -> None:
        components, self._components = self._components, None
        if components is not None and self._electing is not None:
            self._electing.cancel()  # which gives leases back
            await asyncio.wait([self._electing])
            await components.close()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.stop()
        store, self._store = self._store, None
        if store is not None:
            await store.stop()


class _PipedLines:
    """See Lines: the main process writes the file for all."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def write(self, lines: Sequence[bytes]) -> Sequence[str]:
        """See Lines."""
        try:
            problems: Sequence[str] = await self._pipe.call("audit", list(lines))
        except PipeError as error:
            return [str(error)] * len(lines)
        return problems

    async def close(self) -> None:
        """See Lines: the main process closes the file."""
