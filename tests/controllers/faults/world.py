"""A cluster in virtual time whose controllers work through a faulty transport and are restarted now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, core_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.controllers.base import controller_of
from bayplan.controllers.manager import ControllerManager, controller_filter
from bayplan.kubelet.simulator import NodeSimulator
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.scheduler.service import SchedulerService
from bayplan.simulation.faults.transport import Faults, FaultyTransport, drawn
from bayplan.store.url import open_store
from bayplan.support.clock import LoopClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.mutations import detect_mutations

T = TypeVar("T")
EPOCH = 1_767_323_045.0
CONTROLLERS = (
    "serviceaccount-controller",
    "namespace-controller",
    "replicaset-controller",
    "deployment-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "node-lifecycle-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "affinity-eviction-controller",
)
PATIENCE = 1200.0
"""Virtual seconds within which everything has to be as it should after the last fault: longer than the longest back-off."""


class Broken(AssertionError):
    """Something happened that must never happen."""


class World:
    """What a scenario acts on and looks at; `client` is sound."""

    def __init__(self, seed: int, faults: Faults | None = None, *, restarts: bool | None = None) -> None:
        """The seed draws what is not given."""
        self.clock = LoopClock(EPOCH)
        self.chance = SeededRandomness(f"faults {seed}")
        self.faults: Faults = drawn(self.chance) if faults is None else faults
        self.restarts = self.chance.random() < 0.6 if restarts is None else restarts
        self._calm = False
        self.api = ApiServer(
            open_store("memory:", clock=self.clock), clock=self.clock, randomness=SeededRandomness(f"server {seed}")
        )
        self.client = self._client()
        self.faulty = FaultyTransport(self.client.transport, self.faults, self.clock, self.chance)
        self.live: dict[str, core_v1.Pod] = {}
        """Pods that are there and stay, by uid."""
        self.ready: set[str] = set()
        self.deleted: Counter[str] = Counter()
        """Pods that were told to go, by uid."""
        self.sizes: dict[str, list[tuple[int, int]]] = {}
        """ReplicaSet by uid -> (revision, replicas asked for)."""
        self.born: list[tuple[int, str, int]] = []
        """(revision, ReplicaSet, pods that it has then) of each new pod of one."""
        self.limits: list[Callable[[], str]] = []
        """Looked at after every change of a pod; what they return is wrong with it."""
        self.problem = ""
        self._manager: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def _client(self) -> Client:
        user = User("admin", ("system:masters", "system:authenticated"))
        return Client(InProcessTransport(InProcessEndpoint(self.api, user)))

    def _start_manager(self) -> None:
        manager = ControllerManager(
            Client(self.faulty),
            clock=self.clock,
            randomness=self.chance,
            root_ca="",
            enabled=controller_filter(CONTROLLERS),
        )
        self._manager = asyncio.create_task(manager.run())

    async def _stop_manager(self) -> None:
        if self._manager is not None:
            if self._manager.done():
                self._manager.result()
            self._manager.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._manager

    async def _restart_now_and_then(self) -> None:
        while self.restarts and not self._calm:
            await self.clock.sleep(1 + self.chance.random() * 20)
            await self._stop_manager()
            await self.clock.sleep(self.chance.random() * 2)
            self._start_manager()

    async def _follow_pods(self) -> None:
        """See pods exactly as they were committed, one change after the other."""
        stream = await self.client.watch(core_v1.Pod, resource_version="0")
        while batch := await stream.next_batch():
            for event_type, pod in batch:
                uid = pod.metadata.uid
                gone = event_type == "DELETED" or pod.metadata.deletion_timestamp
                if gone:
                    self.deleted[uid] += self.live.pop(uid, None) is not None
                else:
                    self.live[uid] = pod
                    if event_type == "ADDED":
                        self._take_birth(pod)
                for limit in self.limits:
                    self.problem = self.problem or limit()

    def _take_birth(self, pod: core_v1.Pod) -> None:
        owner = controller_of(pod)
        if owner is not None and owner.kind == "ReplicaSet":
            there = sum(one.metadata.owner_references[:1] == (owner,) for one in self.live.values())
            self.born.append((int(pod.metadata.resource_version), owner.uid, there))

    async def _follow_sets(self) -> None:
        stream = await self.client.watch(apps_v1.ReplicaSet, resource_version="0")
        while batch := await stream.next_batch():
            for event_type, one in batch:
                size = 0 if event_type == "DELETED" else one.spec.replicas or 0
                self.sizes.setdefault(one.metadata.uid, []).append((int(one.metadata.resource_version), size))

    def no_set_had_too_many(self) -> None:
        """Raises Broken if a ReplicaSet got a pod when it had as many as it had ever been asked for."""
        for revision, uid, there in self.born:
            asked = max((size for when, size in self.sizes.get(uid, ()) if when < revision), default=0)
            if there > asked:
                raise Broken(f"a ReplicaSet that was asked for {asked} pods had {there}")

    def sizes_at(self) -> list[tuple[int, int]]:
        """(revision, pods that all ReplicaSets together are asked for) after each change."""
        changes = sorted((when, uid, size) for uid, sizes in self.sizes.items() for when, size in sizes)
        now: dict[str, int] = {}
        result = []
        for when, uid, size in changes:
            now[uid] = size
            result.append((when, sum(now.values())))
        return result

    @contextlib.asynccontextmanager
    async def running(self, nodes: int = 3) -> AsyncIterator[None]:
        """Everything runs; faults happen from the beginning."""
        await self.api.open()
        simulator = NodeSimulator(
            self.client,
            SimulatorSettings(nodes=nodes, start_seconds=0.5, stop_seconds=0.5, run_seconds=2.0),
            clock=self.clock,
            randomness=SeededRandomness("nodes"),
        )
        scheduler = SchedulerService(
            self.client, clock=self.clock, randomness=SeededRandomness("scheduler"), metrics=Registry()
        )
        work = (simulator.run(), scheduler.run(), self._follow_pods(), self._follow_sets())
        self._tasks = [asyncio.create_task(one) for one in work]
        self._start_manager()
        self._tasks.append(asyncio.create_task(self._restart_now_and_then()))
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._stop_manager()
            await self.api.close()

    # Words of scenarios

    def pods(self, namespace: str = "default", **labels: str) -> list[core_v1.Pod]:
        """Pods that are there and stay."""
        return [
            pod
            for pod in self.live.values()
            if pod.metadata.namespace == namespace and labels.items() <= pod.metadata.labels.items()
        ]

    def at_most(self, count: Callable[[], int], what: str, namespace: str = "default", **labels: str) -> None:
        """From now on there must never be more such pods than that."""

        def look() -> str:
            found = len([pod for pod in self.pods(namespace, **labels) if pod.status.phase not in _ENDED])
            return f"{found} pods of {what}, at most {count()} may be there" if found > count() else ""

        self.limits.append(look)

    async def eventually(self, condition: Callable[[], Awaitable[T]], what: str, within: float = PATIENCE) -> T:
        """Wait for something true. Raises Broken if it does not come true in time, or something was broken meanwhile."""
        until = self.clock.monotonic() + within
        while True:
            self.check()
            try:
                found = await condition()
            except ApiError as error:
                if error.code != 404:
                    raise
                found = None
            if found:
                return found
            if self.clock.monotonic() > until:
                raise Broken(f"{what}: not within {within:g} s")
            await self.clock.sleep(0.5)

    def check(self) -> None:
        """Raises Broken if something that must never happen has happened, or what ended a part."""
        if self.problem:
            raise Broken(self.problem)
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                task.result()

    async def some_time(self, most: float = 20.0) -> None:
        """Let time pass, a little or more."""
        await self.clock.sleep(self.chance.random() * most)

    async def calm(self) -> None:
        """No more faults from now on."""
        self._calm = True
        self.faults.stop()

    async def gone(self, cls: type[Any], name: str, namespace: str = "default") -> bool:
        """Whether an object is not there."""
        try:
            await self.client.get(cls, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return True
            raise
        return False


_ENDED = ("Succeeded", "Failed")


async def play(
    seed: int,
    scenario: Callable[[World], Awaitable[None]],
    faults: Faults | None = None,
    *,
    restarts: bool | None = None,
) -> int:
    """One run; returns how many faults there were. Raises Broken."""
    with detect_mutations():
        world = World(seed, faults, restarts=restarts)
        async with world.running():
            bystanders = await _bystanders(world)
            await scenario(world)
            world.check()
            await world.clock.sleep(60)
            world.check()
            world.no_set_had_too_many()
            for pod in bystanders:
                if pod.metadata.uid not in world.live:
                    raise Broken(f"pod {pod.metadata.name}, which is nobody's, was deleted")
        return world.faulty.injected


async def _bystanders(world: World) -> list[core_v1.Pod]:
    """Pods that nothing has to do with, though they look as if."""

    async def account() -> Any:
        return await world.client.get(core_v1.ServiceAccount, "default", "default")

    await world.eventually(account, "the account of pods")
    found = []
    for name, labels in (("lonely", {}), ("labelled", {"tier": "web"})):
        metadata = {"name": name, "namespace": "default", "labels": labels}
        found.append(await world.client.create(_pod(metadata)))
    return found


def _pod(metadata: dict[str, Any]) -> core_v1.Pod:
    from bayplan.api.codec import from_tree

    made: core_v1.Pod = from_tree(
        core_v1.Pod, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "app"}]}}
    )
    return made
