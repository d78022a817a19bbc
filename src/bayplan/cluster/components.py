"""The components around an API server in one process: each is started, stopped and started again on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayplan.client import Client
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Crash, Supervisor

if TYPE_CHECKING:
    from bayplan.controllers.access.certificate_rules import Authority
    from bayplan.controllers.access.service_account_tokens import TokenSigner
    from bayplan.controllers.base import Controller, ControllerContext
    from bayplan.kubelet.simulator import NodeSimulator
    from bayplan.scheduler.service import SchedulerService

CONTROLLERS: Final = "controllers"
SCHEDULER: Final = "scheduler"
NODES: Final = "nodes"
DESCHEDULER: Final = "descheduler"
ANSWERS: Final = "scheduler-answers"
"""A scheduler that only answers questions; it is started where and when these are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningCredentials:
    """What controllers vouch with."""

    root_ca: str
    """Certificates (PEM) that pods are told to trust."""
    token_signer: TokenSigner | None = None
    """Signs the tokens of service account secrets; without it there are none."""
    authority: Authority | None = None
    """Signs certificate requests; without it nobody does."""


class Components:
    """Controllers, scheduler, simulated nodes and, if there is a policy for it, the descheduler, all over clients that `connect` makes for a user's name."""

    def __init__(
        self,
        settings: ClusterSettings,
        connect: Callable[[str], Client],
        credentials: SigningCredentials,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Registry,
        on_crash: Crash | None = None,
        restarts: bool = False,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """restarts: whether a component that ends by itself is started again, after a delay that doubles with each time; without it, it stays away, and
        `on_crash` is told. on_change: called when `failures` has changed."""
        self._settings = settings
        self._connect = connect
        self._credentials = credentials
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._restarts = restarts
        self._on_change = on_change
        self.failures: dict[str, str] = {}
        """Why components do not run that were started, by name; only of those that are started again."""
        self._tasks = Supervisor("cluster", clock=clock, on_crash=self._failed if restarts else on_crash)
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._makers: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            CONTROLLERS: self._controllers,
            SCHEDULER: self._scheduler,
            ANSWERS: partial(self._scheduler, schedules=False),
            NODES: self._nodes,
        }
        if settings.descheduler_policy is not None:
            self._makers[DESCHEDULER] = partial(self._descheduler, settings.descheduler_policy)
        self.scheduler: SchedulerService | None = None
        """The latest one."""
        self.node_simulator: NodeSimulator | None = None
        """The running one."""

    def start(self, name: str) -> None:
        """Start a component that is not running. Raises what is wrong with its settings: ClusterError, ValueError, OSError."""
        first = self._makers[name]()
        if self._restarts:
            prepared = [first]
            task = self._running[name] = self._tasks.keep_running(name, partial(self._run, name, prepared), actor=name)
            task.add_done_callback(lambda _: [one.close() for one in prepared])  # if it was cancelled before it began
        else:
            self._running[name] = self._tasks.spawn(name, first, actor=name)

    async def _run(self, name: str, prepared: list[Coroutine[Any, Any, None]]) -> None:
        """Run a component, the first time what is `prepared`. Raises what it raises, ClusterError if it ends."""
        component = prepared.pop() if prepared else self._makers[name]()
        if self.failures.pop(name, None) is not None:
            self._changed()
        await component
        raise ClusterError(f"{name} has ended by itself")

    def _failed(self, name: str, error: BaseException) -> None:
        self.failures[name] = f"{name} crashed and is started again: {type(error).__name__}: {error}"
        self._changed()

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

    @property
    def names(self) -> tuple[str, ...]:
        """All that can be started, in the order in which they should be."""
        return tuple(name for name in self._makers if name != ANSWERS)

    def is_running(self, name: str) -> bool:
        """Whether a component was started and has not ended."""
        return name in self._running and not self._running[name].done()

    async def stop(self, name: str) -> None:
        """End a component as a crash would: at once, wherever it is. Raises what it raised if it had ended by itself."""
        task = self._running.pop(name)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def close(self) -> None:
        """End all of them."""
        self._running.clear()
        await self._tasks.close()

    def _controllers(self) -> Coroutine[Any, Any, None]:
        from bayplan.controllers.manager import ControllerManager, controller_filter
        from bayplan.controllers.nodes.cloud import SimulatedCloud

        manager = ControllerManager(
            self._connect("system:kube-controller-manager"),
            clock=self._clock,
            randomness=self._randomness,
            root_ca=self._credentials.root_ca,
            token_signer=self._credentials.token_signer,
            signing_authority=self._credentials.authority,
            cloud=SimulatedCloud() if self._settings.cloud else None,
            autoscaler=self._autoscaler(),
            enabled=controller_filter(self._settings.controllers, self._settings.controller),
            settings=self._settings.controller,
        )
        return manager.run()

    def _autoscaler(self) -> Callable[[ControllerContext], Controller] | None:
        """How the controller is made that grows and shrinks groups of nodes; None without groups."""
        groups = self._settings.nodes.groups
        if not groups:
            return None
        from bayplan.cluster.autoscaling import SANDBOX_KINDS, SimulatedNodeGroups, sandbox_maker
        from bayplan.controllers.autoscaling.cluster_autoscaler import ClusterAutoscalerController

        client = self._connect("system:node-simulator")
        provider = SimulatedNodeGroups(client, groups, clock=self._clock, randomness=self._randomness)
        config = self._settings.scheduler_config
        sandbox = sandbox_maker(str(config) if config is not None else None)
        return partial(ClusterAutoscalerController, provider=provider, sandbox=sandbox, kinds=SANDBOX_KINDS)

    def _scheduler(self, *, schedules: bool = True) -> Coroutine[Any, Any, None]:
        from bayplan.scheduler.development.plugin_files import PluginFiles
        from bayplan.scheduler.service import SchedulerService

        files = self._settings.scheduler_plugins
        self.scheduler = service = SchedulerService(
            self._connect("system:kube-scheduler"),
            clock=self._clock,
            randomness=self._randomness,
            metrics=self._metrics,
            config=self._settings.scheduler_config,
            feature_gates=self._settings.api.feature_gates,
            plugins=PluginFiles(files, follows=self._settings.are_plugins_followed) if files else None,
            schedules=schedules,
        )
        return service.run()

    def _nodes(self) -> Coroutine[Any, Any, None]:
        from bayplan.kubelet.simulator import NodeSimulator

        self.node_simulator = NodeSimulator(
            self._connect("system:node-simulator"), self._settings.nodes, clock=self._clock, randomness=self._randomness
        )
        return self.node_simulator.run()

    def _descheduler(self, policy: Path) -> Coroutine[Any, Any, None]:
        """Raises PolicyError, OSError."""
        from bayplan.descheduler.policy_reader import load_policy
        from bayplan.descheduler.service import DeschedulerService
        from bayplan.descheduler.settings import DeschedulerSettings

        service = DeschedulerService(
            self._connect("system:descheduler"),
            load_policy(policy),
            DeschedulerSettings(descheduling_interval=self._settings.descheduling_interval),
            clock=self._clock,
            randomness=self._randomness,
            metrics=self._metrics,
        )
        return service.run()
