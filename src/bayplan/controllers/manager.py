"""The loop that runs all controllers, and the table of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from bayplan.api.feature_gates import AFFINITY_DURING_EXECUTION
from bayplan.client import Client
from bayplan.client.events import EventRecorder
from bayplan.controllers.access.bootstrap_tokens import BootstrapSigner, TokenCleaner
from bayplan.controllers.access.certificate_requests import ApprovingController, CleanerController, SigningController
from bayplan.controllers.access.certificate_rules import Authority
from bayplan.controllers.access.cluster_role_aggregation import ClusterRoleAggregationController
from bayplan.controllers.access.legacy_tokens import LegacyTokenCleaner
from bayplan.controllers.access.pod_certificate_requests import PodCertificateRequestCleaner
from bayplan.controllers.access.service_account_tokens import ServiceAccountTokensController, TokenSigner
from bayplan.controllers.access.serviceaccount import RootCaPublisher, ServiceAccountController
from bayplan.controllers.access.trust_bundles import TrustBundlePublisher
from bayplan.controllers.autoscaling.horizontal_pod_autoscaler import HorizontalPodAutoscalerController
from bayplan.controllers.autoscaling.vertical_autoscaler import VerticalAutoscalerController
from bayplan.controllers.base import Controller, ControllerContext
from bayplan.controllers.cleanup.garbage_collector import GarbageCollector
from bayplan.controllers.cleanup.namespace import NamespaceController
from bayplan.controllers.cleanup.pod_garbage_collector import PodGarbageCollector
from bayplan.controllers.cleanup.storage_version_garbage_collector import StorageVersionGarbageCollector
from bayplan.controllers.cleanup.storage_version_migrator import StorageVersionMigratorController
from bayplan.controllers.cleanup.ttl_after_finished import TtlAfterFinishedController
from bayplan.controllers.networking.endpoints import EndpointsController
from bayplan.controllers.networking.endpointslice import EndpointSliceController
from bayplan.controllers.networking.endpointslice_mirroring import EndpointSliceMirroringController
from bayplan.controllers.networking.service_cidrs import ServiceCIDRsController
from bayplan.controllers.networking.service_load_balancers import ServiceLoadBalancerController
from bayplan.controllers.nodes.affinity_eviction import AffinityEvictionController
from bayplan.controllers.nodes.cloud import Cloud, CloudController
from bayplan.controllers.nodes.cloud_nodes import CloudNodeController, CloudNodeLifecycleController, NodeRouteController
from bayplan.controllers.nodes.device_taint_eviction import DeviceTaintEvictionController
from bayplan.controllers.nodes.node_ipam import NodeIpamController
from bayplan.controllers.nodes.node_lifecycle import NodeLifecycleController
from bayplan.controllers.nodes.node_ttl import TtlController
from bayplan.controllers.nodes.resource_pool_status import ResourcePoolStatusRequestController
from bayplan.controllers.nodes.taint_eviction import TaintEvictionController
from bayplan.controllers.older_names import present_name
from bayplan.controllers.resource_quota import ResourceQuotaController
from bayplan.controllers.settings import ControllerSettings
from bayplan.controllers.validating_admission_policy_status import ValidatingAdmissionPolicyStatusController
from bayplan.controllers.volumes.attach_detach import AttachDetachController
from bayplan.controllers.volumes.ephemeral_volume import EphemeralVolumeController
from bayplan.controllers.volumes.resource_claim import ResourceClaimController
from bayplan.controllers.volumes.selinux_warning import SELinuxWarningController
from bayplan.controllers.volumes.volume_binder import PersistentVolumeBinder
from bayplan.controllers.volumes.volume_expander import VolumeExpander
from bayplan.controllers.volumes.volume_protection import (
    AttributesClassProtectionController,
    ClaimProtectionController,
    VolumeProtectionController,
)
from bayplan.controllers.workloads.cronjob import CronJobController
from bayplan.controllers.workloads.daemonset import DaemonSetController
from bayplan.controllers.workloads.deployment import DeploymentController
from bayplan.controllers.workloads.disruption import DisruptionController
from bayplan.controllers.workloads.job import JobController
from bayplan.controllers.workloads.pod_group_protection import PodGroupProtectionController
from bayplan.controllers.workloads.replicaset import ReplicaSetController
from bayplan.controllers.workloads.replication_controller import ReplicationManager
from bayplan.controllers.workloads.statefulset import StatefulSetController
from bayplan.informers import Informer, InformerFactory
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)
_SYNC_PATIENCE: Final = 5.0
"""Seconds that controllers wait for the first lists of kinds that only others need."""

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
    HorizontalPodAutoscalerController,
    VerticalAutoscalerController,
    DisruptionController,
    ResourceQuotaController,
    EndpointSliceController,
    EndpointsController,
    EndpointSliceMirroringController,
    NodeIpamController,
    NodeLifecycleController,
    TtlController,
    TaintEvictionController,
    DeviceTaintEvictionController,
    AffinityEvictionController,
    PodGarbageCollector,
    PersistentVolumeBinder,
    VolumeExpander,
    EphemeralVolumeController,
    AttachDetachController,
    ResourceClaimController,
    ResourcePoolStatusRequestController,
    ClaimProtectionController,
    VolumeProtectionController,
    AttributesClassProtectionController,
    PodGroupProtectionController,
    ServiceCIDRsController,
    ApprovingController,
    SigningController,
    CleanerController,
    PodCertificateRequestCleaner,
    TrustBundlePublisher,
    BootstrapSigner,
    TokenCleaner,
    LegacyTokenCleaner,
    ServiceLoadBalancerController,
    CloudNodeController,
    CloudNodeLifecycleController,
    NodeRouteController,
    StorageVersionMigratorController,
    StorageVersionGarbageCollector,
    SELinuxWarningController,
    ValidatingAdmissionPolicyStatusController,
    GarbageCollector,  # last: it follows every kind
)


_OF_CLOUDS: tuple[type[CloudController], ...] = (
    ServiceLoadBalancerController,
    CloudNodeController,
    CloudNodeLifecycleController,
    NodeRouteController,
)
"""Controllers that need a cloud; without one they do not run."""
CLUSTER_AUTOSCALER = "cluster-autoscaler"
"""A controller that is made, and imported, only where there are groups of nodes."""
DISABLED_BY_DEFAULT = (
    BootstrapSigner.name,
    TokenCleaner.name,
    SELinuxWarningController.name,
    AffinityEvictionController.name,
)
"""Controllers that `*` leaves out: three as in kube-controller-manager, and one that belongs to a feature gate of Bayplan's."""


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
        signing_authority: Authority | None = None,
        cloud: Cloud | None = None,
        autoscaler: Callable[[ControllerContext], Controller] | None = None,
        enabled: Callable[[str], bool] = lambda name: True,
        settings: ControllerSettings | None = None,
        metrics: Registry | None = None,
    ) -> None:
        settings = settings or ControllerSettings()
        self._informers = InformerFactory(client, clock, randomness)
        self._recorders: list[EventRecorder] = []
        self.controllers: list[Controller] = []
        self._needed: dict[Controller, list[Informer[Any]]] = {}
        """The informers of each."""
        makers = _makers(root_ca, token_signer, signing_authority, cloud)
        table = [(cls.name, cls.event_source or cls.name, makers.get(cls, cls)) for cls in CONTROLLERS]
        for name, source, make in (*table, (CLUSTER_AUTOSCALER, CLUSTER_AUTOSCALER, autoscaler)):
            if not enabled(name) or make is None:
                continue
            recorder = EventRecorder(client, source, clock, randomness)
            self._recorders.append(recorder)
            context = ControllerContext(client, self._informers, clock, randomness, recorder, settings, metrics)
            controller, asked = self._informers.asked_by(partial(make, context))
            self.controllers.append(controller)
            self._needed[controller] = asked

    async def run(self) -> None:
        """Start informers, wait until they are in step, then work until cancelled.

        Where a kind cannot be listed, the controllers that do not need it go on without it after `_SYNC_PATIENCE`; the others begin once it can be.
        """
        async with Supervisor("controller-manager") as tasks:
            self._informers.start()
            try:
                in_step = await self._wait_for_sync()
                for recorder in self._recorders:
                    tasks.spawn("events", recorder.run())
                for controller in self.controllers:
                    if in_step:
                        self._start(controller, tasks)
                    else:
                        tasks.spawn(f"{controller.name} start", self._start_in_step(controller, tasks))
                await asyncio.Event().wait()
            finally:
                for controller in self.controllers:
                    controller.queue.shut_down()
                await self._informers.stop()

    async def _wait_for_sync(self) -> bool:
        """Wait until all informers are in step, but not for ever. Returns whether they are. Raises what ended an informer."""
        synced = asyncio.create_task(self._informers.wait_for_sync())
        patience = asyncio.create_task(self._informers.clock.sleep(_SYNC_PATIENCE))
        try:
            await asyncio.wait({synced, patience}, return_when=asyncio.FIRST_COMPLETED)
            if synced.done():
                await synced
            return synced.done()
        finally:
            synced.cancel()
            patience.cancel()

    async def _start_in_step(self, controller: Controller, tasks: Supervisor) -> None:
        needed = self._needed[controller]
        missing = ", ".join(sorted({one.kind_name for one in needed if not one.has_synced}))
        if missing:
            logger.warning("%s waits for lists of %s", controller.name, missing)
        await self._informers.wait_for_sync(needed)
        self._start(controller, tasks)

    @staticmethod
    def _start(controller: Controller, tasks: Supervisor) -> None:
        tasks.spawn(f"{controller.name} background", controller.run_background(), actor=controller.name)
        for number in range(controller.workers):
            tasks.spawn(f"{controller.name} {number}", work(controller), actor=controller.name)


def _makers(
    root_ca: str, token_signer: TokenSigner | None, signing_authority: Authority | None, cloud: Cloud | None
) -> dict[type[Controller], Callable[[ControllerContext], Controller] | None]:
    """How controllers are made that are given more than a context; None for those that cannot run without what is missing."""
    tokens: Callable[[ControllerContext], Controller] | None = None
    signing: Callable[[ControllerContext], Controller] | None = None
    if token_signer is not None:
        tokens = partial(ServiceAccountTokensController, root_ca=root_ca, sign=token_signer)
    if signing_authority is not None:
        signing = partial(SigningController, authority=signing_authority)
    return {
        RootCaPublisher: partial(RootCaPublisher, root_ca=root_ca),
        TrustBundlePublisher: partial(TrustBundlePublisher, root_ca=root_ca),
        ServiceAccountTokensController: tokens,
        SigningController: signing,
        **{cls: None if cloud is None else partial(cls, cloud=cloud) for cls in _OF_CLOUDS},
    }


async def work(controller: Controller) -> None:
    """Reconcile what comes from a controller's queue until it is shut down."""
    await controller.queue.serve(partial(_reconcile, controller))


async def _reconcile(controller: Controller, key: str) -> None:
    """A key that fails is tried again later; nothing else is held up."""
    queue = controller.queue
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


def controller_filter(names: Sequence[str], settings: ControllerSettings | None = None) -> Callable[[str], bool]:
    """The meaning of `--controllers`: `*` for all but those that are off by default, `name` to enable, `-name` to disable; older names will do. Controllers of
    feature gates that are on by the settings are on by default. Raises ValueError for a name that is not known."""
    known = {*(cls.name for cls in CONTROLLERS), CLUSTER_AUTOSCALER}
    names = [_with_present_name(name) for name in names]
    for name in names:
        if name != "*" and name.removeprefix("-") not in known:
            raise ValueError(f"unknown controller {name.removeprefix('-')!r}; known: {', '.join(sorted(known))}")
    every = "*" in names or not names
    off = set(DISABLED_BY_DEFAULT)
    if settings is not None and AFFINITY_DURING_EXECUTION in settings.feature_gates:
        off.discard(AffinityEvictionController.name)
    return lambda name: f"-{name}" not in names and (name in names or (every and name not in off))


def _with_present_name(name: str) -> str:
    """A word of `--controllers`, with the name that the controller has today."""
    bare = name.removeprefix("-")
    return name.replace(bare, present_name(bare), 1) if bare else name
