"""What limit ranges give to a pod that somebody makes, and how many of it quotas allow.

As the admission of an API server would, on the objects of a copy. A quota whose status says nothing counts as in
force, with what the copy's pods use of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bayplan.api.limits import fill_in, pod_violations
from bayplan.api.quota.amounts import ZERO, Amounts, add, masked, parsed, to_wire
from bayplan.api.quota.evaluators import Evaluator, evaluator_for
from bayplan.api.quota.usage import usage
from bayplan.api.types import core_v1
from bayplan.simulation.snapshots.snapshot import KINDS, ClusterSnapshot

_EXACT = -9
"""Amounts are compared in this power of ten, which no amount is finer than."""


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """How many pods, or sets of pods, a namespace may still get."""

    pods: int
    """How many; 0 if not even one."""
    by: str
    """What says so: `ResourceQuota namespace/name` or `LimitRange namespace/name`."""
    why: str
    """For people."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"pods": self.pods, "by": self.by, "why": self.why}


def with_defaults(copy: ClusterSnapshot, pod: core_v1.Pod) -> core_v1.Pod:
    """The pod with the requests and limits that the limit ranges of its namespace give to containers that leave them out."""
    made = replace(pod, spec=replace(pod.spec))
    for limit_range in _of_namespace(copy, "LimitRange", pod):
        fill_in(made.spec, limit_range)
    return made


def admit(copy: ClusterSnapshot) -> None:
    """Let limit ranges give their defaults to pods that no API server has seen yet. Changes the copy in place."""
    if copy.of("LimitRange"):
        copy.objects["Pod"] = [one if one.metadata.uid else with_defaults(copy, one) for one in copy.of("Pod")]


def quota_limits(copy: ClusterSnapshot, pods: Sequence[tuple[core_v1.Pod, int]]) -> QuotaLimits | None:
    """The least that anything allows of a set with so many of each pod; None if nothing limits it."""
    found: list[QuotaLimits] = []
    for pod, _ in pods:
        for limit_range in _of_namespace(copy, "LimitRange", pod):
            problems = pod_violations(limit_range, pod.spec)
            if problems:
                found.append(QuotaLimits(0, f"LimitRange {_key(limit_range)}", "; ".join(problems)))
    evaluator = evaluator_for(KINDS.of_type(core_v1.Pod))
    for quota in copy.of("ResourceQuota"):
        wanted = [(pod, count) for pod, count in pods if _space(pod) == _space(quota)]
        left = _left(copy, evaluator, quota, wanted)
        if left is not None:
            found.append(left)
    return min(found, key=lambda one: (one.pods, one.by), default=None)


def _of_namespace(copy: ClusterSnapshot, kind: str, pod: core_v1.Pod) -> list[Any]:
    return sorted((one for one in copy.of(kind) if _space(one) == _space(pod)), key=lambda one: one.metadata.name)


def _space(obj: Any) -> str:
    return obj.metadata.namespace or "default"


def _key(obj: Any) -> str:
    return f"{_space(obj)}/{obj.metadata.name}"


def _left(
    copy: ClusterSnapshot, evaluator: Evaluator, quota: core_v1.ResourceQuota, wanted: Iterable[tuple[core_v1.Pod, int]]
) -> QuotaLimits | None:
    """How often a quota allows what is wanted; None if it is about none of it."""
    in_force = quota if quota.status.hard else _counted(copy, evaluator, quota)
    hard, used, need = parsed(in_force.status.hard), parsed(in_force.status.used), Amounts()
    by, names = f"ResourceQuota {_key(quota)}", evaluator.matching(in_force.status.hard)
    for pod, count in wanted:
        if evaluator.matches(in_force, pod):
            missing = evaluator.missing(names, pod)
            if missing:
                return QuotaLimits(0, by, f"must specify {missing}")
            for _ in range(count):
                need = add(need, masked(evaluator.usage(pod, 0.0), names))
    counts = {
        name: max(_whole(hard[name]) - _whole(used.get(name, ZERO)), 0) // _whole(amount)
        for name, amount in need.items()
        if amount.sign() > 0
    }
    if not counts:
        return None
    tightest = min(counts, key=lambda name: (counts[name], name))
    why = f"{tightest}: {used.get(tightest, ZERO)} of {hard[tightest]} used, {need[tightest]} more each"
    return QuotaLimits(counts[tightest], by, why)


def _whole(amount: Any) -> int:
    return int(amount.scaled_value(_EXACT))


def _counted(copy: ClusterSnapshot, evaluator: Evaluator, quota: core_v1.ResourceQuota) -> core_v1.ResourceQuota:
    """The quota with what the copy's pods use of it."""
    own = (pod for pod in copy.of("Pod") if _space(pod) == _space(quota))
    used = to_wire(usage(quota, [(evaluator, own)], 0.0))
    return replace(quota, status=core_v1.ResourceQuotaStatus(hard=quota.spec.hard, used=used))
