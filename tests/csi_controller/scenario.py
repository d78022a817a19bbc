"""A cluster in virtual time with the fake driver and its controllers, and the objects of tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, storage_v1
from bayplan.csi.client import CsiClient
from bayplan.csi_controller.metrics import call_observer
from bayplan.csi_controller.service import CsiControllers, discover
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.csi_driver import NAME, FakeDriver

ZONE = "topology.fake.csi/zone"
GIB = 1 << 30


class Scenario:
    """One cluster, one driver, any number of instances of its controllers."""

    def __init__(self, cluster: VirtualCluster, driver: FakeDriver) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.driver = driver
        self.metrics = Registry()
        self._instances: list[asyncio.Task[None]] = []

    async def start(self, driver: FakeDriver | None = None, **settings: Any) -> asyncio.Task[None]:
        """Start controllers; returns the task, which ends when cancelled."""
        driver = driver or self.driver
        chosen = CsiControllerSettings(**settings)
        number = len(self._instances)
        csi_client = CsiClient(
            driver.connection(),
            seconds=chosen.timeout,
            clock=self.cluster.clock,
            observe=call_observer(self.metrics, driver.name),
        )
        controllers = CsiControllers(
            self.cluster.connect(f"csi-{number}"),
            csi_client,
            await discover(csi_client, lambda: None),
            chosen,
            clock=self.cluster.clock,
            randomness=SeededRandomness(f"csi {number}"),
            metrics=self.metrics,
        )
        task = asyncio.ensure_future(controllers.run())
        self._instances.append(task)
        return task

    async def stop(self, task: asyncio.Task[None]) -> None:
        """End an instance, as if it were killed."""
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._instances.remove(task)

    async def close(self) -> None:
        for one in list(self._instances):
            await self.stop(one)

    async def create(self, obj: Any) -> Any:
        return await self.client.create(obj)

    async def eventually(self, condition: Callable[[], Awaitable[Any]], within: float = 600.0) -> Any:
        return await self.cluster.eventually(condition, within)

    async def claim(self, name: str = "data") -> core_v1.PersistentVolumeClaim:
        return await self.client.get(core_v1.PersistentVolumeClaim, name, "default")

    async def volumes(self) -> list[core_v1.PersistentVolume]:
        return (await self.client.list(core_v1.PersistentVolume)).items

    async def bound(self, name: str = "data") -> core_v1.PersistentVolume:
        """The volume of a claim, once it has one."""

        async def is_bound() -> bool:
            return (await self.claim(name)).status.phase == "Bound"

        await self.eventually(is_bound)
        return await self.client.get(core_v1.PersistentVolume, (await self.claim(name)).spec.volume_name)

    async def events(self, reason: str) -> list[str]:
        found = (await self.client.list(core_v1.Event)).items
        return [one.message for one in found if one.reason == reason]

    async def told(self, reason: str, part: str) -> bool:
        return any(part in one for one in await self.events(reason))

    async def gone(self, cls: type[Any], name: str, namespace: str = "default") -> bool:
        found = (await self.client.list(cls, namespace)).items
        return all(one.metadata.name != name for one in found)

    async def has_no_volumes(self) -> bool:
        return not await self.volumes() and not self.driver.volumes

    async def place(self, zones: Mapping[str, str]) -> None:
        """Label nodes, and let them have the driver, as their kubelets would."""
        for node, zone in zones.items():
            await self.client.patch(core_v1.Node, node, "", {"metadata": {"labels": {ZONE: zone}}})
            driver = {"name": NAME, "nodeID": f"id-of-{node}", "topologyKeys": [ZONE]}
            with contextlib.suppress(ApiError):  # the simulator may have made one
                await self.client.delete(storage_v1.CSINode, node)
            await self.create(make(storage_v1.CSINode, node, "", spec={"drivers": [driver]}))


@asynccontextmanager
async def scenario(nodes: int = 3, **driver: Any) -> AsyncIterator[Scenario]:
    async with VirtualCluster(seed=1, nodes=nodes) as cluster:
        found = Scenario(cluster, FakeDriver(cluster.clock, **driver))
        try:
            yield found
        finally:
            await found.close()


def play(test: Callable[[Scenario], Awaitable[None]], nodes: int = 3, **driver: Any) -> None:
    """Run a test in virtual time."""

    async def main() -> None:
        async with scenario(nodes, **driver) as found:
            await test(found)

    virtual_time.run(main())


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return from_tree(cls, {"metadata": metadata, **fields})


def storage_class(name: str = "fast", *, mode: str = "Immediate", **fields: Any) -> Any:
    fields = {"provisioner": NAME, "reclaimPolicy": "Delete", "allowVolumeExpansion": True, **fields}
    return make(storage_v1.StorageClass, name, "", volumeBindingMode=mode, **fields)


def claim(name: str = "data", size: str = "1Gi", storage_class_name: str = "fast", **spec: Any) -> Any:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class_name,
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    return make(core_v1.PersistentVolumeClaim, name, spec=spec)


def pod(name: str, *claims: str, **spec: Any) -> Any:
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": one}} for n, one in enumerate(claims)]
    containers = [{"name": "main", "image": "app"}]
    return make(core_v1.Pod, name, spec={"containers": containers, "volumes": volumes, **spec})
