"""Several API server processes behind one address, as the main process sees them.

                    main process: starts the others, replaces them, adds up metrics, writes the audit log
                         |                             |                    |
                    owner of the store           API server 0   ...   API server N-1       all listen on the same sockets
                    (SQLite, memory)   <- unix socket ---'-------------------'

With etcd there is no owner: each API server reaches etcd by itself. A process that ends is replaced, after a delay that doubles with each time; clients of an API
server that ends connect to another one at once, and API servers whose store has ended wait for the next owner. What was in memory ends with its owner, and the
whole group with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from bayplan.apiserver.audit.log_backend import LineWriter
from bayplan.apiserver.http.connection_share import ABSENT
from bayplan.apiserver.http.listener import listening_sockets
from bayplan.client.own_kubeconfig import render
from bayplan.cluster.child_process import PATIENCE, ChildProcess
from bayplan.cluster.cluster import kubernetes_addresses, listen_error, url_of
from bayplan.cluster.credentials import ClusterCredentials, obtain
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.executed_server_process import start_fork_server
from bayplan.cluster.fork_server import ForkServer, ForkServerLost
from bayplan.cluster.server_process import GroupPlan, load_modules, work
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock
from bayplan.support.garbage import collect_seldom
from bayplan.support.metrics_sum import summed_metrics
from bayplan.support.pipe import PipeError
from bayplan.support.shared_numbers import SharedNumbers

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60.0
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 30.0
_HEALTHY_SECONDS: Final = 60.0
"""A process that has run for so long is replaced after the first delay again."""
_MEMORY: Final = "memory:"
_STORE: Final = -1
"""The number of the process that owns the store."""


@contextlib.contextmanager
def server_group(settings: ClusterSettings, processes: int, clock: Clock) -> Iterator[ServerGroup]:
    """A group that has not started yet; to be called before there is an event loop. All its processes are gone on exit. Raises ClusterError."""
    collect_seldom()
    with contextlib.ExitStack() as stack:
        directory = settings.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-")))
        settings = replace(settings, directory=directory)
        credentials = obtain(directory, kubernetes_addresses(settings), clock.now())
        if settings.token_signing_key is None:
            credentials.token_signing_key()  # one process makes it for all
        sockets = [stack.enter_context(one) for one in _sockets(settings)]
        memory = os.memfd_create("bayplan-connections")
        stack.callback(os.close, memory)
        plan = GroupPlan(
            settings=replace(settings, port=int(sockets[0].getsockname()[1])),
            processes=processes,
            sockets=tuple(one.fileno() for one in sockets),
            counts=memory,
            store_socket=store_socket(settings.store, directory),
        )
        made = ServerGroup(plan, ForkServer.forked(load_modules, partial(work, plan=plan)), credentials, sockets, clock)
        stack.callback(made.end_fork_server)
        yield made


def _sockets(settings: ClusterSettings) -> list[socket.socket]:
    """On all addresses, the same port. Raises ClusterError."""
    found: list[socket.socket] = []
    port = settings.port
    for host in (settings.bind_address, *settings.further_addresses):
        try:
            found += listening_sockets(host, port)
        except OSError as error:
            for one in found:
                one.close()
            raise listen_error(f"{host}:{port}", error) from error
        port = int(found[0].getsockname()[1])
    return found


def store_socket(store: str, directory: Path) -> Path | None:
    """Where the owner of a store is reached; None for etcd, which is reached over the network by all."""
    scheme, _, path = store.partition(":")
    if scheme == "sqlite":
        return Path(f"{path}.socket").absolute()
    return directory.absolute() / "memory.socket" if scheme == "memory" else None


class ServerGroup:
    """All processes of the group."""

    def __init__(
        self,
        plan: GroupPlan,
        server: ForkServer,
        credentials: ClusterCredentials,
        sockets: Sequence[socket.socket],
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._server = server
        self._credentials = credentials
        self._sockets = sockets
        self._clock = clock
        self._counts = SharedNumbers(plan.counts, plan.processes)
        self._children: dict[int, ChildProcess] = {}
        """By number; `_STORE` is the owner of the store."""
        self._tasks: list[asyncio.Task[None]] = []
        self._forking = asyncio.Lock()
        self._audit: LineWriter | None = None
        self._forwards: list[str] = []
        """Those that were set while the group runs, if any were."""
        self._crashed: asyncio.Future[None] | None = None

    @property
    def server_url(self) -> str:
        """Base URL of the API."""
        return url_of(self._plan.settings.bind_address, self._plan.settings.port)

    def kubeconfig(self) -> str:
        """A kubeconfig for the administrator."""
        return render(self.server_url, self._credentials.authority.certificate, self._credentials.admin_token)

    async def start(self) -> None:
        """Start all processes; returns when all serve. Raises ClusterError."""
        self._crashed = asyncio.get_running_loop().create_future()
        self._server.attach()
        audit = self._plan.settings.api.audit
        if audit is not None and audit.log is not None and audit.policy is not None:
            from bayplan.cluster.auditing import log_lines  # few clusters have one

            self._audit = log_lines(audit.log, self._clock)
        for index in range(self._plan.processes):
            self._counts[index] = ABSENT
        try:
            if self._plan.store_socket is not None:
                await self._start(_STORE)
            await self._start(0)  # which makes what every cluster has, so that the others find it
            async with asyncio.TaskGroup() as group:
                for index in range(1, self._plan.processes):
                    group.create_task(self._start(index))
        except BaseExceptionGroup as errors:
            await self.stop()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.stop()
            raise

    async def _start(self, index: int) -> None:
        """Start a process for the first time. Raises ClusterError."""
        try:
            child = await self._launch(index)
        except (PipeError, ForkServerLost, TimeoutError, OSError) as error:
            raise ClusterError(f"{_name(index)} cannot be started: {error or type(error).__name__}") from error
        keeping = self._keep(index, child)
        self._tasks.append(asyncio.get_running_loop().create_task(keeping, name=_name(index)))

    async def _launch(self, index: int) -> ChildProcess:
        """A process that serves. Raises ClusterError if it cannot with these settings, else PipeError, ForkServerLost, TimeoutError, OSError."""
        async with self._forking:
            if self._server.is_lost:
                self._renew_server()
            end = self._server.fork()
            child = ChildProcess(_name(index), self._server, await self._server.started(), self._clock)
        try:
            pipe = await child.open(end)
            pipe.request_handlers |= {"metrics of all": self._metrics, "audit": self._write_audit}
            pipe.notification_handlers["forwards changed"] = partial(self._forwards_changed, child)
            async with asyncio.timeout(_START_SECONDS):
                serving = pipe.call("serve store") if index == _STORE else pipe.call("serve API", index, self._forwards)
                problem = await serving
        except BaseException:
            await child.kill()
            raise
        if problem:
            await child.kill()
            raise ClusterError(problem)
        self._children[index] = child
        return child

    def _renew_server(self) -> None:
        """Start another fork server in place of one that has ended. Raises OSError."""
        self._server.abandon()
        self._server = start_fork_server(self._plan)
        self._server.attach()

    async def _keep(self, index: int, child: ChildProcess) -> None:
        """Replace a process whenever it ends."""
        delay = _FIRST_DELAY
        while True:
            started = self._clock.monotonic()
            try:
                reason = await child.ended()
            except ForkServerLost as error:
                reason = f"{error}, and {child.name} with it"
                child.let_go()
            del self._children[index]
            if index == _STORE and self._plan.settings.store == _MEMORY:
                self._crash(ClusterError(f"{reason}: what was kept in memory is lost"))
                return
            if index != _STORE:
                self._counts[index] = ABSENT
            if self._clock.monotonic() - started >= _HEALTHY_SECONDS:
                delay = _FIRST_DELAY
            child, delay = await self._replace(index, reason, delay)
            logger.warning("%s runs again (%d)", child.name, child.pid)

    async def _replace(self, index: int, reason: str, delay: float) -> tuple[ChildProcess, float]:
        """Try until there is a new process, and the delay before the next one."""
        while True:
            logger.error("%s; it is started again in %.1f s", reason, delay)
            await self._clock.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            try:
                return await self._launch(index), delay
            except (ClusterError, PipeError, ForkServerLost, TimeoutError, OSError) as error:
                reason = f"{_name(index)} cannot be started: {error or type(error).__name__}"

    def _crash(self, error: ClusterError) -> None:
        if self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(error)

    async def wait(self) -> None:
        """Return never; raises ClusterError when the group cannot go on."""
        assert self._crashed is not None
        await asyncio.shield(self._crashed)

    async def _metrics(self) -> bytes:
        """The metrics of all processes that answer, as those of one server."""
        texts = await asyncio.gather(*(child.ask("metrics") for child in tuple(self._children.values())))
        return summed_metrics([text for text in texts if text is not None])

    async def _write_audit(self, lines: Sequence[bytes]) -> Sequence[str]:
        """Write lines of an API server into the audit log: of each, what went wrong."""
        return await self._audit.write(lines) if self._audit is not None else [""] * len(lines)

    def _forwards_changed(self, source: ChildProcess, forwards: list[str]) -> None:
        """An API server was told of forwards: so are the others."""
        if forwards == self._forwards:
            return
        self._forwards = forwards
        for child in self._children.values():
            if child is not source:
                child.pipe.notify("forwards", forwards)

    async def stop(self) -> None:
        """Let API servers answer what has come, and end; then the owner of the store. What was acknowledged is kept."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        api = self._plan.settings.api
        patience = PATIENCE + api.shutdown_delay_duration + api.request_timeout
        servers = [child for index, child in self._children.items() if index != _STORE]
        await asyncio.gather(*(child.stop(patience) for child in servers), return_exceptions=True)
        if _STORE in self._children:
            with contextlib.suppress(ForkServerLost):
                await self._children[_STORE].stop()
        self._children.clear()
        if self._audit is not None:
            await self._audit.close()
        if not self._server.is_lost:
            self._server.detach()

    def end_fork_server(self) -> None:
        """End the fork server, and with it all other processes."""
        self._server.close()
        self._counts.close()


def _name(index: int) -> str:
    """What a process is called."""
    return "the owner of the store" if index == _STORE else f"API server process {index}"
