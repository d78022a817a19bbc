"""The second process of a cluster: scheduler, controllers and simulated nodes there, API server and store here.

Python uses one CPU per process. The components meet at the API only, so that they need not be where it is:

    fork -> here the API server opens its store and listens, there the components' modules are loaded
    start: who is to run, and what they vouch with  ->
                                                    <-  requests and watches (`bayplan.client.piped`), tokens to sign, crashes
    metrics, stop                                   ->

The end of either process is the end of the pipe, and with it of the other one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from bayplan.api.kinds import DEFAULT_KINDS, KindTable, optional_kinds
from bayplan.apiserver.in_process import InProcessDoor
from bayplan.apiserver.piped import PipedRequests
from bayplan.client import Client
from bayplan.client.piped import PipedServer
from bayplan.cluster.components import CONTROLLERS, NODES, SCHEDULER, Components, Trust
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import SystemClock
from bayplan.support.garbage import collect_seldom
from bayplan.support.loop import run_loop
from bayplan.support.metrics import Registry
from bayplan.support.pipe import Pipe, PipeError, open_pipe
from bayplan.support.randomness import SystemRandomness
from bayplan.support.tasks import Crash

logger = logging.getLogger(__name__)

_PATIENCE: Final = 10.0
"""Seconds that the other process gets to end."""
_MODULES: Final = {
    CONTROLLERS: "bayplan.controllers.manager",
    SCHEDULER: "bayplan.scheduler.service",
    NODES: "bayplan.kubelet.simulator",
}


def can_have_one() -> bool:
    """Whether a second process is possible and has a CPU: on Linux, from a process without other threads (which would not be there after the fork)."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


@contextlib.contextmanager
def companion(settings: ClusterSettings) -> Iterator[Companion]:
    """Start the second process; to be called before there is an event loop. It is gone on exit."""
    ours, theirs = socket.socketpair()
    collect_seldom()
    process = os.fork()
    if process == 0:
        ours.close()
        _work(theirs, settings)
    theirs.close()
    one = Companion(process, ours)
    try:
        yield one
    finally:
        one.reap()


class Companion:
    """The second process, as the first one sees it."""

    def __init__(self, process: int, end: socket.socket) -> None:
        self._process = process
        self._end = end
        self._pipe: Pipe | None = None
        self._requests: PipedRequests | None = None
        self._on_crash: Crash | None = None

    async def start(
        self, names: Sequence[str], trust: Trust, door: Callable[[str], InProcessDoor], on_crash: Crash
    ) -> None:
        """Start components. `door` is the way to the API of a user. Raises ClusterError."""
        self._pipe = pipe = await open_pipe(self._end)
        self._on_crash = on_crash
        self._requests = PipedRequests(pipe, door)
        pipe.hearers["crashed"] = self._crashed
        pipe.when_lost = lambda: self._crashed("the process of the components", "it has gone")
        if trust.token_signer is not None:
            pipe.answerers["sign"] = trust.token_signer
        authority = trust.authority
        vouches = {
            "root_ca": trust.root_ca,
            "signs": trust.token_signer is not None,
            "authority": (authority.certificate, authority.key) if authority is not None else None,
        }
        try:
            problem = await pipe.ask("start", names, vouches)
        except PipeError as error:
            problem = str(error)
        if problem:
            raise ClusterError(problem)

    def _crashed(self, name: str, text: str) -> None:
        if self._on_crash is not None:
            self._on_crash(name, ClusterError(f"{name}: {text}"))

    async def metrics(self) -> bytes:
        """The components' metrics in Prometheus' text format; none if they have gone."""
        if self._pipe is None:
            return b""
        try:
            text: bytes = await self._pipe.ask("metrics")
        except PipeError:
            return b""
        return text

    async def close(self) -> None:
        """End the components."""
        self._on_crash = None
        if self._pipe is None or self._requests is None:
            return
        with contextlib.suppress(PipeError, TimeoutError):
            await asyncio.wait_for(self._pipe.ask("stop"), _PATIENCE)
        self._requests.close()
        self._pipe.close()

    def reap(self) -> None:
        """Wait until the process has ended, which it does without a pipe; end it if it does not."""
        self._end.close()
        deadline = time.monotonic() + _PATIENCE
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                logger.warning("the process of the components does not end by itself")
                os.kill(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)
                return
            time.sleep(0.005)


def _work(end: socket.socket, settings: ClusterSettings) -> NoReturn:
    """What the second process does, all its life."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # which both may get; the first process tells this one to stop
            signal.signal(number, signal.SIG_IGN)
        run_loop(_Host(settings).run(end))
        code = 0
    except BaseException:
        logger.exception("the process of the components ends")
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)  # and nothing of what the first process meant to do at its end


class _Host:
    """The second process, as it sees itself."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._metrics = Registry()
        self._components: Components | None = None

    async def run(self, end: socket.socket) -> None:
        """Do what the pipe says until it ends."""
        self._pipe = pipe = await open_pipe(end)
        self._server = PipedServer(pipe)
        self._kinds = KindTable((*DEFAULT_KINDS, *optional_kinds(self._settings.api.runtime_config)))
        pipe.answerers |= {"start": self._start, "metrics": self._rendered, "stop": self._stop}
        for module in _MODULES.values():
            importlib.import_module(module)
        await pipe.ended()
        await self._stop()

    async def _start(self, names: Sequence[str], vouches: Mapping[str, Any]) -> str:
        """Start components; what is wrong with their settings, if that is so."""
        from bayplan.controllers.certificate_rules import Authority

        trust = Trust(
            root_ca=vouches["root_ca"],
            token_signer=self._sign if vouches["signs"] else None,
            authority=Authority(*vouches["authority"]) if vouches["authority"] is not None else None,
        )
        self._components = Components(
            self._settings,
            lambda user: Client(self._server.transport(user), KindTable(self._kinds)),
            trust,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            metrics=self._metrics,
            on_crash=lambda name, error: self._pipe.tell("crashed", name, f"{type(error).__name__}: {error}"),
        )
        try:
            for name in names:
                self._components.start(name)
        except (ClusterError, ValueError, OSError) as error:
            return str(error)
        return ""

    async def _sign(self, claims: dict[str, Any]) -> str:
        token: str = await self._pipe.ask("sign", claims)
        return token

    async def _rendered(self) -> bytes:
        return self._metrics.render()

    async def _stop(self) -> None:
        components, self._components = self._components, None
        if components is not None:
            await components.close()
