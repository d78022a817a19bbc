"""The pages of a node's kubelet about itself and what runs there, and how its parts come to count."""

from __future__ import annotations

from collections import Counter

from bayplan.api.types import core_v1
from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.core.pod_status import is_static
from bayplan.kubelet.eviction_manager import EvictionManager
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.kubelet_metrics import KubeletMetrics
from bayplan.kubelet.node.machine import Machine
from bayplan.kubelet.node_shutdown import NodeShutdown
from bayplan.kubelet.prober.results import ProbeType
from bayplan.kubelet.runtime.types import ContainerState, SandboxState
from bayplan.kubelet.server.server import Page
from bayplan.kubelet.server.stats import stats_pages, volume_metrics
from bayplan.kubelet.stats_collector import StatsCollector
from bayplan.support.metrics.instruments import CONTENT_TYPE

_STATES = {
    ContainerState.CREATED: "created",
    ContainerState.RUNNING: "running",
    ContainerState.EXITED: "exited",
    ContainerState.UNKNOWN: "unknown",
}


class NodePages:
    """Pages for `ServerParts.pages`."""

    def __init__(self, metrics: KubeletMetrics, kubelet: Kubelet, stats: StatsCollector, machine: Machine) -> None:
        self._metrics = metrics
        self._kubelet = kubelet
        self._stats = stats
        self._machine = machine

    def connect(self, evictions: EvictionManager, shutdown: NodeShutdown) -> None:
        """Have the kubelet's parts count what they do."""
        self._kubelet.lifecycle.on_relist = self._metrics.relisted
        self._kubelet.syncer.on_running = self._metrics.pod_start.observe
        self._kubelet.probes.on_probed = self._probed
        self._kubelet.pods.on_preemption = self._metrics.preempted
        self._kubelet.statuses.on_termination = lambda kind, ended: self._metrics.terminated(
            kind, ended.exit_code, ended.reason
        )
        evictions.on_eviction = self._metrics.evicted
        shutdown.on_times = lambda times: self._metrics.shut_down(times.start, times.end)

    def by_path(self) -> dict[str, Page]:
        """All pages."""
        pages = stats_pages(self._stats.collect, self._machine)
        return {**pages, "/metrics": self._own, "/metrics/probes": self._probes}

    def _probed(self, pod: core_v1.Pod, container: str, probe_type: ProbeType, health: Health) -> None:
        metadata = pod.metadata
        self._metrics.probed(
            container, metadata.namespace, metadata.name, metadata.uid, probe_type.value.capitalize(), health
        )

    async def _own(self) -> tuple[bytes, str]:
        metrics, kubelet = self._metrics, self._kubelet
        sandboxes = 0
        containers = Counter(dict.fromkeys(_STATES.values(), 0))
        for pod_sandboxes, pod_containers in kubelet.lifecycle.pods().values():
            sandboxes += any(each.state is SandboxState.READY for each in pod_sandboxes)
            containers.update(_STATES[each.state] for each in pod_containers)
        metrics.running_pods.set(sandboxes)
        for state, count in containers.items():
            metrics.running_containers.labels(state).set(count)
        static = sum(is_static(each) for each in kubelet.pods.all())
        metrics.desired_pods.labels("true").set(static)
        metrics.desired_pods.labels("").set(len(kubelet.pods.all()) - static)
        return metrics.registry.render() + volume_metrics(await self._stats.collect()), CONTENT_TYPE

    async def _probes(self) -> tuple[bytes, str]:
        self._metrics.forget_probes(set(self._kubelet.probes.known()))
        return self._metrics.probes.render(), CONTENT_TYPE
