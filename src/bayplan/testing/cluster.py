"""A live cluster for tests, ways to wait for it, and the invariants that hold in it whatever happens.

    async with running_cluster(nodes=3) as cluster:
        await cluster.client.create(deployment("web", 3))
        await cluster.eventually(lambda: cluster.available("web", 3))

At the end of the context `validate` looks at the whole cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, core_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.controllers.base import controller_of
from bayplan.controllers.pods import is_ready
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.invariants import violations
from bayplan.testing.mutations import detect_mutations

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that a condition may take to come true."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05


class InvariantBroken(AssertionError):
    """The cluster is in a state that must never be."""


async def eventually(condition: Callable[[], Awaitable[T | None]], within: float = PATIENCE) -> T:
    """Wait until a condition gives something true, and return that. Failed assertions and 404 count as not yet.

    Raises AssertionError with the last failure when time is up.
    """
    loop = asyncio.get_running_loop()
    until, pause = loop.time() + within, _FIRST_PAUSE
    last: BaseException | None = None
    while True:
        try:
            found = await condition()
            if found:
                return found
            last = None
        except AssertionError as error:
            last = error
        except ApiError as error:
            if error.code != 404:
                raise
            last = error
        if loop.time() >= until:
            raise AssertionError(
                f"not true within {within:g} s: {last or 'the condition gave ' + repr(found)}"
            ) from last
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


class LiveCluster:
    """A running cluster with the words of tests."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client

    async def eventually(self, condition: Callable[[], Awaitable[T | None]], within: float = PATIENCE) -> T:
        """See the function of that name."""
        return await eventually(condition, within)

    async def pods(self, namespace: str = "default", **labels: str) -> list[core_v1.Pod]:
        """Pods with these labels that are not on their way out."""
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        found = await self.client.list(core_v1.Pod, namespace, label_selector=chosen)
        return [pod for pod in found.items if not pod.metadata.deletion_timestamp]

    async def ready_pods(self, namespace: str = "default", **labels: str) -> list[core_v1.Pod]:
        """Those that are ready."""
        return [pod for pod in await self.pods(namespace, **labels) if is_ready(pod)]

    async def sets_of(self, name: str, namespace: str = "default") -> list[apps_v1.ReplicaSet]:
        """ReplicaSets that a deployment controls, lowest revision first."""
        found = (await self.client.list(apps_v1.ReplicaSet, namespace)).items
        owned = [one for one in found if (owner := controller_of(one)) is not None and owner.name == name]
        return sorted(owned, key=lambda one: int(one.metadata.annotations["deployment.kubernetes.io/revision"]))

    async def available(self, name: str, replicas: int, namespace: str = "default") -> apps_v1.Deployment | None:
        """The deployment, if its roll-out is complete with so many replicas."""
        found = await self.client.get(apps_v1.Deployment, name, namespace)
        status = found.status
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        seen = status.observed_generation >= found.metadata.generation
        return found if seen and found.spec.replicas == replicas and counts == (replicas,) * 3 else None

    async def rolled_out(self, name: str, replicas: int, namespace: str = "default") -> apps_v1.Deployment:
        """Wait for that."""
        return await eventually(lambda: self._available(name, replicas, namespace))

    async def _available(self, name: str, replicas: int, namespace: str) -> apps_v1.Deployment:
        found = await self.available(name, replicas, namespace)
        if found is None:
            status = (await self.client.get(apps_v1.Deployment, name, namespace)).status
            raise AssertionError(f"deployment {name} has not rolled out {replicas} replicas: {status}")
        return found

    async def gone(self, cls: type[Any], name: str, namespace: str = "default") -> bool:
        """Whether an object is not there."""
        try:
            await self.client.get(cls, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return True
            raise
        return False


@contextlib.asynccontextmanager
async def running_cluster(
    *, nodes: int = 3, check: bool = True, settings: ClusterSettings | None = None, **simulator: Any
) -> AsyncIterator[LiveCluster]:
    """A cluster in memory on a free port, with nodes that are ready. Nobody may change shared objects in it.

    Its invariants are checked at the end, unless told otherwise or the test has failed. `simulator` are fields of SimulatorSettings; pods start and stop at
    once unless they say otherwise.
    """
    if settings is None:
        simulator = {"start_seconds": 0.01, "stop_seconds": 0.01, **simulator}
        settings = ClusterSettings(nodes=SimulatorSettings(nodes=nodes, **simulator))
    cluster = Cluster(settings)
    with detect_mutations():
        async with _started(cluster):
            live = LiveCluster(cluster, cluster.client())
            await eventually(lambda: _is_up(live.client, settings.nodes.nodes))
            yield live
            if check:
                await eventually(lambda: _is_sound(live.client))


@contextlib.asynccontextmanager
async def _started(cluster: Cluster) -> AsyncIterator[None]:
    await cluster.start()
    try:
        yield
    finally:
        await cluster.stop()


async def _is_up(client: Client, nodes: int) -> bool:
    """Whether the nodes are there and pods can be created in the namespace `default`."""
    found = (await client.list(core_v1.Node)).items
    await client.get(core_v1.ServiceAccount, "default", "default")
    return len(found) >= nodes


async def _is_sound(client: Client) -> bool:
    await validate(client)
    return True


async def validate(client: Client) -> None:
    """Look at the whole cluster, see `violations`. Raises InvariantBroken."""
    found = await violations(client)
    if found:
        raise InvariantBroken("; ".join(found))
