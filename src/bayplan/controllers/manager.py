"""The loop that runs all controllers, and the table of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from bayplan.client import Client
from bayplan.client.events import EventRecorder
from bayplan.controllers.base import Controller, ControllerContext
from bayplan.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from bayplan.controllers.cronjob import CronJobController
from bayplan.controllers.daemonset import DaemonSetController
from bayplan.controllers.deployment import DeploymentController
from bayplan.controllers.disruption import DisruptionController
from bayplan.controllers.endpoints import EndpointsController, EndpointSliceController
from bayplan.controllers.garbage_collector import GarbageCollector
from bayplan.controllers.job import JobController
from bayplan.controllers.namespace import NamespaceController
from bayplan.controllers.node_lifecycle import NodeLifecycleController
from bayplan.controllers.pod_garbage_collector import PodGarbageCollector
from bayplan.controllers.replicaset import ReplicaSetController
from bayplan.controllers.replication_controller import ReplicationManager
from bayplan.controllers.resource_quota import ResourceQuotaController
from bayplan.controllers.service_account_tokens import ServiceAccountTokensController, TokenSigner
from bayplan.controllers.service_cidrs import ServiceCIDRsController
from bayplan.controllers.serviceaccount import RootCaPublisher, ServiceAccountController
from bayplan.controllers.settings import ControllerSettings
from bayplan.controllers.statefulset import StatefulSetController
from bayplan.controllers.taint_eviction import TaintEvictionController
from bayplan.controllers.ttl_after_finished import TtlAfterFinishedController
from bayplan.controllers.volume_binder import PersistentVolumeBinder
from bayplan.controllers.volume_protection import (
    AttributesClassProtectionController,
    ClaimProtectionController,
    VolumeProtectionController,
)
from bayplan.informers import InformerFactory
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor
from bayplan.workqueue.queue import QueueShutDown

logger = logging.getLogger(__name__)

CONTROLLERS: tuple[type[Controller], ...] = (
    ServiceAccountController,  # first: pods cannot be created in a namespace without its account
    RootCaPublisher,
    ServiceAccountTokensController,
    ClusterRoleAggregationController,
    NamespaceController,
    ReplicaSetController,
    ReplicationManager,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    TtlAfterFinishedController,
    DisruptionController,
    ResourceQuotaController,
    EndpointSliceController,
    EndpointsController,
    NodeLifecycleController,
    TaintEvictionController,
    PodGarbageCollector,
    PersistentVolumeBinder,
    ClaimProtectionController,
    VolumeProtectionController,
    AttributesClassProtectionController,
    ServiceCIDRsController,
    GarbageCollector,  # last: it follows every kind
)


class ControllerManager:
    """Runs controllers over one client. `run` returns when cancelled; everything it started has ended then."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        randomness: Randomness,
        root_ca: str,
        token_signer: TokenSigner | None = None,
        enabled: Callable[[str], bool] = lambda name: True,
        settings: ControllerSettings | None = None,
    ) -> None:
        settings = settings or ControllerSettings()
        self._informers = InformerFactory(client, clock, randomness)
        self._recorders: list[EventRecorder] = []
        self.controllers: list[Controller] = []
        for cls in CONTROLLERS:
            if not enabled(cls.name) or (cls is ServiceAccountTokensController and token_signer is None):
                continue
            recorder = EventRecorder(client, cls.name, clock, randomness)
            context = ControllerContext(client, self._informers, clock, randomness, recorder, settings)
            self._recorders.append(recorder)
            if cls is RootCaPublisher:
                self.controllers.append(RootCaPublisher(context, root_ca))
            elif cls is ServiceAccountTokensController and token_signer is not None:
                self.controllers.append(ServiceAccountTokensController(context, root_ca, token_signer))
            else:
                self.controllers.append(cls(context))

    async def run(self) -> None:
        """Start informers, wait until they are in step, then work until cancelled."""
        async with Supervisor("controller-manager") as tasks:
            self._informers.start()
            try:
                await self._informers.wait_for_sync()
                for recorder in self._recorders:
                    tasks.spawn("events", recorder.run())
                for controller in self.controllers:
                    tasks.spawn(f"{controller.name} background", controller.run_background())
                    for number in range(controller.workers):
                        tasks.spawn(f"{controller.name} {number}", work(controller))
                await asyncio.Event().wait()
            finally:
                for controller in self.controllers:
                    controller.queue.shut_down()
                await self._informers.stop()


async def work(controller: Controller) -> None:
    """Take keys from a controller's queue until it is shut down. A key that fails is tried again later; nothing else is held up."""
    queue = controller.queue
    while True:
        try:
            key = await queue.get()
        except QueueShutDown:
            return
        try:
            await controller.reconcile(key)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            level = logging.WARNING if queue.num_requeues(key) > 3 else logging.DEBUG
            logger.log(level, "%s: %s: %s: %s", controller.name, key, type(error).__name__, error)
            queue.add_rate_limited(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)


def controller_filter(names: Sequence[str]) -> Callable[[str], bool]:
    """The meaning of `--controllers`: `*` for all, `name` to enable, `-name` to disable. Raises ValueError for a name that is not known."""
    known = {cls.name for cls in CONTROLLERS}
    for name in names:
        if name != "*" and name.removeprefix("-") not in known:
            raise ValueError(f"unknown controller {name.removeprefix('-')!r}; known: {', '.join(sorted(known))}")
    return lambda name: f"-{name}" not in names and ("*" in names or name in names or not names)
