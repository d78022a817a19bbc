"""Limits of a container as the runtime is told of them (generateLinuxContainerResources in pkg/kubelet/kuberuntime)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayplan.api import quantity
from bayplan.api.pods.resources import pod_level
from bayplan.api.types import core_v1
from bayplan.kubelet.core.resources import (
    CPU_PERIOD,
    hugepage_limits,
    milli_cpu_to_quota,
    milli_cpu_to_shares,
    oom_score_adj,
)
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime.types import LinuxResources


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What the node decides: whether CPU limits hold, their period in microseconds, the node's memory in bytes, sizes of its huge pages in bytes."""

    memory_capacity: int
    cpu_quota: bool = True
    cpu_period: int = CPU_PERIOD
    hugepage_sizes: tuple[int, ...] = ()
    unified: bool = False
    """Whether the node has cgroup v2, where a container dies as a whole when it is out of memory."""
    has_exclusive_cpus: Callable[[core_v1.Pod, str], bool] = lambda pod, container: False
    """Whether a container has CPUs of its own, which no quota is to slow down."""


def container_resources(pod: core_v1.Pod, container: AnyContainer, settings: LimitSettings) -> LinuxResources:
    """Shares by the CPU request (or the limit, if there is no request), quota and memory by the limits of the container or else of its pod."""
    requests, limits = container.resources.requests, container.resources.limits
    of_pod = pod_level(pod.spec, "limits")
    cpu_limit = quantity.milli_value(limits["cpu"]) if "cpu" in limits else 0
    if not cpu_limit and "cpu" in of_pod:
        cpu_limit = of_pod["cpu"].milli_value()
    memory = quantity.value(limits["memory"]) if "memory" in limits else 0
    if not memory and "memory" in of_pod:
        memory = of_pod["memory"].value()
    request = requests.get("cpu", limits.get("cpu"))
    shares = milli_cpu_to_shares(quantity.milli_value(request) if request is not None else 0)
    quota = 0
    if settings.cpu_quota and cpu_limit:
        quota = milli_cpu_to_quota(cpu_limit, settings.cpu_period)
        quota = -1 if settings.has_exclusive_cpus(pod, container.name) else quota
    wanted = hugepage_limits(limits)
    pages = {_page_name(size): wanted.get(size, 0) for size in (*settings.hugepage_sizes, *wanted)}
    return LinuxResources(
        cpu_period=settings.cpu_period if quota else 0,
        cpu_quota=quota,
        cpu_shares=shares,
        memory_limit=memory,
        memory_swap_limit=memory,  # no container swaps
        oom_score_adj=_score(pod, container, settings),
        hugepages=pages,
        unified={"memory.oom.group": "1"} if settings.unified else {},
    )


def _score(pod: core_v1.Pod, container: AnyContainer, settings: LimitSettings) -> int:
    if isinstance(container, core_v1.EphemeralContainer):
        container = core_v1.Container(name=container.name, resources=container.resources)
    return oom_score_adj(pod, container, settings.memory_capacity)


def _page_name(size: int) -> str:
    """The size of a page as cgroups write it: 2MB, 1GB."""
    for shift, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if size >= 1 << shift:
            return f"{size >> shift}{unit}"
    return f"{size}B"
