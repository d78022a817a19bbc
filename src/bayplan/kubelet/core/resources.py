"""What pods request and may use, in the numbers of the kernel: shares, quotas, limits, OOM scores. Pure.

Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#how-pods-with-resource-limits-are-run, KEP-2837 (pod-level resources),
KEP-753 (sidecars).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.api.defaults.pods import qos_class
from bayplan.api.pods.resources import containers_total, pod_level, pod_total
from bayplan.api.quantity import milli_value, value
from bayplan.api.types import core_v1

MIN_SHARES, MAX_SHARES = 2, 262_144
_SHARES_PER_CPU = 1024
CPU_PERIOD = 100_000
"""Microseconds: the period in which a cpu quota is given out."""
_MIN_QUOTA = 1000
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
_CONFIG_SOURCE, _MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"
UNLIMITED_HUGEPAGES = 1 << 62
HUGEPAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class CgroupResources:
    """Limits of a cgroup; None leaves what is there.

    `cpu_quota` (microseconds of `cpu_period`) and `pids` are -1 for no limit, `memory` is bytes (0 for no limit), `hugepages` page size in bytes
    -> bytes, `unified` files of cgroup v2 -> content.
    """

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    memory: int | None = None
    pids: int | None = None
    hugepages: Mapping[int, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)


def milli_cpu_to_shares(milli_cpu: int) -> int:
    """CPU shares of cgroup v1. Nothing requested is the smallest share.

    >>> milli_cpu_to_shares(1000), milli_cpu_to_shares(0)
    (1024, 2)
    """
    return min(max(milli_cpu * _SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES)


def milli_cpu_to_quota(milli_cpu: int, period: int = CPU_PERIOD) -> int:
    """Microseconds of cpu time per period; 0 for no limit.

    >>> milli_cpu_to_quota(200)
    20000
    """
    return max(milli_cpu * period // 1000, _MIN_QUOTA) if milli_cpu else 0


def shares_to_weight(shares: int) -> int:
    """cpu.weight of cgroup v2, 1 to 10000: a curve through the least, the default (1024 -> 100) and the most, as runc has it since 1.3.2; 0 leaves it."""
    if shares == 0:
        return 0
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return 10_000
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def hugepage_limits(amounts: Mapping[str, object]) -> dict[int, int]:
    """Page size in bytes -> bytes, of the hugepages-* in a resource list (amounts as on the wire)."""
    return {
        value(name.removeprefix(HUGEPAGES)): value(str(amount))
        for name, amount in amounts.items()
        if name.startswith(HUGEPAGES)
    }


def pod_cgroup_resources(
    pod: core_v1.Pod, *, enforce_cpu_limits: bool = True, cpu_period: int = CPU_PERIOD, pids_limit: int = -1
) -> CgroupResources:
    """Limits of a pod's cgroup. cpu_period: microseconds. pids_limit: of every pod, none with -1.

    A limit holds for the pod if every container has one, or the pod itself; Guaranteed pods have all of them by definition.
    """
    spec = pod.spec
    requests = pod_total(spec, "requests", overhead=True)
    limits = pod_total(spec, "limits", overhead=True)
    pids = pids_limit if pids_limit > 0 else None
    hugepages = hugepage_limits({name: str(amount) for name, amount in requests.items()})
    kind = qos_class(spec)
    if kind == "BestEffort":
        return CgroupResources(cpu_shares=MIN_SHARES, pids=pids, hugepages=hugepages)
    shares = milli_cpu_to_shares(milli_value(str(requests["cpu"])) if "cpu" in requests else 0)
    quota = milli_cpu_to_quota(milli_value(str(limits["cpu"])) if "cpu" in limits else 0, cpu_period)
    has_cpu = kind == "Guaranteed" or _is_limited(spec, "cpu")
    has_memory = kind == "Guaranteed" or _is_limited(spec, "memory")
    return CgroupResources(
        cpu_shares=shares,
        cpu_quota=(quota if enforce_cpu_limits else -1) if has_cpu else None,
        cpu_period=cpu_period if has_cpu else None,
        memory=(value(str(limits["memory"])) if "memory" in limits else 0) if has_memory else None,
        pids=pids,
        hugepages=hugepages,
    )


def _is_limited(spec: core_v1.PodSpec, resource: str) -> bool:
    """Whether the pod or each of its containers has a limit."""
    if spec.resources is not None and _amount(spec.resources.limits, resource):
        return True
    return all(_amount(each.resources.limits, resource) for each in spec.containers + spec.init_containers)


def _amount(resources: Mapping[str, str | int | float], name: str) -> int:
    """Bytes, or whole units rounded up; 0 where there is none."""
    return value(resources[name]) if name in resources else 0


def node_cgroup_resources(allocatable: Mapping[str, str | int | float]) -> CgroupResources:
    """Limits of the cgroup of all pods, of what the node has for them: cpu, memory, pids, hugepages-*."""
    return CgroupResources(
        cpu_shares=milli_cpu_to_shares(milli_value(allocatable["cpu"])) if "cpu" in allocatable else None,
        memory=_amount(allocatable, "memory") if "memory" in allocatable else None,
        pids=_amount(allocatable, "pid") if "pid" in allocatable else None,
        hugepages=hugepage_limits(allocatable),
    )


@dataclass(frozen=True, slots=True)
class QosResources:
    """Limits of the cgroups of the two classes that have one; Guaranteed pods are directly below the root of all pods."""

    burstable: CgroupResources
    best_effort: CgroupResources


def qos_resources(
    pods: Iterable[core_v1.Pod],
    hugepage_sizes: Iterable[int] = (),
    *,
    allocatable_memory: int = 0,
    reserved_memory_percent: int = 0,
) -> QosResources:
    """Limits of the classes' cgroups for the pods that run. hugepage_sizes: bytes; the classes limit none of them.

    Burstable pods get shares by what they request together. reserved_memory_percent (--qos-reserved) of the memory that better classes request is
    kept from worse ones, out of `allocatable_memory` bytes; nothing with 0.
    """
    milli_cpu = 0
    memory = {"Guaranteed": 0, "Burstable": 0, "BestEffort": 0}
    for pod in pods:
        kind = qos_class(pod.spec)
        requests = pod_total(pod.spec, "requests", overhead=True)
        if kind == "Burstable" and "cpu" in requests:
            milli_cpu += milli_value(str(requests["cpu"]))
        if "memory" in requests:
            memory[kind] += value(str(requests["memory"]))
    burstable_memory = best_effort_memory = None
    if allocatable_memory and reserved_memory_percent:
        burstable_memory = allocatable_memory - memory["Guaranteed"] * reserved_memory_percent // 100
        best_effort_memory = burstable_memory - memory["Burstable"] * reserved_memory_percent // 100
    pages = dict.fromkeys(hugepage_sizes, UNLIMITED_HUGEPAGES)
    return QosResources(
        CgroupResources(cpu_shares=milli_cpu_to_shares(milli_cpu), memory=burstable_memory, hugepages=pages),
        CgroupResources(cpu_shares=MIN_SHARES, memory=best_effort_memory, hugepages=pages),
    )


def oom_score_adj(pod: core_v1.Pod, container: core_v1.Container, memory_capacity: int) -> int:
    """What is added to the OOM score of a container's processes: the lower, the later they are killed. memory_capacity: of the node, in bytes.

    Between the fixed scores of Guaranteed and BestEffort pods, a container gets less the more of the node's memory it requests; a sidecar never more than
    the containers that it serves. Memory that is requested for the pod and no container is shared equally.
    """
    kind = qos_class(pod.spec)
    if _is_node_critical(pod) or kind == "Guaranteed":
        return _GUARANTEED_SCORE
    if kind == "BestEffort":
        return _BEST_EFFORT_SCORE
    spare = _spare_memory_per_container(pod.spec)
    score = _score(_amount(container.resources.requests, "memory") + spare, memory_capacity)
    if container.restart_policy == "Always" and any(each.name == container.name for each in pod.spec.init_containers):
        least = min(_amount(each.resources.requests, "memory") for each in pod.spec.containers)
        score = min(score, _score(least + spare, memory_capacity))
    return min(max(score, 1000 + _GUARANTEED_SCORE), _BEST_EFFORT_SCORE - 1)


def _score(memory: int, capacity: int) -> int:
    return 1000 - 1000 * memory // capacity


def _spare_memory_per_container(spec: core_v1.PodSpec) -> int:
    """Memory that the pod requests beyond its containers, for each of them."""
    given = pod_level(spec, "requests").get("memory")
    if given is None:
        return 0
    own = containers_total(spec, "requests").get("memory")
    spare = value(str(given)) - (value(str(own)) if own is not None else 0)
    return int(spare / (len(spec.containers) + len(spec.init_containers)))


def _is_node_critical(pod: core_v1.Pod) -> bool:
    """Whether the node cannot do without the pod: a static, mirror or system-critical pod of the class system-node-critical."""
    annotations = pod.metadata.annotations
    is_static = annotations.get(_CONFIG_SOURCE, "api") != "api" or _MIRROR in annotations
    is_critical = is_static or (pod.spec.priority or 0) >= _SYSTEM_CRITICAL_PRIORITY
    return is_critical and pod.spec.priority_class_name == "system-node-critical"


def qos_reserved_percent(reserved: Mapping[str, str]) -> int:
    """Percent of --qos-reserved for memory, the only resource that it knows. Raises ValueError."""
    for name, text in reserved.items():
        if name != "memory":
            raise ValueError(f"qosReserved: {name}: only memory can be reserved")
        number = text.removesuffix("%")
        if not text.endswith("%") or not number.isdigit() or int(number) > 100:
            raise ValueError(f"qosReserved: {name}: {text!r} is no percentage from 0% to 100%")
    return int(reserved.get("memory", "0%").removesuffix("%"))
