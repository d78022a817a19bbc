"""A node on this machine: the kubelet with all that it needs of containers, cgroups, files and the API."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from bayplan.api import quantity
from bayplan.api.types import core_v1, node_v1
from bayplan.api.types.scalars import Quantity as WireQuantity
from bayplan.client import Client
from bayplan.cluster.kubelet_node.adapters import WorkerDirectories, WorkerVolumes
from bayplan.cluster.kubelet_node.cgroups import make_cgroups
from bayplan.cluster.kubelet_node.clean_up import ImageCleanUp, OrphanCleanUp
from bayplan.cluster.kubelet_node.dynamic_resources import NodeClaims
from bayplan.cluster.kubelet_node.facts import FactReader
from bayplan.cluster.kubelet_node.object import NodeObject
from bayplan.cluster.kubelet_node.options import NodeOptions
from bayplan.cluster.kubelet_node.pages import NodePages
from bayplan.cluster.kubelet_node.pod_checks import PodChecks, has_apparmor
from bayplan.cluster.kubelet_node.resources import NodeResources
from bayplan.cluster.kubelet_node.server import make_server
from bayplan.cluster.kubelet_node.storage import NodeStorage
from bayplan.informers import InformerFactory
from bayplan.kubelet.api_objects import ApiObjects
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.core.containers.dns import NodeDns, parse_resolv_conf
from bayplan.kubelet.core.containers.resources import LimitSettings
from bayplan.kubelet.core.containers.security import NodeSecurity
from bayplan.kubelet.core.eviction import Pressure, Threshold, parse_thresholds
from bayplan.kubelet.core.shutdown import grace_periods
from bayplan.kubelet.eviction_manager import EvictionManager
from bayplan.kubelet.images.accounts import ApiAccounts
from bayplan.kubelet.images.credential_plugins import CredentialPlugins
from bayplan.kubelet.images.garbage_collector import (
    Disk,
    ImageGarbageCollector,
    ImagePolicy,
)
from bayplan.kubelet.images.manager import ImageManager, ImageManagerSettings
from bayplan.kubelet.images.node_credentials import NodeCredentials
from bayplan.kubelet.images.records import PullRecords, verification_policy
from bayplan.kubelet.kubelet import Kubelet, NodeParts
from bayplan.kubelet.kubelet_metrics import KubeletMetrics
from bayplan.kubelet.logind import connect_to_logind
from bayplan.kubelet.logs.garbage import LogGarbage
from bayplan.kubelet.logs.rotation import LogRotation
from bayplan.kubelet.node.machine import CPUS, filesystem, read_machine, thermal_throttles
from bayplan.kubelet.node.status import NodeFacts
from bayplan.kubelet.node_shutdown import NodeShutdown
from bayplan.kubelet.pods.pod_builder import BuilderSettings, Cluster, NodePodBuilder
from bayplan.kubelet.pods.static_pods import StaticPodFiles
from bayplan.kubelet.pods.termination_messages import TerminationMessages
from bayplan.kubelet.resource_managers.devices.plugin_server import KIND as DEVICE_PLUGIN
from bayplan.kubelet.resource_managers.machine_topology import read_machine_topology
from bayplan.kubelet.resource_managers.reservations import with_reserved_cpus
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.stats_collector import StatsCollector
from bayplan.kubelet.usage_meter import UsageMeter
from bayplan.kubelet.user_namespaces import UserNamespaces
from bayplan.kubelet.volumes.interface import VolumeHost
from bayplan.support.blocking import in_thread
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.system.mounts import SystemMounter

logger = logging.getLogger(__name__)


class Node:
    """A kubelet on this machine."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        options: NodeOptions,
        configuration: KubeletConfiguration,
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        """Raises ConfigurationError, CgroupError."""
        self.client = client
        self.metrics = KubeletMetrics(options.name, clock)
        self.runtime = self.metrics.observed(runtime)
        self.options = options
        self.clock = clock
        self.randomness = randomness
        self.machine = read_machine()
        self.topology = read_machine_topology()
        self.configuration = configuration = with_reserved_cpus(configuration, self.topology.cpus.all())
        self.thresholds = _thresholds(configuration)
        self.fact_reader = FactReader(
            self.machine, configuration, self.thresholds, options.hostname, options.addresses, options.root
        )
        self.informers = InformerFactory(client, clock, randomness)
        self._services = self.informers.informer(core_v1.Service)
        self._runtime_classes = self.informers.informer(node_v1.RuntimeClass)
        self._objects = ApiObjects(client, clock, randomness)
        self._hierarchies, self.qos, self.cgroups = make_cgroups(configuration, clock)
        options.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.kubelet = Kubelet(
            client, options.name, configuration, self.informers, self._parts, clock=clock, randomness=randomness
        )
        self.kubelet.syncer.release = self.claims.release
        self.kubelet.syncer.allocated_resources = self.claims.statuses(self.kubelet.syncer.allocated_resources)
        self._complete()

    def _parts(self, kubelet: Kubelet) -> NodeParts:
        """What the kubelet works with."""
        options, configuration = self.options, self.configuration
        mounter = SystemMounter(in_thread)
        self._make_storage(kubelet, mounter)
        self.pull_records = PullRecords(
            options.root,
            self.clock.now,
            verification_policy(
                configuration.image_pull_credentials_verification_policy,
                configuration.preloaded_images_verification_allowlist,
            ),
        )
        self.images = self._make_images(kubelet)
        self.resources = NodeResources(
            kubelet,
            self.runtime,
            self.topology,
            configuration,
            self.fact_reader.reserved(),
            options.root,
            self.clock,
            self.metrics.registry,
        )
        self.claims = NodeClaims(kubelet, self.client, options.root, self.metrics.registry, configuration.feature_gates)
        self.resources.pod_resources.claimed = self.claims.claimed
        if self.cgroups is not None:
            self.cgroups.has_exclusive_cpus = self.resources.has_exclusive_cpus
        logs = Path(configuration.pod_logs_dir)
        return NodeParts(
            runtime=self.runtime,
            builder=self._pod_builder(kubelet, mounter),
            volumes=self.claims.volumes(WorkerVolumes(self.volumes, self.users)),
            directories=WorkerDirectories(self.qos, self.cgroups, lambda: self.kubelet.pods.active()),
            explain=TerminationMessages(in_thread).explain,
            limits=self._limits(),
            cgroups=self.cgroups,
            records=options.root,
            blocking=in_thread,
            remove_logs=LogGarbage(self.runtime, in_thread, logs, options.container_log_links).collect,
            checks=(
                lambda pod, others: self.shutdown.rejection(pod, others),
                lambda pod, others: self.evictions.rejection(pod, others),
                PodChecks(
                    configuration.allowed_unsafe_sysctls,
                    apparmor=has_apparmor(Path("/")),
                    features=self.fact_reader.still().features,
                ),
            ),
            tasks={
                **self._tasks(),
                **self.resources.tasks(),
                **self.claims.tasks(),
                **self.storage.tasks({DEVICE_PLUGIN: self.resources.plugins, **self.claims.plugins()}),
            },
            resources=self.resources.manager,
        )

    def _make_storage(self, kubelet: Kubelet, mounter: SystemMounter) -> None:
        """Make what brings volumes to pods, and the users that their files belong to."""
        options, configuration = self.options, self.configuration
        host = VolumeHost(
            root=options.root,
            node_name=options.name,
            mounter=mounter,
            objects=self._objects,
            clock=self.clock,
            randomness=self.randomness,
            blocking=in_thread,
            allocatable=self._allocatable,
            event=kubelet.events.pod,
        )
        self.storage = NodeStorage(
            host,
            self.client,
            self.informers,
            self.metrics.registry,
            node=kubelet.node,
            in_use_changed=lambda: self.node.hurry(),
        )
        self.volumes = self.storage.volumes
        self.users = UserNamespaces(
            options.root,
            in_thread,
            ids_per_pod=configuration.user_namespaces.ids_per_pod,
            max_pods=configuration.max_pods,
        )

    def _pod_builder(self, kubelet: Kubelet, mounter: SystemMounter) -> NodePodBuilder:
        """What makes of pods what the runtime is to run."""
        options, configuration = self.options, self.configuration
        return NodePodBuilder(
            self.runtime,
            self.images,
            self.volumes,
            self.users,
            self._objects,
            mounter,
            in_thread,
            kubelet.events,
            Cluster(
                services=lambda: self._services.cache,
                runtime_class=lambda name: self._runtime_classes.cache.get("", name),
                node=kubelet.node,
            ),
            BuilderSettings(
                root=options.root,
                logs=Path(configuration.pod_logs_dir),
                limits=self._limits(),
                cluster_domain=configuration.cluster_domain,
                security=NodeSecurity(
                    str(options.root / "seccomp"), configuration.seccomp_default, thermal_throttles(CPUS)
                ),
                links=options.container_log_links,
            ),
            self.randomness,
            dns=self._dns,
            cgroup_parent=self.cgroups.parent if self.cgroups is not None else lambda _: "",
            runtime_status=lambda: self.kubelet.node_state.runtime_status,
            allocations=self.claims.allocations(self.resources.manager),
        )

    def _plugins(self) -> CredentialPlugins | None:
        """The credential provider plugins, with the accounts whose tokens they may want."""
        plugins = self.options.credential_plugins
        if plugins is not None:
            plugins.accounts = ApiAccounts(self.client, self._objects.token)
        return plugins

    def _make_images(self, kubelet: Kubelet) -> ImageManager:
        configuration, root = self.configuration, self.options.root
        parallel = configuration.pulls_in_parallel()
        settings = ImageManagerSettings(
            serialize_image_pulls=parallel == 1,
            max_parallel_image_pulls=parallel or 0,
            registry_pull_qps=configuration.registry_pull_qps,
            registry_burst=configuration.registry_burst,
        )
        return ImageManager(
            self.runtime,
            kubelet.recorder,
            self.pull_records,
            self.clock,
            settings,
            node_credentials=NodeCredentials([root / "config.json", root / ".dockercfg"]),
            plugins=self._plugins(),
        )

    def _limits(self) -> LimitSettings:
        configuration, hierarchies = self.configuration, self._hierarchies
        return LimitSettings(
            memory_capacity=self.machine.memory,
            cpu_quota=configuration.cpu_cfs_quota,
            cpu_period=int(configuration.cpu_cfs_quota_period * 1_000_000),
            hugepage_sizes=tuple(hierarchies.hugepage_sizes()) if hierarchies is not None else (),
            unified=hierarchies is not None and hierarchies.is_unified and not configuration.single_process_oom_kill,
            has_exclusive_cpus=self.resources.has_exclusive_cpus,
        )

    def _dns(self) -> NodeDns:
        configuration = self.configuration
        own = None
        if configuration.resolv_conf:
            path = Path(configuration.resolv_conf)
            own = parse_resolv_conf(path.read_text(errors="replace")) if path.exists() else None
        return NodeDns(tuple(configuration.cluster_dns), configuration.cluster_domain, own, self.options.addresses)

    def _allocatable(self) -> Mapping[str, WireQuantity]:
        node = self.kubelet.node()
        return node.status.allocatable if node is not None else {}

    def _tasks(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "volumes": self.volumes.run,
            "node": lambda: self.node.run(),
            "lease": lambda: self.node.renew_lease(),
            "evictions": lambda: self.evictions.run(),
            "images": lambda: self.image_clean_up.run(),
            "orphans": lambda: self.orphan_clean_up.run(),
            "statistics": lambda: self.stats.run(),
            "shutdown": lambda: self.shutdown.run(),
            "logs": LogRotation(
                self.runtime,
                in_thread,
                self.clock,
                max_size=self.configuration.container_log_max_size,
                max_files=self.configuration.container_log_max_files,
                interval=self.configuration.container_log_monitor_interval,
                workers=self.configuration.container_log_max_workers,
            ).run,
        }
        if self.configuration.static_pod_path:
            tasks["static pods"] = lambda: StaticPodFiles(
                Path(self.configuration.static_pod_path),
                self.options.name,
                self.clock,
                self.configuration.file_check_frequency,
                self.kubelet.pods.add,
                self.kubelet.pods.delete,
            ).run()
        return tasks

    def _complete(self) -> None:
        """Make what needs the kubelet's parts."""
        configuration, kubelet = self.configuration, self.kubelet
        self.meter = UsageMeter(
            self.runtime,
            self.volumes,
            in_thread,
            kubelet.pods.active,
            root=self.options.root,
            logs=Path(configuration.pod_logs_dir),
            processes_most=self.machine.processes_most,
            qos=self.qos,
            cgroups=self.cgroups,
            pods_memory=lambda: quantity.value(self._allocatable().get("memory", 0)),
        )
        self.stats = StatsCollector(
            self.options.name,
            self.runtime,
            self.meter,
            kubelet.pods.active,
            kubelet.states.get,
            self.clock,
            root=self.options.root,
            qos=self.qos,
            cgroups=self.cgroups,
            driver=configuration.cgroup_driver,
        )
        collector = ImageGarbageCollector(
            self.runtime,
            self.clock,
            self._image_disk,
            ImagePolicy(
                configuration.image_gc_high_threshold_percent,
                configuration.image_gc_low_threshold_percent,
                configuration.image_minimum_gc_age,
                configuration.image_maximum_gc_age,
            ),
        )
        self.image_clean_up = ImageCleanUp(self.runtime, collector, self.pull_records, self.clock)
        self.orphan_clean_up = OrphanCleanUp(kubelet, self.volumes, self.users, self.qos, self.cgroups, self.clock)
        self.evictions = EvictionManager(
            Pressure(self.thresholds, configuration.eviction_pressure_transition_period),
            self.meter.measure,
            kubelet.pods.active,
            kubelet.workers,
            kubelet.events,
            kubelet.node,
            {"ephemeral-storage": self.image_clean_up.free, "inodes": self.image_clean_up.free},
            self.clock,
            most_grace=configuration.eviction_max_pod_grace_period,
            isolates_storage=configuration.local_storage_capacity_isolation,
        )
        self.node = NodeObject(kubelet, self.runtime, self.options, self.machine.architecture, self._facts)
        self.shutdown = NodeShutdown(
            grace_periods(configuration),
            connect_to_logind,
            kubelet.pods.active,
            kubelet.workers,
            kubelet.events,
            kubelet.node,
            self.node.report,
            in_thread,
            self.options.root,
            self.clock,
        )
        self.pages = NodePages(self.metrics, kubelet, self.stats, self.machine)
        self.pages.connect(self.evictions, self.shutdown)

    async def run(self, tls: ssl.SSLContext | None) -> None:
        """Run the node until cancelled. tls: with which the kubelet's server shows itself. Raises OSError where a port is taken, CgroupError, UserNamespaceError."""
        configuration = self.configuration
        self.claims.load()
        await self.users.recover()
        await self.image_clean_up.recover()
        if self.qos is not None:
            self.qos.create(self.fact_reader.pods_limits())
        server = make_server(self.kubelet, self.runtime, self.options, self.pages.by_path())
        try:
            if configuration.enable_server and tls is not None:
                await server.start(configuration.address, configuration.port, tls)
            if configuration.healthz_port:
                await server.start_health(configuration.healthz_bind_address, configuration.healthz_port)
            await self.kubelet.run()
        finally:
            await server.close()
            await self.claims.close()
            await self._objects.close()
            await self.runtime.close()

    async def _facts(self) -> NodeFacts:
        return await self.fact_reader.now(
            self.kubelet,
            self.runtime,
            self.evictions.conditions,
            await self.volumes.volumes_in_use(),
            (self.shutdown.error, self.storage.error()),
        )

    async def _image_disk(self) -> Disk:
        found = await self.meter.image_filesystem() or filesystem(self.options.root)
        return Disk(found.capacity_bytes, found.available_bytes)


def _thresholds(configuration: KubeletConfiguration) -> tuple[Threshold, ...]:
    return parse_thresholds(
        configuration.eviction_hard,
        configuration.eviction_soft,
        configuration.eviction_soft_grace_period,
        configuration.eviction_minimum_reclaim,
        merge_defaults=configuration.merge_default_eviction_settings,
        pods_are_limited="pods" in configuration.enforce_node_allocatable,
    )
