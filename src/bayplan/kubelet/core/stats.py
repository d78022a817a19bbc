"""What a node and its pods use, as /stats/summary shows it (stats/v1alpha1 of Kubernetes). Pure: samples in, trees out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.kubelet.core.pressure import NO_PRESSURES, Pressure, Pressures, Stall
from bayplan.kubelet.core.usage import DiskUsage, Filesystem
from bayplan.support.timestamps import rfc3339


@dataclass(frozen=True, slots=True)
class Sample:
    """Cpu and memory of something at a Unix time. `nano_cores` is the use since the sample before; None where nothing is known."""

    time: float
    cpu_nanoseconds: int | None = None
    nano_cores: int | None = None
    memory_usage: int | None = None
    memory_working_set: int | None = None
    memory_rss: int | None = None
    memory_available: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    pressures: Pressures = NO_PRESSURES


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface since its start: bytes and errors."""

    name: str
    received: int
    receive_errors: int
    sent: int
    send_errors: int


@dataclass(frozen=True, slots=True)
class VolumeSample:
    """A volume of a pod, with the claim that it stands for if any. The sizes are of its file system."""

    name: str
    used: DiskUsage
    filesystem: Filesystem
    claim: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSample:
    """A container that runs. `cgroup` is its path below the mount points."""

    name: str
    container_id: str
    image: str
    started_at: float
    sample: Sample
    root: DiskUsage | None = None
    logs: DiskUsage | None = None
    cgroup: str = ""
    memory_limit: int = 0
    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0


@dataclass(frozen=True, slots=True)
class PodSample:
    """A pod that runs. Pods in the node's network have no interfaces of their own."""

    name: str
    namespace: str
    uid: str
    started_at: float
    sample: Sample
    containers: tuple[ContainerSample, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    volumes: tuple[VolumeSample, ...] = ()
    ephemeral: DiskUsage | None = None
    processes: int | None = None
    cgroup: str = ""


@dataclass(frozen=True, slots=True)
class NodeSample:
    """The node with its pods."""

    name: str
    started_at: float
    sample: Sample
    filesystem: Filesystem
    image_filesystem: Filesystem | None = None
    images_used: DiskUsage | None = None
    interfaces: tuple[Interface, ...] = ()
    pods_sample: Sample | None = None
    """All pods together."""
    processes: int | None = None
    processes_most: int | None = None
    pods: tuple[PodSample, ...] = ()
    errors: int = 0
    """Parts that could not be measured."""


@dataclass(slots=True)
class CpuRates:
    """Remembers the last cpu counter of each thing, by whatever names it, to tell what it used since then."""

    _last: dict[str, tuple[float, int, int | None]] = field(default_factory=dict)

    def rate(self, key: str, time: float, cpu_nanoseconds: int | None) -> int | None:
        """Billionths of a cpu that were used between the last two measurements; None after the first one. A counter that fell begins anew.

        >>> rates = CpuRates()
        >>> rates.rate("a", 10.0, 0), rates.rate("a", 12.0, 1_000_000_000)
        (None, 500000000)
        """
        if cpu_nanoseconds is None:
            return None
        before = self._last.get(key)
        if before is not None and time <= before[0]:
            return before[2]
        used = None
        if before is not None and cpu_nanoseconds >= before[1]:
            used = round((cpu_nanoseconds - before[1]) / (time - before[0]))
        self._last[key] = time, cpu_nanoseconds, used
        return used

    def forget_all_but(self, keys: set[str]) -> None:
        """Forget what is not there any more."""
        for key in self._last.keys() - keys:
            del self._last[key]


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """/proc/PID/net/dev without the loopback interface."""
    found = []
    for line in text.splitlines()[2:]:
        name, _, counters = line.partition(":")
        numbers = [int(each) for each in counters.split()]
        if name.strip() != "lo" and len(numbers) >= 11:
            found.append(Interface(name.strip(), numbers[0], numbers[2], numbers[8], numbers[10]))
    return tuple(found)


def summary(node: NodeSample) -> dict[str, Any]:
    """The whole of /stats/summary."""
    shown: dict[str, Any] = {
        "nodeName": node.name,
        "startTime": rfc3339(node.started_at),
        **_usage(node.sample),
        "fs": _filesystem(node.sample.time, node.filesystem, None),
    }
    if node.pods_sample is not None:
        pods = {"name": "pods", "startTime": rfc3339(node.started_at), **_usage(node.pods_sample)}
        shown["systemContainers"] = [pods]
    if node.interfaces:
        shown["network"] = _network(node.sample.time, node.interfaces)
    images = _filesystem(node.sample.time, node.image_filesystem or node.filesystem, node.images_used)
    shown["runtime"] = {"imageFs": images, "containerFs": images}
    if node.processes is not None:
        shown["rlimit"] = {
            "time": rfc3339(node.sample.time),
            "maxpid": node.processes_most,
            "curproc": node.processes,
        }
    return {"node": shown, "pods": [_pod(each, node) for each in node.pods]}


def _pod(pod: PodSample, node: NodeSample) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": rfc3339(pod.started_at),
        "containers": [_container(each, node) for each in pod.containers],
        **_usage(pod.sample),
    }
    if pod.interfaces:
        shown["network"] = _network(pod.sample.time, pod.interfaces)
    if pod.volumes:
        shown["volume"] = [_volume(each, pod, node.sample.time) for each in pod.volumes]
    if pod.ephemeral is not None:
        shown["ephemeral-storage"] = _filesystem(node.sample.time, node.filesystem, pod.ephemeral)
    if pod.processes is not None:
        shown["process_stats"] = {"process_count": pod.processes}
    return shown


def _container(container: ContainerSample, node: NodeSample) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": container.name,
        "startTime": rfc3339(container.started_at),
        **_usage(container.sample),
    }
    if container.root is not None:
        where = node.image_filesystem or node.filesystem
        shown["rootfs"] = _filesystem(container.sample.time, where, container.root)
    if container.logs is not None:
        shown["logs"] = _filesystem(container.sample.time, node.filesystem, container.logs)
    return shown


def _volume(volume: VolumeSample, pod: PodSample, time: float) -> dict[str, Any]:
    shown = {"name": volume.name, **_filesystem(time, volume.filesystem, volume.used)}
    if volume.claim:
        shown["pvcRef"] = {"name": volume.claim, "namespace": pod.namespace}
    return shown


def _usage(sample: Sample) -> dict[str, Any]:
    time = rfc3339(sample.time)
    cpu = {"usageNanoCores": sample.nano_cores, "usageCoreNanoSeconds": sample.cpu_nanoseconds}
    memory = {
        "availableBytes": sample.memory_available,
        "usageBytes": sample.memory_usage,
        "workingSetBytes": sample.memory_working_set,
        "rssBytes": sample.memory_rss,
        "pageFaults": sample.page_faults,
        "majorPageFaults": sample.major_page_faults,
    }
    pressures = sample.pressures
    shown = {
        "cpu": {"time": time, **_known(cpu), **_psi(pressures.cpu)},
        "memory": {"time": time, **_known(memory), **_psi(pressures.memory)},
    }
    if pressures.io is not None:
        shown["io"] = {"time": time, **_psi(pressures.io)}
    return shown


def _psi(pressure: Pressure | None) -> dict[str, Any]:
    return {"psi": {"full": _stall(pressure.full), "some": _stall(pressure.some)}} if pressure is not None else {}


def _stall(stall: Stall) -> dict[str, Any]:
    """PSIData. Its total is the kernel's microseconds, as kubelet passes them on."""
    return {"total": stall.total, "avg10": stall.avg10, "avg60": stall.avg60, "avg300": stall.avg300}


def _known(figures: Mapping[str, int | None]) -> dict[str, int]:
    return {name: figure for name, figure in figures.items() if figure is not None}


def _filesystem(time: float, where: Filesystem, used: DiskUsage | None) -> dict[str, Any]:
    """used: what of the file system is meant; None for all that is in use."""
    return {
        "time": rfc3339(time),
        "availableBytes": where.available_bytes,
        "capacityBytes": where.capacity_bytes,
        "usedBytes": used.used_bytes if used is not None else where.capacity_bytes - where.available_bytes,
        "inodesFree": where.inodes_free,
        "inodes": where.inodes,
        "inodesUsed": used.inodes if used is not None else where.inodes - where.inodes_free,
    }


def _network(time: float, interfaces: tuple[Interface, ...]) -> dict[str, Any]:
    shown = [
        {
            "name": each.name,
            "rxBytes": each.received,
            "rxErrors": each.receive_errors,
            "txBytes": each.sent,
            "txErrors": each.send_errors,
        }
        for each in interfaces
    ]
    first = next((each for each in shown if each["name"] == "eth0"), shown[0])
    return {"time": rfc3339(time), **first, "interfaces": shown}
