"""Measures cpu, memory and network of the node and its pods every ten seconds, for statistics and metrics.

What takes long to measure, the use of disks, is taken from the last measurement of the `UsageMeter`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bayplan.api.types import core_v1
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.hierarchies import CgroupUsage
from bayplan.kubelet.cgroups.pods import PodCgroups, QosCgroups
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.pressure import NO_PRESSURES, Pressures
from bayplan.kubelet.core.stats import (
    ContainerSample,
    CpuRates,
    Interface,
    NodeSample,
    PodSample,
    Sample,
    VolumeSample,
    parse_interfaces,
)
from bayplan.kubelet.core.usage import DiskUsage, Filesystem, PodUsage
from bayplan.kubelet.node.machine import filesystem, meminfo
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.labels import POD_UID
from bayplan.kubelet.runtime.types import ContainerStats, LinuxResources
from bayplan.kubelet.usage_meter import UsageMeter
from bayplan.support.clock import Clock
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
_FRESH_SECONDS = 1.0
"""How old a measurement may be that answers a request."""


class StatsCollector:
    """See the module."""

    def __init__(
        self,
        node_name: str,
        runtime: Runtime,
        meter: UsageMeter,
        pods: Callable[[], Iterable[core_v1.Pod]],
        state_of: Callable[[str], PodState],
        clock: Clock,
        *,
        root: Path,
        qos: QosCgroups | None,
        cgroups: PodCgroups | None,
        driver: str,
    ) -> None:
        """root: the kubelet's directory. driver: cgroupfs or systemd, by which the cgroups of containers are named."""
        self._node_name = node_name
        self._runtime = runtime
        self._meter = meter
        self._pods = pods
        self._state_of = state_of
        self._clock = clock
        self._root = root
        self._qos = qos
        self._cgroups = cgroups
        self._driver = driver
        self._rates = CpuRates()
        self._started_at = clock.now()
        self._last: NodeSample | None = None
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Measure until cancelled, so that cpu use since the last time is always known."""
        while True:
            await self.collect()
            await self._clock.sleep(PERIOD_SECONDS)

    async def collect(self) -> NodeSample:
        """Everything, as it was a moment ago at most. Raises OSError."""
        async with self._lock:
            known = self._last
            if known is None or self._clock.now() - known.sample.time > _FRESH_SECONDS:
                known = self._last = await self._measure()
            return known

    async def _measure(self) -> NodeSample:
        stats: dict[str, list[ContainerStats]] = {}
        errors = 0
        try:
            for each in await self._runtime.container_stats():
                stats.setdefault(each.labels.get(POD_UID, ""), []).append(each)
        except RuntimeRequestError as error:
            logger.warning("containers cannot be measured: %s", error)
            errors += 1
        usage = self._meter.last
        pods = tuple(self._pod(each, stats.get(each.metadata.uid, ())) for each in self._pods())
        self._rates.forget_all_but(
            {"", "pods"} | {pod.uid for pod in pods} | {each.container_id for pod in pods for each in pod.containers}
        )
        node = usage.node if usage is not None else None
        images = node.image_filesystem if node is not None else None
        return NodeSample(
            name=self._node_name,
            started_at=self._started_at,
            sample=self._node_sample(),
            filesystem=filesystem(self._root),
            image_filesystem=images,
            interfaces=_interfaces("self"),
            pods_sample=self._all_pods(),
            processes=node.processes if node is not None else None,
            processes_most=node.processes_most if node is not None else None,
            pods=pods,
            errors=errors,
        )

    def _node_sample(self) -> Sample:
        time, memory, cpu = self._clock.now(), meminfo(), cpu_nanoseconds(Path("/proc/stat").read_text())
        total, available = memory.get("MemTotal", 0), memory.get("MemAvailable", 0)
        return Sample(
            time=time,
            cpu_nanoseconds=cpu,
            nano_cores=self._rates.rate("", time, cpu),
            memory_usage=total - memory.get("MemFree", 0),
            memory_working_set=total - available,
            memory_rss=memory.get("AnonPages"),
            memory_available=available,
            pressures=self._qos.node_pressures() if self._qos is not None else NO_PRESSURES,
        )

    def _all_pods(self) -> Sample | None:
        if self._qos is None:
            return None
        try:
            return self._sample("pods", self._qos.usage())
        except CgroupError:
            return None  # the cgroup of all pods is made when the node starts

    def _sample(self, key: str, usage: CgroupUsage) -> Sample:
        time = self._clock.now()
        available = None
        if usage.memory_limit and usage.memory_working_set is not None:
            available = max(usage.memory_limit - usage.memory_working_set, 0)
        return Sample(
            time=time,
            cpu_nanoseconds=usage.cpu_nanoseconds,
            nano_cores=self._rates.rate(key, time, usage.cpu_nanoseconds),
            memory_usage=usage.memory_usage,
            memory_working_set=usage.memory_working_set,
            memory_rss=usage.memory_rss,
            memory_available=available,
            page_faults=usage.page_faults,
            major_page_faults=usage.major_page_faults,
            pressures=usage.pressures,
        )

    def _pod(self, pod: core_v1.Pod, stats: Iterable[ContainerStats]) -> PodSample:
        uid = pod.metadata.uid
        usage = self._meter.last
        disks = usage.pods.get(uid) if usage is not None else None
        path = self._cgroups.path(uid) if self._cgroups is not None else ""
        own = self._own(path) if path else CgroupUsage()
        state = self._state_of(uid)
        containers = tuple(each for one in stats if (each := self._container(one, state, disks, path)) is not None)
        start = pod.status.start_time or pod.metadata.creation_timestamp
        return PodSample(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            uid=uid,
            started_at=parse_rfc3339(start) if start else self._started_at,
            sample=self._sample(uid, own) if path else _together(self._clock.now(), containers),
            containers=containers,
            interfaces=self._pod_interfaces(pod, path) if path else (),
            volumes=self._volumes(pod),
            ephemeral=disks.disk(roots=True, logs=True, volumes=True) if disks is not None else None,
            processes=own.processes,
            cgroup=path,
        )

    def _own(self, path: str) -> CgroupUsage:
        assert self._cgroups is not None
        try:
            return self._cgroups.usage_at(path)
        except CgroupError:
            return CgroupUsage()  # the pod has just gone

    def _container(
        self, stats: ContainerStats, state: PodState, disks: PodUsage | None, path: str
    ) -> ContainerSample | None:
        status = state.latest(stats.name)
        if status is None or status.container.id != stats.container_id:
            return None  # one that has ended, or that nobody has looked at yet
        time = stats.timestamp / 1e9 if stats.timestamp else self._clock.now()
        disk = disks.containers.get(stats.name) if disks is not None else None
        limits = status.resources or LinuxResources()
        unit = f"cri-containerd-{stats.container_id}.scope" if self._driver == "systemd" else stats.container_id
        cgroup = f"{path}/{unit}" if path else ""
        layer = stats.writable_layer
        return ContainerSample(
            name=stats.name,
            container_id=stats.container_id,
            image=status.image or status.container.image,
            started_at=status.started_at / 1e9,
            sample=Sample(
                time=time,
                cpu_nanoseconds=stats.cpu_nanoseconds,
                nano_cores=self._rates.rate(stats.container_id, time, stats.cpu_nanoseconds),
                memory_usage=stats.memory_usage,
                memory_working_set=stats.memory_working_set,
                memory_rss=stats.memory_rss,
                memory_available=stats.memory_available if limits.memory_limit else None,  # runtimes say 0 for no limit
                page_faults=stats.page_faults,
                major_page_faults=stats.major_page_faults,
                pressures=self._pressures(cgroup),
            ),
            root=DiskUsage(layer.used_bytes, layer.inodes_used) if layer is not None else None,
            logs=disk.logs if disk is not None else None,
            cgroup=cgroup,
            memory_limit=limits.memory_limit,
            cpu_shares=limits.cpu_shares,
            cpu_quota=limits.cpu_quota,
            cpu_period=limits.cpu_period,
        )

    def _pressures(self, cgroup: str) -> Pressures:
        return self._cgroups.container_pressures(cgroup) if self._cgroups is not None and cgroup else NO_PRESSURES

    def _pod_interfaces(self, pod: core_v1.Pod, path: str) -> tuple[Interface, ...]:
        """Those of the network that a process of the pod is in; none for pods in the node's own."""
        if pod.spec.host_network or self._cgroups is None:
            return ()
        pid = self._cgroups.any_pid_at(path)
        return _interfaces(str(pid)) if pid is not None else ()

    def _volumes(self, pod: core_v1.Pod) -> tuple[VolumeSample, ...]:
        claims = _claims(pod)
        return tuple(
            VolumeSample(
                name,
                DiskUsage(each.used_bytes, each.inodes_used),
                Filesystem(each.available_bytes, each.capacity_bytes, each.inodes_free, each.inodes),
                claims.get(name, ""),
            )
            for name, each in self._meter.last_volumes.get(pod.metadata.uid, {}).items()
        )


def _claims(pod: core_v1.Pod) -> Mapping[str, str]:
    """Volume -> claim, also those that are made for the pod."""
    found = {}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found[volume.name] = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            found[volume.name] = f"{pod.metadata.name}-{volume.name}"
    return found


def _together(time: float, containers: Iterable[ContainerSample]) -> Sample:
    """What containers use together, where their pod has no cgroup of its own."""
    samples = [each.sample for each in containers]
    rates = [each.nano_cores for each in samples if each.nano_cores is not None]
    return Sample(
        time=time,
        cpu_nanoseconds=sum(each.cpu_nanoseconds or 0 for each in samples),
        nano_cores=sum(rates) if rates else None,
        memory_usage=sum(each.memory_usage or 0 for each in samples),
        memory_working_set=sum(each.memory_working_set or 0 for each in samples),
    )


def _interfaces(process: str) -> tuple[Interface, ...]:
    try:
        return parse_interfaces(Path("/proc", process, "net/dev").read_text())
    except OSError:
        return ()  # the process has just ended


def cpu_nanoseconds(stat: str) -> int:
    """Cpu time that the machine has used, from /proc/stat: all but idle time, waiting and what guests used (which counts as the host's already)."""
    fields = [int(each) for each in stat.splitlines()[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, stolen = (fields + [0] * 8)[:8]
    return (user + nice + system + interrupts + soft + stolen) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
