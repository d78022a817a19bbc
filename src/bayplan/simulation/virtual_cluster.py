"""A whole cluster in virtual time: the components of `bayplan up`, unchanged, in one process, over the in-process
transport and a store in memory. A day passes in seconds, and equal seeds give equal traces, byte for byte.

    async def main() -> None:
        async with VirtualCluster(seed=1, nodes=100) as cluster:
            await cluster.apply("deployment.yaml")
            await cluster.advance(hours=1)

    virtual_time.run(main())
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.client.transport import Transport
from bayplan.cluster.components import Components, SigningCredentials
from bayplan.cluster.contents import take_in
from bayplan.cluster.credentials import ADMIN_GROUP
from bayplan.cluster.manifests.apply import apply_manifests, nothing_served
from bayplan.cluster.manifests.reading import gather_manifests
from bayplan.cluster.manifests.unserved import UnservedKinds
from bayplan.cluster.settings import ClusterSettings
from bayplan.cluster.storage.default_class import publish_storage_class
from bayplan.descheduler.report import Attempt
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.explanations.summary import what_is_wrong
from bayplan.simulation.faults.api_faults import OBSERVER, Faults
from bayplan.simulation.faults.watch_orders import LaggingTransport
from bayplan.simulation.trace import Trace
from bayplan.simulation.webhooks import FunctionSender, WebhookFunction
from bayplan.store.memory import MemoryStore
from bayplan.store.settings import HistorySettings
from bayplan.support.clock import LoopClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import VirtualTimeLoop
from bayplan.testing.cluster import validate

logger = logging.getLogger(__name__)

T = TypeVar("T")

EPOCH: Final = 1_767_323_045.0
"""Unix time at which virtual clusters begin, if nothing else is said: 2 January 2026."""
PATIENCE: Final = 600.0
"""Virtual seconds that a condition may take to come true."""
QUIET: Final = 60.0
"""Virtual seconds without a change after which a cluster counts as settled: longer than most back-offs."""
_LOOK_EVERY: Final = 0.5
_LEASE: Final = 3600.0
"""Virtual seconds for which nodes promise to be well. They take it back when they fall silent, so that nothing but the number of writes depends on it."""
_NO_CERTIFICATES: Final = "clusters in virtual time have no certificates\n"
_HISTORY: Final = HistorySettings(keep_revisions=2_000, keep_seconds=60.0)


class Validation:
    """A look at a cluster, which happens when it is awaited."""

    def __init__(self, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.was_awaited = False
        self._look = look

    def __await__(self) -> Generator[Any, None, None]:
        self.was_awaited = True
        return self._look().__await__()


class VirtualCluster:
    """See the module. Runs on a `VirtualTimeLoop` only; `start` returns when its nodes are there."""

    def __init__(
        self,
        *,
        seed: int | str = 0,
        nodes: int | SimulatorSettings = 3,
        settings: ClusterSettings | None = None,
        epoch: float = EPOCH,
        trace: Callable[[str], object] | None = None,
        transport: Callable[[Transport], Transport] = lambda sound: sound,
        contents: Iterable[tuple[Kind, Any]] = (),
    ) -> None:
        """seed: decides all that may vary. nodes: how many, or which. trace: gets every line, see `Trace`.
        transport: what components are given in place of a sound transport; the `client` always has a sound one.
        contents: objects to begin with, taken in as they are, such as those of a copy (`copies_revive.revived`)."""
        if isinstance(nodes, int):
            nodes = SimulatorSettings(nodes=nodes)
        if nodes.lease_seconds is None:
            nodes = dataclasses.replace(nodes, lease_seconds=_LEASE)
        settings = settings or ClusterSettings()
        controller = dataclasses.replace(settings.controller, trusts_leases=True)
        self.settings = dataclasses.replace(settings, nodes=nodes, controller=controller)
        self.clock = LoopClock(epoch)
        self._seed = seed
        self._sink = trace
        self._transport = transport
        self._contents = tuple(contents)
        self._validations: list[Validation] = []
        self._orders: SeededRandomness | None = None
        self.webhooks: dict[str, WebhookFunction] = {}
        """By URL (a service's is `https://NAME.NAMESPACE.svc:PORT/PATH`): what answers admission webhooks instead of a server."""
        self.unserved = UnservedKinds()
        """What actions met of custom kinds, and left out."""
        self.descheduled: list[Attempt] = []
        """What passes of actions evicted, and what was kept from that."""

    async def start(self) -> None:
        """Raises RuntimeError on a loop whose time is real."""
        if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            raise RuntimeError("a virtual cluster needs a virtual loop: start it with bayplan.support.virtual_time.run")
        randomness = SeededRandomness(f"server {self._seed}")
        store = MemoryStore(clock=self.clock, history=_HISTORY)
        self.metrics = Registry()
        self.api = ApiServer(
            store, clock=self.clock, randomness=randomness, settings=self.settings.api, metrics=self.metrics
        )
        self.api.context.webhook_sender = FunctionSender(self.webhooks)
        self.trace = Trace(self.clock, self._sink)
        self.faults = Faults(self.api)
        self.client = self.connect(OBSERVER)
        self.components = Components(
            self.settings,
            self._connect_component,
            SigningCredentials(root_ca=_NO_CERTIFICATES),
            clock=self.clock,
            randomness=SeededRandomness(f"components {self._seed}"),
            metrics=self.metrics,
        )
        await store.open()
        await store.watch("", 1, self.trace.take)
        await self.api.open()
        await take_in(self.api, self._contents)
        await publish_storage_class(self.client)
        for name in self.components.names:
            self.components.start(name)
        await self.eventually(self._is_up, within=60.0)

    async def stop(self) -> None:
        """End everything."""
        await self.components.close()
        await self.api.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def permute(self, seed: int) -> None:
        """From now on, clients that `connect` gives see events in another order: each of their watches lags by itself, as the seed says."""
        self._orders = SeededRandomness(f"orders {seed}")

    def connect(self, user: str, groups: tuple[str, ...] = (ADMIN_GROUP,)) -> Client:
        """A client of somebody else than the test, such as an operator under test. `faults` meet it, if they are told to."""
        transport = self._sound_transport(user, groups)
        if self._orders is not None:
            transport = LaggingTransport(transport, self.clock, self._orders)
        return Client(transport, self.api.context.kinds.built_in())

    def _sound_transport(self, user: str, groups: tuple[str, ...] = (ADMIN_GROUP,)) -> Transport:
        return InProcessTransport(InProcessEndpoint(self.api, User(user, (*groups, "system:authenticated"))))

    def _connect_component(self, user: str) -> Client:
        return Client(self._transport(self._sound_transport(user)), self.api.context.kinds.built_in())

    async def _is_up(self) -> bool:
        """Whether the nodes are there and pods can be created in the namespace `default`."""
        await self.client.get(core_v1.ServiceAccount, "default", "default")
        wanted = self.settings.nodes.nodes + sum(kind.kind == "Node" for kind, _ in self._contents)
        return len((await self.client.list(core_v1.Node)).items) >= wanted

    def now(self) -> float:
        """Unix seconds in the cluster."""
        return self.clock.now()

    async def advance(
        self, *, days: float = 0.0, hours: float = 0.0, minutes: float = 0.0, seconds: float = 0.0
    ) -> None:
        """Let time pass, and with it everything happen that is due."""
        await self.clock.sleep(((days * 24 + hours) * 60 + minutes) * 60 + seconds)

    async def settle(self, *, quiet: float = QUIET, within: float = 6 * PATIENCE) -> bool:
        """Let time pass until nothing but leases and events has been written for `quiet` seconds, for `within` seconds at
        most. Returns whether it is quiet now."""
        began = self.clock.monotonic()
        until = began + within
        while True:
            now = self.clock.monotonic()
            rest = max(self.trace.last_change, began) + quiet - now
            if rest <= 0:
                return True
            if now >= until:
                return False
            await self.clock.sleep(min(rest, until - now))

    async def eventually(self, condition: Callable[[], Awaitable[T]], within: float = PATIENCE) -> T:
        """Let time pass until a condition gives something true, and return that. Failed assertions and 404 count as not
        yet. Raises AssertionError with the last failure, and with what is wrong in the cluster, when `within` seconds have passed."""
        until = self.clock.monotonic() + within
        while True:
            last: BaseException | None = None
            said = ""
            try:
                found = await condition()
                if found:
                    return found
                said = f"the condition gave {found!r}"
            except AssertionError as error:
                last = error
            except ApiError as error:
                if error.code != 404:
                    raise
                last = error
            if self.clock.monotonic() >= until:
                wrong = await what_is_wrong(self.client)
                text = f"not true within {within:g} virtual seconds: {said or last}"
                raise AssertionError(f"{text}\n{wrong}" if wrong else text) from last
            await self.clock.sleep(_LOOK_EVERY)

    def validate(self) -> Validation:
        """Look, when awaited, at the whole cluster for what must never be: over-committed nodes, pods on nodes that do not exist,
        addresses given twice, lost owners, wrong counts. Raises InvariantBroken then."""
        found = Validation(lambda: validate(self.client))
        self._validations.append(found)
        return found

    @property
    def has_forgotten_validations(self) -> bool:
        """Whether `validate()` was called and not awaited, so that nothing was looked at."""
        return not all(each.was_awaited for each in self._validations)

    async def apply(self, *manifests: str | Path | Mapping[str, Any], unserved: UnservedKinds | None = None) -> int:
        """Create or update objects as `kubectl apply` does: files or directories, YAML texts, or objects as dictionaries.
        Returns their number. Objects of custom kinds are left out and counted in `unserved`, or told by a warning in the
        log; they are an error if there are no others. Raises ManifestError, ApiError."""
        objects, met = gather_manifests(manifests), UnservedKinds()
        count = await apply_manifests(self.client, objects, None if nothing_served(self.client, objects) else met)
        if unserved is not None:
            unserved.add_all(met)
        else:
            for kind in met:
                logger.warning("%s", kind)
        return count
