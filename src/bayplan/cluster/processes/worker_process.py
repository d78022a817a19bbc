"""The second process of a cluster, as the first one sees it: scheduler, controllers and simulated nodes there, API server and store here.

Python uses one CPU per process. The components meet at the API only, so that they need not be where it is:

    who is to run, and what they vouch with  ->
                                             <-  requests and watches (`bayplan.client.piped`), tokens to sign, which components do not run
    ping                                     ->  pong: its event loop turns
    metrics, scheduler, stop                 ->

A component process that ends is replaced, after a delay that doubles with each time; so is one whose event loop does not turn for 15 seconds (`child_process`). Its
successor lists and watches anew and goes on, as after a restart of the cluster: what components know they have from the API. If the fork server ends,
the kernel ends the component process, and another fork server starts the successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.piped import PipedRequests
from bayplan.cluster.components import ANSWERS, SigningCredentials
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.processes.answer_process import AnswerProcess
from bayplan.cluster.processes.child_process import ChildProcess
from bayplan.cluster.processes.component_process import load_modules, work
from bayplan.cluster.processes.executed_fork_server import start_fork_server
from bayplan.cluster.processes.fork_server import ForkServer, ForkServerLost
from bayplan.cluster.questions.what_if import NO_SCHEDULER
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock
from bayplan.support.memory.garbage import collect_seldom
from bayplan.support.pipe import PipeError

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60.0
"""Seconds that a new process gets until its components have started."""
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 30.0
_HEALTHY_SECONDS: Final = 60.0
"""A process that has run for so long is replaced after the first delay again."""


def can_have_one() -> bool:
    """Whether a second process is possible and has a CPU: on Linux, from a process without other threads (which would not be there after the fork)."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


@contextlib.contextmanager
def worker_process(settings: ClusterSettings) -> Iterator[WorkerProcess]:
    """Start the second process; to be called before there is an event loop. It is gone on exit."""
    collect_seldom()
    made = WorkerProcess(ForkServer.forked(load_modules, partial(work, settings=settings)), settings)
    try:
        yield made
    finally:
        made.end_fork_server()


class WorkerProcess:
    """Starts component processes, one after the other, and watches over the present one."""

    def __init__(self, server: ForkServer, settings: ClusterSettings) -> None:
        self._server = server
        self._settings = settings
        self._first: socket.socket | None = server.fork()
        """The end of the first process's socket pair, until that is used."""
        self._process: _ComponentProcess | None = None
        self._answers: AnswerProcess | None = None
        self._watching: asyncio.Task[None] | None = None
        self._forking = asyncio.Lock()
        """Held while a process is asked for, whose pid comes after its socket."""
        self._down = "the component process has not started yet"
        """Why there is no process; "" if there is one."""

    async def start(
        self,
        names: Sequence[str],
        credentials: SigningCredentials,
        endpoint: Callable[[str], InProcessEndpoint],
        clock: Clock,
    ) -> None:
        """Start components. `endpoint` is the way to the API of a user. Raises ClusterError."""
        self._names, self._credentials, self._endpoint, self._clock = names, credentials, endpoint, clock
        self._server.attach()
        try:
            self._process = process = await self._launch()
        except (PipeError, ForkServerLost, TimeoutError, OSError) as error:
            raise ClusterError(f"the component process cannot be started: {error}") from error
        self._down = ""
        self._answers = AnswerProcess(self._launch_answers, self._clock)
        self._watching = asyncio.create_task(self._watch_over(process), name="component process")

    async def _launch(self) -> _ComponentProcess:
        """A new process for the components; see `_launched`."""
        return await self._launched("the component process", self._names)

    async def _launch_answers(self) -> _ComponentProcess:
        """A new process for questions to the scheduler; see `_launched`."""
        return await self._launched("the process for questions", (ANSWERS,))

    async def _launched(self, name: str, components: Sequence[str]) -> _ComponentProcess:
        """A new process whose components have started. Raises ClusterError if their settings are wrong, else PipeError, ForkServerLost, TimeoutError, OSError."""
        async with self._forking:
            end, self._first = self._first or self._server.fork(), None
            process = _ComponentProcess(name, self._server, await self._server.started(), self._clock)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await process.connect(end, self._endpoint, self._credentials.token_signer)
                await process.start(components, self._credentials)
        except BaseException:
            await process.kill()
            raise
        return process

    async def _watch_over(self, process: _ComponentProcess) -> None:
        """Replace processes as they end."""
        delay = _FIRST_DELAY
        while True:
            started = self._clock.monotonic()
            try:
                reason = await process.ended()
            except ForkServerLost as error:
                reason = f"{error}, and the component process with it"
                process.let_go()
            self._process = None
            if self._clock.monotonic() - started >= _HEALTHY_SECONDS:
                delay = _FIRST_DELAY
            process, delay = await self._replace(reason, delay)
            self._process, self._down = process, ""
            logger.warning("a new component process runs (%d)", process.pid)

    def _renew_server(self) -> None:
        """Start another fork server in place of one that has ended. Raises OSError."""
        self._server.abandon()
        self._server = start_fork_server(self._settings)
        self._server.attach()

    async def _replace(self, reason: str, delay: float) -> tuple[_ComponentProcess, float]:
        """Try until there is a new process, and the delay before the next one."""
        while True:
            self._down = f"{reason}; it is started again"
            logger.error("%s; it is started again in %.1f s", reason, delay)
            await self._clock.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            try:
                if self._server.is_lost:
                    self._renew_server()
                return await self._launch(), delay
            except (ClusterError, PipeError, ForkServerLost, TimeoutError, OSError) as error:
                reason = f"the component process cannot be started: {error or type(error).__name__}"

    def failure(self, name: str) -> str:
        """Why a component does not run; "" if it does, as far as is known."""
        if self._process is None:
            return self._down
        return self._process.silence() or self._process.failures.get(name, "")

    async def metrics(self) -> bytes:
        """The components' metrics in Prometheus' text format; none if they do not answer."""
        if self._process is None or self._process.silence():
            return b""
        return await self._process.metrics()

    async def scheduler_state(self) -> dict[str, Any] | None:
        """The scheduler's queue and latest attempts; None if it does not answer."""
        if self._process is None or self._process.silence():
            return None
        return await self._process.scheduler_state()

    async def what_if(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """The scheduler's response to a question (see `what_if.respond`)."""
        found = await self._answers.ask(body, namespace, explain) if self._answers is not None else None
        if found is not None:
            return found
        if self._process is None or self._process.silence():
            return NO_SCHEDULER
        return await self._process.what_if(body, namespace, explain)

    async def close(self) -> None:
        """End the components."""
        if self._watching is None:
            return
        if self._answers is not None:
            await self._answers.close()
        self._watching.cancel()
        await asyncio.wait([self._watching])
        process, self._process, self._watching = self._process, None, None
        if process is not None:
            with contextlib.suppress(ForkServerLost):  # then the kernel has ended the process
                await process.stop()
        if not self._server.is_lost:
            self._server.detach()

    def end_fork_server(self) -> None:
        """End the fork server, and with it the process."""
        if self._first is not None:
            self._first.close()
        self._server.close()


class _ComponentProcess(ChildProcess):
    """One component process and the pipe to it."""

    def __init__(self, name: str, server: ForkServer, pid: int, clock: Clock) -> None:
        super().__init__(name, server, pid, clock)
        self.failures: Mapping[str, str] = {}
        """Why components do not run, by name."""
        self._requests: PipedRequests | None = None

    async def connect(
        self,
        end: socket.socket,
        endpoint: Callable[[str], InProcessEndpoint],
        signer: Callable[[dict[str, Any]], Any] | None,
    ) -> None:
        """Open the pipe. Raises OSError."""
        pipe = await self.open(end)
        self._requests = PipedRequests(pipe, endpoint)
        pipe.notification_handlers["failures"] = self._failed
        if signer is not None:
            pipe.request_handlers["sign"] = signer

    async def start(self, names: Sequence[str], credentials: SigningCredentials) -> None:
        """Start components. Raises ClusterError, PipeError."""
        authority = credentials.authority
        vouches = {
            "root_ca": credentials.root_ca,
            "signs": credentials.token_signer is not None,
            "authority": (authority.certificate, authority.key) if authority is not None else None,
        }
        problem = await self.pipe.call("start", names, vouches)
        if problem:
            raise ClusterError(problem)

    def _failed(self, failures: Mapping[str, str]) -> None:
        self.failures = failures

    async def metrics(self) -> bytes:
        """See WorkerProcess."""
        return await self.ask("metrics") or b""

    async def scheduler_state(self) -> dict[str, Any] | None:
        """See WorkerProcess."""
        state: dict[str, Any] | None = await self.ask("scheduler")
        return state

    async def what_if(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """See WorkerProcess."""
        try:
            code, data = await self.pipe.call("what-if", body, namespace, explain)
        except PipeError:
            return NO_SCHEDULER
        return code, data

    def let_go(self) -> None:
        """End what the process had here."""
        if self._requests is not None:
            self._requests.close()
        super().let_go()
