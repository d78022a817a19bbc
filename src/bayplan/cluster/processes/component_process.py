"""The process of the components, as it sees itself: scheduler, controllers and simulated nodes over a pipe to the API server."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from bayplan.api.kinds import DEFAULT_KINDS, KindTable
from bayplan.api.optional_kinds import with_optional
from bayplan.client import Client
from bayplan.client.piped import PipedServer
from bayplan.cluster.components import CONTROLLERS, NODES, SCHEDULER, Components, SigningCredentials
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.processes.child_main import run_child
from bayplan.cluster.questions.what_if import respond
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.pipe import Pipe, open_pipe
from bayplan.support.randomness import SystemRandomness

_BEFORE_FORK: Final = ("bayplan.controllers.manager", "bayplan.kubelet.simulator")
_AFTER_FORK: Final = ("bayplan.scheduler.service",)
"""NumPy may start threads when it is loaded, which a fork would not copy."""
COMPONENTS: Final = (CONTROLLERS, SCHEDULER, NODES)


def load_modules() -> None:
    """Load what every component process needs, as far as that can be shared."""
    for module in _BEFORE_FORK:
        importlib.import_module(module)


def work(end: socket.socket, settings: ClusterSettings) -> NoReturn:
    """What a component process does, all its life."""
    run_child("the component process", lambda: _Host(settings).run(end))


class _Host:
    """Runs components as the pipe says."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._metrics = Registry()
        self._components: Components | None = None

    async def run(self, end: socket.socket) -> None:
        """Do what the pipe says until it ends."""
        self._pipe: Pipe = await open_pipe(end)
        self._server = PipedServer(self._pipe)
        api = self._settings.api
        self._kinds = with_optional(DEFAULT_KINDS, api.runtime_config, api.feature_gates)
        self._pipe.request_handlers |= {
            "start": self._start,
            "metrics": self._rendered,
            "scheduler": self._scheduler,
            "what-if": self._what_if,
            "stop": self._stop,
        }
        self._pipe.notification_handlers["ping"] = lambda: self._pipe.notify("pong")
        for module in _AFTER_FORK:
            importlib.import_module(module)
        await self._pipe.ended()
        await self._stop()

    async def _start(self, names: Sequence[str], vouches: Mapping[str, Any]) -> str:
        """Start components; what is wrong with their settings, if that is so."""
        from bayplan.controllers.access.certificate_rules import Authority

        credentials = SigningCredentials(
            root_ca=vouches["root_ca"],
            token_signer=self._sign if vouches["signs"] else None,
            authority=Authority(*vouches["authority"]) if vouches["authority"] is not None else None,
        )
        self._components = Components(
            self._settings,
            lambda user: Client(self._server.transport(user), KindTable(self._kinds)),
            credentials,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            metrics=self._metrics,
            restarts=True,
            on_change=self._changed,
        )
        try:
            for name in names:
                self._components.start(name)
        except (ClusterError, ValueError, OSError) as error:
            return str(error)
        return ""

    def _changed(self) -> None:
        """Tell which components do not run."""
        if self._components is not None:
            self._pipe.notify("failures", self._components.failures)

    async def _sign(self, claims: dict[str, Any]) -> str:
        token: str = await self._pipe.call("sign", claims)
        return token

    async def _scheduler(self) -> dict[str, Any] | None:
        """The scheduler's queue and latest attempts; None if it does not run."""
        scheduler = self._components.scheduler if self._components is not None else None
        return scheduler.state() if scheduler is not None else None

    async def _what_if(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """Where the pods of a question would go (see `what_if.respond`)."""
        scheduler = self._components.scheduler if self._components is not None else None
        return await respond(scheduler, body, namespace=namespace, explain=explain)

    async def _rendered(self) -> bytes:
        return self._metrics.render()

    async def _stop(self) -> None:
        components, self._components = self._components, None
        if components is not None:
            await components.close()
