"""The storage controllers of one driver: which of them run follows from what the driver offers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.csi import messages as csi
from bayplan.csi.client import CsiClient, DriverInfo
from bayplan.csi_controller.attacher import AttachedVolumes, Attacher
from bayplan.csi_controller.capacity import CapacityPublisher
from bayplan.csi_controller.errors import StartError
from bayplan.csi_controller.modifier import Modifier
from bayplan.csi_controller.provisioner import Provisioner
from bayplan.csi_controller.resizer import Resizer
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.csi_controller.snapshot_contents import SnapshotContents
from bayplan.csi_controller.snapshot_kinds import CLASS, CONTENT, DISCOVERY, SNAPSHOT, add_kinds
from bayplan.csi_controller.snapshots import Snapshots
from bayplan.csi_controller.volume_deletion import VolumeDeletion
from bayplan.csi_controller.worker import DriverContext, Worker
from bayplan.informers import InformerFactory
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

_C = csi.ControllerCapability
_FIRST_LOOK_SECONDS, _LOOK_SECONDS = 1.0, 10.0
"""Between two looks whether the definitions of snapshots are there: soon at first, since they often come together with the driver."""


async def discover(client: CsiClient, waits: Callable[[], None]) -> DriverInfo:
    """Wait until the driver is ready, and find out who it is and what it offers; call `waits` if it does not answer at first. Raises CsiError, StartError."""
    await client.wait_until_ready(waits)
    found = await client.info()
    if not found.name:
        raise StartError("the driver has no name")
    return found


class CsiControllers:
    """All controllers of a driver. `run` returns when it is cancelled; everything that it started has ended then."""

    def __init__(
        self,
        client: Client,
        driver_client: CsiClient,
        driver: DriverInfo,
        settings: CsiControllerSettings,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Registry,
    ) -> None:
        self.driver = driver
        self._client = client
        self._csi = driver_client
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._informers = InformerFactory(client, clock, randomness)

    async def run(self) -> None:
        """Start informers, wait until they are in step, then work until cancelled. Raises CsiError, StartError."""
        context = await self._context()
        workers = [make(context) for make in self._chosen()]
        snapshots = _C.CREATE_DELETE_SNAPSHOT in self.driver.controller and self._settings.snapshots
        logger.info("%s: %s", self.driver.name, ", ".join(one.name for one in workers))
        async with Supervisor("csi-controller") as tasks:
            self._informers.start()
            try:
                await self._informers.wait_for_sync()
                self._spawn(tasks, workers)
                if snapshots:
                    tasks.spawn("snapshots", self._run_snapshots(context, tasks, workers))
                await tasks.wait()
            finally:
                for worker in workers:
                    worker.queue.shut_down()
                await self._informers.stop()

    def _spawn(self, tasks: Supervisor, workers: list[Worker]) -> None:
        for worker in workers:
            tasks.spawn(f"{worker.name} events", worker.recorder.run(), actor=worker.name)
            for number in range(self._settings.worker_threads):
                tasks.spawn(f"{worker.name} {number}", worker.work(), actor=worker.name)

    async def _run_snapshots(self, context: DriverContext, tasks: Supervisor, workers: list[Worker]) -> None:
        """Work on snapshots as well, as soon as their definitions are there."""
        pause = _FIRST_LOOK_SECONDS
        while not await self._serves_snapshots():
            await self._clock.sleep(self._randomness.jitter(pause, 0.5))
            pause = min(2 * pause, _LOOK_SECONDS)
        context.snapshot_kinds = add_kinds(self._client.kinds)
        late: list[Worker] = [make(context) for make in (Snapshots, SnapshotContents)]
        await self._informers.wait_for_sync()
        logger.info("%s: %s", self.driver.name, ", ".join(one.name for one in late))
        workers += late
        self._spawn(tasks, late)

    async def _serves_snapshots(self) -> bool:
        try:
            served = json.loads(await self._client.raw("GET", DISCOVERY))
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and error.code != 404:
                logger.warning("looking for snapshots: %s", error)
            return False
        return {SNAPSHOT, CONTENT, CLASS} <= {one["kind"] for one in served.get("resources", ())}

    async def _context(self) -> DriverContext:
        segments: dict[str, str] = {}
        if self._settings.node_deployment:
            if not self._settings.node_name:
                raise StartError("--node-deployment needs the node's name: set NODE_NAME")
            where = (await self._csi.node_get_info()).accessible_topology
            segments = dict(where.segments) if where is not None else {}
            if self.driver.has_topology and not segments:
                raise StartError("--node-deployment: the driver does not say where this node is (NodeGetInfo)")
        return DriverContext(
            self._client,
            self._informers,
            self._clock,
            self._randomness,
            self._csi,
            self.driver,
            self._settings,
            self._metrics,
            lambda component: EventRecorder(
                self._client, component, self._clock, self._randomness, host=self._settings.node_name
            ),
            segments,
        )

    def _chosen(self) -> list[type[Worker]]:
        """The controllers for what the driver offers."""
        offers, settings = self.driver.controller, self._settings
        found: list[type[Worker]] = []
        if _C.CREATE_DELETE_VOLUME in offers:
            found += [Provisioner, VolumeDeletion]
        if settings.enable_capacity:
            if _C.GET_CAPACITY not in offers:
                raise StartError("--enable-capacity: the driver does not say how much room there is (GET_CAPACITY)")
            found.append(CapacityPublisher)
        if _C.EXPAND_VOLUME in offers or csi.NodeCapability.EXPAND_VOLUME in self.driver.node:
            found.append(Resizer)
        if _C.MODIFY_VOLUME in offers and settings.volume_attributes_class:
            found.append(Modifier)
        if not settings.node_deployment:
            found += [Attacher, AttachedVolumes] if _C.PUBLISH_UNPUBLISH_VOLUME in offers else [Attacher]
        return found
