"""The cgroups that a kubelet makes: of all pods, of the classes of service, of each pod."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.api.defaults.pods import qos_class
from bayplan.api.types import core_v1
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.hierarchies import CgroupUsage, Hierarchies
from bayplan.kubelet.cgroups.names import (
    POD_PREFIX,
    Name,
    child_name,
    class_name,
    parent_for_runtime,
    path_of,
    pod_name,
    pods_root,
)
from bayplan.kubelet.core.pressure import Pressures
from bayplan.kubelet.core.resources import (
    CPU_PERIOD,
    CgroupResources,
    node_cgroup_resources,
    pod_cgroup_resources,
    qos_resources,
)
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_CLASSES = ("Guaranteed", "Burstable", "BestEffort")
_KILL_SECONDS = 10.0
"""How long processes may take to end after SIGKILL."""
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class CgroupSettings:
    """KubeletConfiguration: cgroupRoot, cgroupDriver, cpuCFSQuota, cpuCFSQuotaPeriod (microseconds), podPidsLimit, qosReserved for memory (percent)."""

    root: Name = ()
    driver: str = "cgroupfs"
    cpu_quota: bool = True
    cpu_period: int = CPU_PERIOD
    pids_limit: int = -1
    reserved_memory_percent: int = 0


class QosCgroups:
    """The cgroup of all pods and those of the classes below it."""

    def __init__(self, hierarchies: Hierarchies, settings: CgroupSettings) -> None:
        self._hierarchies = hierarchies
        self._settings = settings

    def create(self, allocatable: Mapping[str, str | int | float]) -> None:
        """Make them, limited by what the node has for pods: its allocatable, or its capacity where `enforceNodeAllocatable` does not name pods. Raises
        CgroupError."""
        self._hierarchies.create(self._path(pods_root(self._settings.root)), node_cgroup_resources(allocatable))
        limits = qos_resources((), self._hierarchies.hugepage_sizes())
        self._hierarchies.create(self._path(class_name(self._settings.root, "Burstable")), limits.burstable)
        self._hierarchies.create(self._path(class_name(self._settings.root, "BestEffort")), limits.best_effort)

    def enforce(self, allocatable: Mapping[str, str | int | float]) -> None:
        """Limit all pods together anew. Raises CgroupError, as while they use more memory than that: try again in a minute."""
        self._hierarchies.update(self._path(pods_root(self._settings.root)), node_cgroup_resources(allocatable))

    def update(self, pods: Iterable[core_v1.Pod], allocatable_memory: int = 0) -> None:
        """Set the limits of the classes for the pods that run; every minute, and when pods come and go. Raises CgroupError.

        A class that uses more memory already than it is to have gets what it uses, so that it does not grow.
        """
        limits = qos_resources(
            pods,
            self._hierarchies.hugepage_sizes(),
            allocatable_memory=allocatable_memory,
            reserved_memory_percent=self._settings.reserved_memory_percent,
        )
        for kind, wanted in (("Burstable", limits.burstable), ("BestEffort", limits.best_effort)):
            path = self._path(class_name(self._settings.root, kind))
            try:
                self._hierarchies.update(path, wanted)
            except CgroupError:
                used = self._hierarchies.usage(path).memory_usage or 0
                if wanted.memory is None or used <= wanted.memory:
                    raise
                self._hierarchies.update(path, CgroupResources(wanted.cpu_shares, memory=used))

    def enforce_reserved(self, cgroup: str, reserved: Mapping[str, str | int | float]) -> None:
        """Limit a cgroup that others have made, such as that of the system's own processes, to what is reserved for it (systemReservedCgroup,
        kubeReservedCgroup). Raises CgroupError if it is not there."""
        path = "/" + cgroup.strip("/")
        if not self._hierarchies.exists(path):
            raise CgroupError(f"{path}: there is no such cgroup, and the kubelet does not make it")
        self._hierarchies.update(path, node_cgroup_resources(reserved))

    async def remove(self, clock: Clock) -> None:
        """Remove all of them, with all pods' and their processes: the node is taken away. Raises CgroupError."""
        await kill_and_remove(self._hierarchies, self._path(pods_root(self._settings.root)), clock)

    def usage(self) -> CgroupUsage:
        """What all pods use together. Raises CgroupError."""
        return self._hierarchies.usage(self._path(pods_root(self._settings.root)))

    def node_pressures(self) -> Pressures:
        """What all tasks of the machine wait for."""
        return self._hierarchies.pressures("/")

    def _path(self, name: Name) -> str:
        return path_of(name, self._settings.driver)


class PodCgroups:
    """The cgroups of pods, found by uid whatever class a pod has."""

    def __init__(self, hierarchies: Hierarchies, settings: CgroupSettings, clock: Clock) -> None:
        self._hierarchies = hierarchies
        self._settings = settings
        self._clock = clock
        self.has_exclusive_cpus: Callable[[core_v1.Pod], bool] = lambda _: False
        """Whether a pod has CPUs of its own, which no quota is to slow down."""

    def create(self, pod: core_v1.Pod) -> None:
        """Make a pod's cgroup, if it is not there. Raises CgroupError."""
        path = self._path(pod)
        if not self._hierarchies.exists(path):
            self._hierarchies.create(path, self.resources(pod))

    def update(self, pod: core_v1.Pod) -> None:
        """Set a pod's limits anew. Raises CgroupError."""
        self._hierarchies.update(self._path(pod), self.resources(pod))

    def set_resources(self, pod: core_v1.Pod, resources: CgroupResources) -> None:
        """Set some of a pod's limits, as a resize does in its order. Raises CgroupError."""
        self._hierarchies.update(self._path(pod), resources)

    def resources(self, pod: core_v1.Pod) -> CgroupResources:
        """The limits that a pod's cgroup is to have."""
        return pod_cgroup_resources(
            pod,
            enforce_cpu_limits=self._settings.cpu_quota and not self.has_exclusive_cpus(pod),
            cpu_period=self._settings.cpu_period,
            pids_limit=self._settings.pids_limit,
        )

    def limits(self, pod: core_v1.Pod) -> CgroupResources:
        """What a pod's cgroup has of cpu and memory now. Raises CgroupError."""
        return self._hierarchies.limits(self._path(pod))

    def memory_usage(self, pod: core_v1.Pod) -> int | None:
        """Bytes that a pod uses; None where the kernel does not tell. Raises CgroupError."""
        return self._hierarchies.usage(self._path(pod)).memory_usage

    def exists(self, pod: core_v1.Pod) -> bool:
        """Whether a pod's cgroup is there."""
        return self._hierarchies.exists(self._path(pod))

    def parent(self, pod: core_v1.Pod) -> str:
        """A pod's cgroup as the runtime is given it (`SandboxConfig.cgroup_parent`)."""
        return parent_for_runtime(self._name(pod), self._settings.driver)

    def list(self) -> dict[str, Name]:
        """Uid -> name of all pods' cgroups that are there, also of pods that nobody knows any more."""
        found: dict[str, Name] = {}
        for kind in _CLASSES:
            parent = class_name(self._settings.root, kind)
            for directory in self._hierarchies.children(path_of(parent, self._settings.driver)):
                name = child_name(parent, directory, self._settings.driver)
                if name is not None and name[-1].startswith(POD_PREFIX):
                    found[name[-1].removeprefix(POD_PREFIX)] = name
        return found

    def any_pid(self, uid: str) -> int | None:
        """A process of a pod; None for a pod without any."""
        path = self.path(uid)
        return self.any_pid_at(path) if path else None

    def any_pid_at(self, path: str) -> int | None:
        """As `any_pid`, where the pod's cgroup is known."""
        return self._hierarchies.any_pid(path)

    def path(self, uid: str) -> str:
        """Where a pod's cgroup is below the mount points; empty for a pod without one."""
        paths = [path_of(pod_name(self._settings.root, kind, uid), self._settings.driver) for kind in _CLASSES]
        return self._hierarchies.first_found(paths)

    def usage(self, uid: str) -> CgroupUsage:
        """What a pod uses. Raises CgroupError if it has no cgroup."""
        path = self.path(uid)
        if not path:
            raise CgroupError(f"pod {uid} has no cgroup")
        return self.usage_at(path)

    def usage_at(self, path: str) -> CgroupUsage:
        """As `usage`, where the pod's cgroup is known. Raises CgroupError if it is not there any more."""
        return self._hierarchies.usage(path)

    def container_pressures(self, path: str) -> Pressures:
        """What the tasks of a container wait for. path: of its cgroup, below the mount points."""
        return self._hierarchies.pressures(path)

    async def remove(self, uid: str) -> None:
        """Kill what is left of a pod and remove its cgroup; nothing for a pod without one. Raises CgroupError if processes do not end."""
        path = self.path(uid)
        if path:
            await kill_and_remove(self._hierarchies, path, self._clock)

    async def remove_others(self, known: Iterable[str]) -> Sequence[str]:
        """Remove the cgroups of all pods but the `known` (uids), which an earlier kubelet has left; returns the uids of those that went. What cannot
        be removed is logged, and is there the next time."""
        kept = set(known)
        removed = []
        for uid in self.list():
            if uid in kept:
                continue
            try:
                await self.remove(uid)
                removed.append(uid)
            except CgroupError as error:
                logger.error("the cgroup of pod %s stays: %s", uid, error)
        return removed

    def _name(self, pod: core_v1.Pod) -> Name:
        return pod_name(self._settings.root, qos_class(pod.spec), pod.metadata.uid)

    def _path(self, pod: core_v1.Pod) -> str:
        return path_of(self._name(pod), self._settings.driver)


async def kill_and_remove(hierarchies: Hierarchies, path: str, clock: Clock) -> None:
    """Kill all processes of a cgroup and remove it with all below it. Raises CgroupError if they do not end in time."""
    end = clock.monotonic() + _KILL_SECONDS
    while True:
        for process in hierarchies.pids(path):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if hierarchies.remove(path):
            return
        if clock.monotonic() >= end:
            left = sorted(hierarchies.pids(path))
            raise CgroupError(f"{path}: cannot be removed: processes {left or 'unknown'} do not end")
        await clock.sleep(_LOOK_SECONDS)
