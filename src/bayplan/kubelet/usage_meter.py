"""Measures what the node and its pods use, from cgroups, the runtime and file systems."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bayplan.api.types import core_v1
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.hierarchies import CgroupUsage
from bayplan.kubelet.cgroups.pods import PodCgroups, QosCgroups
from bayplan.kubelet.core.containers.config import pod_log_directory
from bayplan.kubelet.core.usage import ContainerUsage, DiskUsage, Filesystem, NodeUsage, PodUsage
from bayplan.kubelet.eviction_manager import Usage
from bayplan.kubelet.node.machine import filesystem, meminfo
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.labels import POD_UID
from bayplan.kubelet.runtime.types import ContainerStats
from bayplan.kubelet.volumes.interface import VolumeUsage
from bayplan.kubelet.volumes.manager import VolumeManager
from bayplan.support.blocking import Blocking

_BLOCK = 512
"""Bytes of a block as stat counts them."""


def directory_usage(path: Path) -> DiskUsage:
    """What a directory takes with all below it; links are not followed, and what vanishes meanwhile is left out."""
    used = inodes = 0
    for parent, _, files in os.walk(path):
        for name in (".", *files):
            try:
                found = os.lstat(os.path.join(parent, name))
            except FileNotFoundError:
                continue
            used += found.st_blocks * _BLOCK
            inodes += 1
    return DiskUsage(used, inodes)


class UsageMeter:
    """See the module."""

    def __init__(
        self,
        runtime: Runtime,
        volumes: VolumeManager,
        blocking: Blocking,
        pods: Callable[[], Iterable[core_v1.Pod]],
        *,
        root: Path,
        logs: Path,
        processes_most: int,
        qos: QosCgroups | None,
        cgroups: PodCgroups | None,
        pods_memory: Callable[[], int],
    ) -> None:
        """root: the kubelet's directory. logs: that of pods' logs. pods_memory: bytes that all pods may use together."""
        self._runtime = runtime
        self._volumes = volumes
        self._blocking = blocking
        self._pods = pods
        self._root = root
        self._logs = logs
        self._processes_most = processes_most
        self._qos = qos
        self._cgroups = cgroups
        self._pods_memory = pods_memory
        self.last: Usage | None = None
        """What was measured last."""
        self.last_volumes: dict[str, dict[str, VolumeUsage]] = {}
        """By pod uid and name of the volume."""

    async def measure(self) -> Usage:
        """Everything, now. Raises RuntimeRequestError, OSError."""
        stats: dict[str, list[ContainerStats]] = {}
        for each in await self._runtime.container_stats():
            stats.setdefault(each.labels.get(POD_UID, ""), []).append(each)
        pods = {pod.metadata.uid: await self._pod(pod, stats.get(pod.metadata.uid, ())) for pod in list(self._pods())}
        self.last_volumes = {uid: volumes for uid, volumes in self.last_volumes.items() if uid in pods}
        self.last = Usage(await self._node(), pods)
        return self.last

    async def _node(self) -> NodeUsage:
        memory = meminfo()
        available = capacity = None
        if self._qos is not None and (capacity := self._pods_memory() or None) is not None:
            try:
                used = self._qos.usage().memory_working_set or 0
            except CgroupError:
                used = 0  # no pod has run yet
            available = capacity - used
        return NodeUsage(
            memory_available=memory.get("MemAvailable", 0),
            memory_capacity=memory.get("MemTotal", 0),
            node_filesystem=filesystem(self._root),
            image_filesystem=await self.image_filesystem(),
            processes=_processes(),
            processes_most=self._processes_most,
            pods_memory_available=available,
            pods_memory_capacity=capacity,
        )

    async def image_filesystem(self) -> Filesystem | None:
        """The file system of images; None where it is the kubelet's own. Raises RuntimeRequestError, OSError."""
        images, _ = await self._runtime.image_filesystems()
        found = await self._blocking(lambda: [_elsewhere(Path(each.mountpoint), self._root) for each in images])
        return next((each for each in found if each is not None), None)

    async def _pod(self, pod: core_v1.Pod, stats: Iterable[ContainerStats]) -> PodUsage:
        uid = pod.metadata.uid
        logs = Path(pod_log_directory(str(self._logs), pod))
        containers = {}
        for each in stats:
            layer = each.writable_layer
            containers[each.name] = ContainerUsage(
                memory=each.memory_working_set,
                cpu_nanoseconds=each.cpu_nanoseconds,
                root=DiskUsage(layer.used_bytes, layer.inodes_used) if layer is not None else None,
                logs=await self._directory(logs / each.name),
            )
        volumes = self.last_volumes[uid] = await self._volumes.usage(uid)
        ephemeral = {each.name for each in pod.spec.volumes if _is_ephemeral(each)}
        own = self._own(uid)
        return PodUsage(
            memory=own.memory_working_set,
            cpu_nanoseconds=own.cpu_nanoseconds,
            processes=own.processes,
            containers=containers,
            volumes={
                name: DiskUsage(each.used_bytes, each.inodes_used)
                for name, each in volumes.items()
                if name in ephemeral
            },
        )

    async def _directory(self, path: Path) -> DiskUsage:
        return await self._blocking(lambda: directory_usage(path))

    def _own(self, uid: str) -> CgroupUsage:
        if self._cgroups is None:
            return CgroupUsage()
        try:
            return self._cgroups.usage(uid)
        except CgroupError:
            return CgroupUsage()  # the pod has just come, or has just gone


def _elsewhere(path: Path, root: Path) -> Filesystem | None:
    """The file system of a path, if it is another one than that of `root`."""
    if not path.exists() or path.stat().st_dev == root.stat().st_dev:
        return None
    return filesystem(path)


def _is_ephemeral(volume: core_v1.Volume) -> bool:
    """Whether a volume counts as ephemeral storage of its pod."""
    empty = volume.empty_dir
    if empty is not None:
        return empty.medium in ("", None)
    sources = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(each is not None for each in sources)


def _processes() -> int:
    """How many processes and threads the machine has."""
    tasks = Path("/proc/loadavg").read_text().split()[3]
    return int(tasks.partition("/")[2])
