"""The resources that a container has, and those of a whole pod, as their status shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.api import quantity
from bayplan.api.pods.resources import pod_total
from bayplan.api.types import core_v1
from bayplan.api.types.scalars import Quantity
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime.types import ContainerState, ContainerStatus, LinuxResources

MIN_SHARES = 2
"""The fewest CPU shares that cgroups take; requests of up to as many thousandths of a CPU look the same."""
MIN_LIMIT_MILLI = 10
"""The least CPU limit, in thousandths of a CPU, that a quota can express; smaller ones look the same."""
_SHARES_PER_CPU = 1024


def reported_resources(
    container: AnyContainer, found: ContainerStatus, old: core_v1.ContainerStatus | None
) -> core_v1.ResourceRequirements:
    """What a container has: what the runtime says where it runs, else what was allocated.

    Requests and limits that cgroups cannot express exactly keep the spelling of the spec.
    """
    if found.container.state is not ContainerState.RUNNING:
        return container.resources
    limits, requests = dict(container.resources.limits), dict(container.resources.requests)
    actual = found.resources
    before = old.resources if old is not None and old.container_id.endswith(found.container.id) else None
    if "cpu" in limits:
        limits["cpu"] = _cpu_limit(limits["cpu"], actual, before)
    if "memory" in limits:
        limits["memory"] = _memory_limit(limits["memory"], actual, before)
    if "cpu" in requests:
        requests["cpu"] = _cpu_request(requests["cpu"], actual, before)
    resources = container.resources
    return core_v1.ResourceRequirements(limits=limits, requests=requests, claims=resources.claims)


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod as a whole has, and what was allocated to it."""

    actual: core_v1.ResourceRequirements
    allocated: Mapping[str, Quantity]


def pod_resources(
    pod: core_v1.Pod, cgroup: LinuxResources | None, before: core_v1.ResourceRequirements | None
) -> PodResources:
    """pod: with the resources that are allocated to it. cgroup: what the pod's own cgroup says; None where it has none. before: what was shown last."""
    requests: dict[str, Quantity] = {
        name: str(amount) for name, amount in pod_total(pod.spec, "requests", overhead=True).items()
    }
    limits: dict[str, Quantity] = {
        name: str(amount) for name, amount in pod_total(pod.spec, "limits", overhead=True).items()
    }
    level = pod.spec.resources or core_v1.ResourceRequirements()
    if pod.status.phase != "Running":
        actual = core_v1.ResourceRequirements(limits=limits, requests=requests, claims=level.claims)
        return PodResources(actual, requests)
    shown, bounds = dict(level.requests), dict(level.limits)
    cpu = _cpu_request(requests.get("cpu", "0"), cgroup, before)
    if quantity.milli_value(cpu) > MIN_SHARES:
        shown["cpu"] = cpu
    if "memory" in requests:
        shown["memory"] = requests["memory"]
    if "cpu" in limits:
        bounds["cpu"] = _cpu_limit(limits["cpu"], cgroup, before)
    if "memory" in limits:
        bounds["memory"] = _memory_limit(limits["memory"], cgroup, before)
    return PodResources(core_v1.ResourceRequirements(limits=bounds, requests=shown, claims=level.claims), requests)


def _cpu_limit(
    allocated: Quantity, actual: LinuxResources | None, before: core_v1.ResourceRequirements | None
) -> Quantity:
    if actual is None or actual.cpu_quota <= 0 or not actual.cpu_period:
        return before.limits.get("cpu", allocated) if before is not None else allocated
    milli = actual.cpu_quota * 1000 // actual.cpu_period
    if milli <= MIN_LIMIT_MILLI and quantity.milli_value(allocated) <= MIN_LIMIT_MILLI:
        return allocated
    return _milli(milli, allocated)


def _memory_limit(
    allocated: Quantity, actual: LinuxResources | None, before: core_v1.ResourceRequirements | None
) -> Quantity:
    if actual is None or actual.memory_limit <= 0:
        return before.limits.get("memory", allocated) if before is not None else allocated
    if actual.memory_limit == quantity.value(allocated):
        return allocated
    return str(actual.memory_limit)


def _cpu_request(
    allocated: Quantity, actual: LinuxResources | None, before: core_v1.ResourceRequirements | None
) -> Quantity:
    if actual is None or actual.cpu_shares <= 0:
        return before.requests.get("cpu", allocated) if before is not None else allocated
    milli = -(-actual.cpu_shares * 1000 // _SHARES_PER_CPU)
    wanted = quantity.milli_value(allocated)
    if actual.cpu_shares <= MIN_SHARES and wanted <= MIN_SHARES:
        return allocated
    if wanted * _SHARES_PER_CPU // 1000 == actual.cpu_shares:
        return allocated
    return _milli(milli, allocated)


def _milli(milli: int, allocated: Quantity) -> Quantity:
    return allocated if milli == quantity.milli_value(allocated) else quantity.canonical(f"{milli}m")
