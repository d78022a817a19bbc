"""Pages about what the node and its pods use: /stats/summary, /metrics/resource and /metrics/cadvisor, under Kubernetes' names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import itemgetter

import msgspec

from bayplan.kubelet.core.stats import ContainerSample, NodeSample, PodSample, Sample, summary
from bayplan.kubelet.node.machine import Machine
from bayplan.kubelet.server.server import Page
from bayplan.support.metrics.instruments import CONTENT_TYPE, Registry

Collect = Callable[[], Awaitable[NodeSample]]
_CADVISOR_LABELS = ("container", "id", "image", "name", "namespace", "pod")


def stats_pages(collect: Collect, machine: Machine) -> dict[str, Page]:
    """Pages by path, for `ServerParts.pages`."""

    async def summary_page() -> tuple[bytes, str]:
        return msgspec.json.encode(summary(await collect())), "application/json"

    async def resource_page() -> tuple[bytes, str]:
        return resource_metrics(await collect()), CONTENT_TYPE

    async def cadvisor_page() -> tuple[bytes, str]:
        return cadvisor_metrics(await collect(), machine), CONTENT_TYPE

    return {
        "/stats/summary": summary_page,
        "/metrics/resource": resource_page,
        "/metrics/cadvisor": cadvisor_page,
    }


def resource_metrics(node: NodeSample) -> bytes:
    """/metrics/resource: what metrics-server reads."""
    figures = _Figures()
    figures.usage("node", (), (), node.sample)
    for pod in node.pods:
        figures.usage("pod", ("pod", "namespace"), (pod.name, pod.namespace), pod.sample)
        for each in pod.containers:
            labels = ("container", "pod", "namespace")
            values = (each.name, pod.name, pod.namespace)
            figures.usage("container", labels, values, each.sample)
            figures.gauge("container_start_time_seconds", labels, values, each.started_at)
    for name in ("scrape_error", "resource_scrape_error"):
        figures.gauge(name, (), (), float(node.errors > 0))
    return figures.registry.render()


def cadvisor_metrics(node: NodeSample, machine: Machine) -> bytes:
    """/metrics/cadvisor: the series that dashboards and alerts use. The root cgroup is the node, a series without a container the pod."""
    figures = _Figures()
    figures.gauge("machine_cpu_cores", ("machine_id",), (machine.machine_id,), machine.processors)
    figures.gauge("machine_memory_bytes", ("machine_id",), (machine.machine_id,), machine.memory)
    figures.gauge("machine_swap_bytes", ("machine_id",), (machine.machine_id,), machine.swap)
    figures.cgroup(("", "/", "", "", "", ""), node.sample)
    for pod in node.pods:
        values = ("", pod.cgroup, "", "", pod.namespace, pod.name)
        figures.cgroup(values, pod.sample)
        figures.gauge("container_start_time_seconds", _CADVISOR_LABELS, values, pod.started_at)
        if pod.processes is not None:
            figures.gauge("container_processes", _CADVISOR_LABELS, values, pod.processes)
        figures.network(pod)
        for each in pod.containers:
            figures.container(pod, each)
    return figures.registry.render()


def volume_metrics(node: NodeSample) -> bytes:
    """Series of /metrics about volumes of claims, each claim once however many pods have it (volume_stats.go)."""
    figures = _Figures()
    labels = ("namespace", "persistentvolumeclaim")
    claims = {(pod.namespace, each.claim): each for pod in reversed(node.pods) for each in reversed(pod.volumes)}
    for claim, volume in sorted(claims.items(), key=itemgetter(0)):
        if not claim[1]:
            continue  # a volume without a claim
        where = volume.filesystem
        figures.gauge("kubelet_volume_stats_capacity_bytes", labels, claim, where.capacity_bytes)
        figures.gauge("kubelet_volume_stats_available_bytes", labels, claim, where.available_bytes)
        figures.gauge("kubelet_volume_stats_used_bytes", labels, claim, volume.used.used_bytes)
        figures.gauge("kubelet_volume_stats_inodes", labels, claim, where.inodes)
        figures.gauge("kubelet_volume_stats_inodes_free", labels, claim, where.inodes_free)
        figures.gauge("kubelet_volume_stats_inodes_used", labels, claim, volume.used.inodes)
    return figures.registry.render()


class _Figures:
    """A registry that is filled once."""

    def __init__(self) -> None:
        self.registry = Registry()

    def gauge(self, name: str, labels: tuple[str, ...], values: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            self.registry.gauge(name, _HELP.get(name, name), labels).labels(*values).set(value)

    def counter(self, name: str, labels: tuple[str, ...], values: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            self.registry.counter(name, _HELP.get(name, name), labels).labels(*values).inc(value)

    def usage(self, what: str, labels: tuple[str, ...], values: tuple[str, ...], sample: Sample) -> None:
        """Cpu and memory of a node, pod or container."""
        self.counter(f"{what}_cpu_usage_seconds_total", labels, values, _seconds(sample.cpu_nanoseconds))
        self.gauge(f"{what}_memory_working_set_bytes", labels, values, sample.memory_working_set)

    def cgroup(self, values: tuple[str, ...], sample: Sample) -> None:
        """Cpu, memory and pressure of a cgroup, values of `_CADVISOR_LABELS`."""
        labels = _CADVISOR_LABELS
        self.counter(
            "container_cpu_usage_seconds_total", (*labels, "cpu"), (*values, "total"), _seconds(sample.cpu_nanoseconds)
        )
        self.gauge("container_memory_usage_bytes", labels, values, sample.memory_usage)
        self.gauge("container_memory_working_set_bytes", labels, values, sample.memory_working_set)
        self.gauge("container_memory_rss", labels, values, sample.memory_rss)
        self.gauge("container_last_seen", labels, values, sample.time)
        faults = (("pgfault", sample.page_faults), ("pgmajfault", sample.major_page_faults))
        for kind, count in faults:
            self.counter(
                "container_memory_failures_total",
                (*labels, "failure_type", "scope"),
                (*values, kind, "container"),
                count,
            )
        self._pressures(values, sample)

    def _pressures(self, values: tuple[str, ...], sample: Sample) -> None:
        resources = (("cpu", sample.pressures.cpu), ("memory", sample.pressures.memory), ("io", sample.pressures.io))
        for resource, pressure in resources:
            if pressure is not None:
                name = f"container_pressure_{resource}"
                self.counter(f"{name}_waiting_seconds_total", _CADVISOR_LABELS, values, pressure.some.total / 1e6)
                self.counter(f"{name}_stalled_seconds_total", _CADVISOR_LABELS, values, pressure.full.total / 1e6)

    def container(self, pod: PodSample, container: ContainerSample) -> None:
        labels = _CADVISOR_LABELS
        values = (
            container.name,
            container.cgroup,
            container.image,
            container.container_id,
            pod.namespace,
            pod.name,
        )
        self.cgroup(values, container.sample)
        self.gauge("container_start_time_seconds", labels, values, container.started_at)
        if container.root is not None:
            self.gauge("container_fs_usage_bytes", (*labels, "device"), (*values, ""), container.root.used_bytes)
        self.gauge("container_spec_memory_limit_bytes", labels, values, container.memory_limit)
        self.gauge("container_spec_cpu_shares", labels, values, container.cpu_shares)
        if container.cpu_quota > 0:
            self.gauge("container_spec_cpu_quota", labels, values, container.cpu_quota)
            self.gauge("container_spec_cpu_period", labels, values, container.cpu_period)

    def network(self, pod: PodSample) -> None:
        """Interfaces of a pod, which all of its containers share."""
        labels = (*_CADVISOR_LABELS, "interface")
        for each in pod.interfaces:
            values = ("", pod.cgroup, "", "", pod.namespace, pod.name, each.name)
            self.counter("container_network_receive_bytes_total", labels, values, each.received)
            self.counter("container_network_receive_errors_total", labels, values, each.receive_errors)
            self.counter("container_network_transmit_bytes_total", labels, values, each.sent)
            self.counter("container_network_transmit_errors_total", labels, values, each.send_errors)


def _seconds(nanoseconds: int | None) -> float | None:
    return nanoseconds / 1e9 if nanoseconds is not None else None


_HELP = {
    "kubelet_volume_stats_capacity_bytes": "Capacity in bytes of the volume",
    "kubelet_volume_stats_available_bytes": "Number of available bytes in the volume",
    "kubelet_volume_stats_used_bytes": "Number of used bytes in the volume",
    "kubelet_volume_stats_inodes": "Maximum number of inodes in the volume",
    "kubelet_volume_stats_inodes_free": "Number of free inodes in the volume",
    "kubelet_volume_stats_inodes_used": "Number of used inodes in the volume",
    "node_cpu_usage_seconds_total": "Cpu time that the node has used, in seconds of one core",
    "node_memory_working_set_bytes": "Working set of the node in bytes",
    "pod_cpu_usage_seconds_total": "Cpu time that the pod has used, in seconds of one core",
    "pod_memory_working_set_bytes": "Working set of the pod in bytes",
    "container_cpu_usage_seconds_total": "Cpu time that the container has used, in seconds of one core",
    "container_memory_working_set_bytes": "Working set of the container in bytes",
    "container_start_time_seconds": "When the container was started, in seconds since 1970",
    "scrape_error": "1 if something could not be measured, 0 otherwise",
    "resource_scrape_error": "1 if something could not be measured, 0 otherwise",
    "machine_cpu_cores": "Processors of the machine",
    "machine_memory_bytes": "Memory of the machine in bytes",
    "container_last_seen": "When the container was last measured, in seconds since 1970",
}
