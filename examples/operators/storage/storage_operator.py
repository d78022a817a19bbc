"""The operator: makes what a StorageCluster needs, places replicas, replaces those of lost nodes, and says in the status how things are.

The cluster's half of the CSI driver runs beside it in the same process, with the controllers of `bayplan csi-controller`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any, Final

from bayplan.api.codec import to_tree
from bayplan.api.errors import ApiError
from bayplan.client.errors import TransportError
from bayplan.csi.client import CsiClient
from bayplan.csi.server import csi_server
from bayplan.csi_controller.service import CsiControllers, discover
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.informers import InformerFactory
from bayplan.support.clock import Clock, SystemClock
from bayplan.support.grpc.calls import Connection
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.support.tasks import Supervisor

from . import rules, workloads
from .agent import answers
from .objects import (
    CLUSTER_NAME,
    CLUSTERS,
    NAMESPACE,
    NODES,
    VOLUMES,
    Api,
    add_kinds,
    node_from,
    path,
    pod_client,
    time_text,
    volume_from,
)
from .provisioning import ControllerService, IdentityService

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 2.0
"""Silence of agents is no event: it is looked for this often."""
_SOCKET: Final = Path("/run/replicated-storage/csi.sock")


class StorageOperator:
    """Reconciles everything whenever something has changed, and every two seconds. operator_pod: see `workloads.desired`."""

    def __init__(self, api: Api, informers: InformerFactory, operator_pod: Any, clock: Clock) -> None:
        self._api, self._clock, self._pod = api, clock, operator_pod
        kinds = add_kinds(informers.client.kinds)
        self._clusters, self._nodes, self._volumes = (
            informers.informer(kinds[plural]) for plural in (CLUSTERS, NODES, VOLUMES)
        )
        self._changed = asyncio.Event()
        for one in (self._clusters, self._nodes, self._volumes):
            one.on_change(
                add=lambda _: self._changed.set(),
                update=lambda _, __: self._changed.set(),
                delete=lambda _: self._changed.set(),
            )
        self._applied: tuple[str, int] | None = None

    async def run(self) -> None:
        """Reconcile until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self.reconcile()
            except ApiError as error:
                if error.code != 409:  # else: the caches are behind, the next event comes
                    logger.warning("%s", error)
            except TransportError as error:
                logger.warning("%s", error)
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def reconcile(self) -> None:
        """One look at everything. Raises ApiError, TransportError."""
        found = self._clusters.cache.get("", CLUSTER_NAME)
        if found is None:
            return
        cluster = to_tree(found)
        await self._apply(cluster)
        now, lost_after = self._clock.now(), float(cluster["spec"]["lostAfterSeconds"])
        nodes = {one.name: one for one in map(node_from, map(to_tree, self._nodes.cache))}
        trees = {tree["metadata"]["name"]: tree for tree in map(to_tree, self._volumes.cache)}
        volumes = {name: volume_from(tree) for name, tree in trees.items()}
        for name, volume in volumes.items():
            wanted = rules.place(volume, nodes, volumes.values(), now=now, lost_after=lost_after)
            if wanted != volume.placement:
                volumes[name] = await self._place(trees[name], wanted)
            state = rules.state_of(volumes[name], nodes, now, lost_after)
            if (trees[name].get("status") or {}).get("state") != state:
                logger.info("%s is %s", name, state)
                await self._api.merge(path(VOLUMES, name, "status"), {"status": {"state": state}})
        await self._report(cluster, rules.cluster_status(list(volumes.values()), nodes, now, lost_after), now)

    async def _apply(self, cluster: dict[str, Any]) -> None:
        version = (cluster["metadata"]["uid"], cluster["metadata"]["generation"])
        if self._applied != version:
            for where, tree in workloads.desired(cluster, self._pod).items():
                await self._api.apply(where, tree)
            self._applied = version

    async def _place(self, tree: dict[str, Any], wanted: tuple[rules.Replica, ...]) -> rules.Volume:
        name, placement = tree["metadata"]["name"], [{"node": one.node, "disk": one.disk} for one in wanted]
        logger.info("%s goes to %s", name, ", ".join(one.node for one in wanted))
        metadata = {"resourceVersion": tree["metadata"]["resourceVersion"]}
        return volume_from(
            await self._api.merge(path(VOLUMES, name), {"metadata": metadata, "spec": {"placement": placement}})
        )

    async def _report(self, cluster: dict[str, Any], status: dict[str, Any], now: float) -> None:
        before = cluster.get("status") or {}
        conditions = rules.with_times(status["conditions"], before.get("conditions", ()), time_text(now))
        status = {**status, "conditions": conditions, "observedGeneration": cluster["metadata"]["generation"]}
        if status != before:
            await self._api.merge(path(CLUSTERS, CLUSTER_NAME, "status"), {"status": status})


async def main() -> None:
    """Run until SIGTERM."""
    client, clock, randomness, metrics = pod_client(), SystemClock(), SystemRandomness(), Registry()
    api = Api(client)
    server = csi_server(_SOCKET, answers(IdentityService(with_controller=True), ControllerService(api)))
    pod = await api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{os.environ['POD_NAME']}")
    informers = InformerFactory(client, clock, randomness)
    operator = StorageOperator(api, informers, pod, clock)
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    await server.start()
    connection = CsiClient(Connection(_SOCKET), clock=clock)
    try:
        driver = await discover(connection, lambda: logger.warning("the driver does not answer yet"))
        settings = CsiControllerSettings(snapshots=False, volume_attributes_class=False)
        controllers = CsiControllers(
            client, connection, driver, settings, clock=clock, randomness=randomness, metrics=metrics
        )
        informers.start()
        await informers.wait_for_sync()
        async with Supervisor("storage operator") as tasks:
            tasks.spawn("csi-controller", controllers.run())
            tasks.spawn("reconcile", operator.run())
            waiting = asyncio.create_task(stop.wait())
            crashed = asyncio.create_task(tasks.wait())
            await asyncio.wait({waiting, crashed}, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                await crashed
            crashed.cancel()
            waiting.cancel()
    finally:
        await informers.stop()
        await connection.close()
        await server.stop()
        await client.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
