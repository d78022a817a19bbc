"""Several API server processes behind one address, as the main process sees them.

                    main process: starts the others, replaces them, adds up metrics, writes the audit log
                         |                             |                    |
                    owner of the store           API server 0   ...   API server N-1       all listen on the same sockets
                    (SQLite, memory)   <- unix socket ---'-------------------'

`bayplan up --servers N` has N servers in this way, each with an address of its own besides, and N hosts of components that elect who works.

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
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

from bayplan.apiserver.audit.log_backend import LineWriter
from bayplan.apiserver.http.connection_share import ABSENT
from bayplan.apiserver.http.listener import listening_sockets
from bayplan.apiserver.tls import client_tls
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.http import HttpTransport
from bayplan.client.own_kubeconfig import render
from bayplan.cluster.cluster import kubernetes_addresses, listen_error, url_of
from bayplan.cluster.credentials import ClusterCredentials, obtain
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.processes.child_process import PATIENCE, ChildProcess
from bayplan.cluster.processes.executed_server_process import start_fork_server
from bayplan.cluster.processes.fork_server import ForkServer, ForkServerLost
from bayplan.cluster.processes.server_process import GroupPlan, load_modules, work
from bayplan.cluster.questions.what_if import NO_SCHEDULER
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock
from bayplan.support.memory.garbage import collect_seldom
from bayplan.support.metrics.shared_numbers import SharedNumbers
from bayplan.support.metrics.sums import summed_metrics
from bayplan.support.pipe import PipeError

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60.0
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_LONGEST_WITHOUT_STORE: Final = 1.0
"""The longest delay of the owner of the store: all wait for it, and give up after ten seconds."""
_HEALTHY_SECONDS: Final = 30.0
"""A process that has run for so long is replaced after the first delay again."""
_MEMORY: Final = "memory:"
_MOST_SERVERS: Final = 250


class Role(NamedTuple):
    """What a process of the group is."""

    kind: str
    """One of the topics below, which tells the process what to do."""
    number: int = 0

    @property
    def process_name(self) -> str:
        """What it is called in messages."""
        return _NAMES[self.kind].format(self.number)


_API, _COMPONENTS = "serve API", "run components"
_STORE: Final = Role("serve store")
_NAMES: Final = {
    _STORE.kind: "the owner of the store",
    _API: "API server process {}",
    _COMPONENTS: "component process {}",
}


@contextlib.contextmanager
def server_group(
    settings: ClusterSettings,
    processes: int,
    clock: Clock,
    *,
    components: Sequence[str] = (),
    are_separate: bool = False,
) -> Iterator[ServerGroup]:
    """A group that has not started yet; to be called before there is an event loop. All its processes are gone on exit. Raises ClusterError.

    components: what runs besides. are_separate: whether each API server is a server of its own, at an address of loopback, with a host of components that stands for
    election. Otherwise all are one server, and one process runs the components.
    """
    collect_seldom()
    with contextlib.ExitStack() as stack:
        directory = settings.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-")))
        own = _own_addresses(settings, processes) if are_separate else ()
        settings = replace(settings, directory=directory, certificate_addresses=own)
        credentials = obtain(directory, kubernetes_addresses(settings), clock.now())
        if settings.token_signing_key is None:
            credentials.token_signing_key()  # one process makes it for all
        sockets = [stack.enter_context(one) for one in _sockets(settings)]
        memory = os.memfd_create("bayplan-connections")
        stack.callback(os.close, memory)
        port = int(sockets[0].getsockname()[1])
        plan = GroupPlan(
            settings=replace(settings, port=port),
            processes=processes,
            own_addresses=own,
            components=tuple(components),
            url=url_of(settings.bind_address, port),
            sockets=tuple(one.fileno() for one in sockets),
            counts=memory,
            store_socket=store_socket(settings.store, directory),
        )
        made = ServerGroup(plan, ForkServer.forked(load_modules, partial(work, plan=plan)), credentials, sockets, clock)
        stack.callback(made.end_fork_server)
        yield made


def _own_addresses(settings: ClusterSettings, servers: int) -> tuple[str, ...]:
    """An address of loopback for each server, beside the one that all have. Raises ClusterError."""
    if settings.bind_address != "127.0.0.1" or servers > _MOST_SERVERS:
        raise ClusterError("several servers on one machine have addresses of loopback: leave out --bind")
    return tuple(f"127.0.0.{number + 2}" for number in range(servers))


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
        self._children: dict[Role, ChildProcess] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._forking = asyncio.Lock()
        self._audit: LineWriter | None = None
        self._forwards: list[str] = []
        """Those that were set while the group runs, if any were."""
        self._crashed: asyncio.Future[None] | None = None

    @property
    def server_url(self) -> str:
        """Base URL of the API."""
        return self._plan.url

    def kubeconfig(self) -> str:
        """A kubeconfig for the administrator: with a context for each server, if they have addresses of their own."""
        servers = {
            f"server-{number}": url_of(address, self._plan.settings.port)
            for number, address in enumerate(self._plan.own_addresses)
        }
        authority, token = self._credentials.authority.certificate, self._credentials.admin_token
        return render(self.server_url, authority, token, further=servers)

    def client(self) -> Client:
        """A client over HTTPS, as the administrator."""
        tls = client_tls(authority=self._credentials.authority.certificate)
        return Client(HttpTransport(Credentials(self.server_url, tls=tls, token=self._credentials.admin_token)))

    async def start(self) -> None:
        """Start all processes; returns when all serve. Raises ClusterError."""
        self._crashed = asyncio.get_running_loop().create_future()
        self._server.attach()
        audit = self._plan.settings.api.audit
        if audit is not None and audit.log is not None and audit.policy is not None:
            from bayplan.cluster.api_server.auditing import log_lines  # few clusters have one

            self._audit = log_lines(audit.log, self._clock)
        for index in range(self._plan.processes):
            self._counts[index] = ABSENT
        try:
            if self._plan.store_socket is not None:
                await self._start(_STORE)
            await self._start(Role(_API))  # which makes what every cluster has, so that the others find it
            async with asyncio.TaskGroup() as group:
                for number in range(1, self._plan.processes):
                    group.create_task(self._start(Role(_API, number)))
                for number in range(self._hosts):
                    group.create_task(self._start(Role(_COMPONENTS, number)))
        except BaseExceptionGroup as errors:
            await self.stop()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.stop()
            raise

    async def _start(self, role: Role) -> None:
        """Start a process for the first time. Raises ClusterError."""
        try:
            child = await self._launch(role)
        except (PipeError, ForkServerLost, TimeoutError, OSError) as error:
            raise ClusterError(f"{role.process_name} cannot be started: {error or type(error).__name__}") from error
        keeping = self._keep(role, child)
        self._tasks.append(asyncio.get_running_loop().create_task(keeping, name=role.process_name))

    async def _launch(self, role: Role) -> ChildProcess:
        """A process that serves. Raises ClusterError if it cannot with these settings, else PipeError, ForkServerLost, TimeoutError, OSError."""
        async with self._forking:
            if self._server.is_lost:
                self._renew_server()
            end = self._server.fork()
            child = ChildProcess(role.process_name, self._server, await self._server.started(), self._clock)
        try:
            pipe = await child.open(end)
            pipe.request_handlers |= {"metrics of all": self._metrics, "audit": self._write_audit, "ask": self._ask}
            pipe.notification_handlers["forwards changed"] = partial(self._forwards_changed, child)
            async with asyncio.timeout(_START_SECONDS):
                problem = await pipe.call(role.kind, *self._arguments(role))
        except BaseException:
            await child.kill()
            raise
        if problem:
            await child.kill()
            raise ClusterError(problem)
        self._children[role] = child
        return child

    def _arguments(self, role: Role) -> tuple[Any, ...]:
        """What a process is told besides what it is to do."""
        if role.kind == _API:
            return role.number, self._forwards
        return (role.number,) if role.kind == _COMPONENTS else ()

    def _renew_server(self) -> None:
        """Start another fork server in place of one that has ended. Raises OSError."""
        self._server.abandon()
        self._server = start_fork_server(self._plan)
        self._server.attach()

    async def _keep(self, role: Role, child: ChildProcess) -> None:
        """Replace a process whenever it ends."""
        delay = _FIRST_DELAY
        while True:
            started = self._clock.monotonic()
            try:
                reason = await child.ended()
            except ForkServerLost as error:
                reason = f"{error}, and {child.name} with it"
                child.let_go()
            del self._children[role]
            if role == _STORE and self._plan.settings.store == _MEMORY:
                self._crash(ClusterError(f"{reason}: what was kept in memory is lost"))
                return
            if role.kind == _API:
                self._counts[role.number] = ABSENT
            if self._clock.monotonic() - started >= _HEALTHY_SECONDS:
                delay = _FIRST_DELAY
            child, delay = await self._replace(role, reason, delay)
            logger.warning("%s runs again (%d)", child.name, child.pid)

    async def _replace(self, role: Role, reason: str, delay: float) -> tuple[ChildProcess, float]:
        """Try until there is a new process, and the delay before the next one."""
        while True:
            logger.error("%s; it is started again in %.1f s", reason, delay)
            await self._clock.sleep(delay)
            delay = min(2 * delay, _LONGEST_WITHOUT_STORE if role == _STORE else _LONGEST_DELAY)
            try:
                return await self._launch(role), delay
            except (ClusterError, PipeError, ForkServerLost, TimeoutError, OSError) as error:
                reason = f"{role.process_name} cannot be started: {error or type(error).__name__}"

    def _crash(self, error: ClusterError) -> None:
        if self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(error)

    async def wait(self) -> None:
        """Return never; raises ClusterError when the group cannot go on."""
        assert self._crashed is not None
        await asyncio.shield(self._crashed)

    async def _metrics(self) -> bytes:
        """The metrics of all processes that answer, as those of one server."""
        texts = await asyncio.gather(*(child.ask("metrics") for child in self._of_kind(_API, _STORE.kind, _COMPONENTS)))
        return summed_metrics([text for text in texts if text is not None])

    async def _ask(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """The response of the scheduler that runs, wherever it does (see `what_if.respond`)."""
        code, data = NO_SCHEDULER
        for child in self._of_kind(_COMPONENTS):
            with contextlib.suppress(PipeError):
                code, data = await child.pipe.call("what-if", body, namespace, explain)
            if code != HTTPStatus.SERVICE_UNAVAILABLE:
                break
        return code, data

    async def _write_audit(self, lines: Sequence[bytes]) -> Sequence[str]:
        """Write lines of an API server into the audit log: of each, what went wrong."""
        return await self._audit.write(lines) if self._audit is not None else [""] * len(lines)

    @property
    def _hosts(self) -> int:
        """How many processes host components."""
        plan = self._plan
        return (plan.processes if plan.own_addresses else 1) if plan.components else 0

    def _of_kind(self, *kinds: str) -> list[ChildProcess]:
        return [child for role, child in self._children.items() if role.kind in kinds]

    def _forwards_changed(self, source: ChildProcess, forwards: list[str]) -> None:
        """An API server was told of forwards: so are the others."""
        if forwards == self._forwards:
            return
        self._forwards = forwards
        for child in self._of_kind(_API):
            if child is not source:
                child.pipe.notify("forwards", forwards)

    async def stop(self) -> None:
        """Let API servers answer what has come, and end; then the owner of the store. What was acknowledged is kept."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        api = self._plan.settings.api
        patience = PATIENCE + api.shutdown_delay_duration + api.request_timeout
        for kind in (_COMPONENTS, _API, _STORE.kind):  # each needs the next to the end
            stopping = [child.stop(patience) for child in self._of_kind(kind)]
            await asyncio.gather(*stopping, return_exceptions=True)
        self._children.clear()
        if self._audit is not None:
            await self._audit.close()
        if not self._server.is_lost:
            self._server.detach()

    def end_fork_server(self) -> None:
        """End the fork server, and with it all other processes."""
        self._server.close()
        self._counts.close()
