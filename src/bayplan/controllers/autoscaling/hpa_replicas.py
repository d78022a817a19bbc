"""How many replicas a metric asks for: the arithmetic of horizontal autoscaling, as pure functions.

    ratio = current / target;  replicas = ceil(ratio * pods)     unless the ratio is close to 1 (tolerance)

Pods that are not ready count as using nothing when it is about growing; pods without metrics count as using nothing when growing and as using their target (or all
they request) when shrinking; if that turns the direction around, nothing happens. Values are in thousandths.

Source of the behaviour: kube-controller-manager's ReplicaCalculator; float64 arithmetic as there, so that roundings agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.api.quantity import milli_value
from bayplan.api.types import core_v1
from bayplan.controllers.autoscaling.hpa_metrics import PodMetric
from bayplan.controllers.pods import is_ready, ready_condition
from bayplan.support.timestamps import parse_rfc3339

PodMetrics = Mapping[str, PodMetric]


class NoProposalError(ValueError):
    """A metric says nothing about the number of replicas; the message says why."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far the ratio may be from 1 without consequence, upwards and downwards."""

    up: float = 0.1
    down: float = 0.1

    def cover(self, ratio: float) -> bool:
        """Whether a ratio is close enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Patience:
    """When the cpu usage of pods that have just started is not counted."""

    cpu_initialization_period: float = 300.0
    """Seconds after the start in which a pod's cpu usage counts only if it is ready and was for a whole window of the metric."""
    initial_readiness_delay: float = 30.0
    """Seconds after the start within which a pod that became unready counts as never having been ready."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Pods by what is known of them."""

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    """Pods that should have metrics and have none."""
    ignored: tuple[str, ...]
    """Pods that are going or have failed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a metric asks for."""

    replicas: int
    value: int
    """The current value, for the status: an average, or the whole of an object's or external metric."""
    utilization: int | None = None
    """The same in percent of what is requested."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the replicas are to be and where they are: everything that all computations need."""

    current: int
    pods: Sequence[core_v1.Pod]
    tolerances: Tolerances
    patience: Patience
    now: float
    namespace: str = ""


def group(pods: Iterable[core_v1.Pod], metrics: PodMetrics, resource: str, patience: Patience, now: float) -> Groups:
    """Sort pods into groups. Readiness matters for cpu only, which pods use a lot of while they start."""
    ready, unready, missing, ignored = 0, [], [], []
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp or pod.status.phase == "Failed":
            ignored.append(name)
        elif pod.status.phase == "Pending":
            unready.append(name)
        elif name not in metrics:
            missing.append(name)
        elif resource == "cpu" and _is_starting(pod, metrics[name], patience, now):
            unready.append(name)
        else:
            ready += 1
    return Groups(ready, tuple(unready), tuple(missing), tuple(ignored))


def _is_starting(pod: core_v1.Pod, metric: PodMetric, patience: Patience, now: float) -> bool:
    condition = ready_condition(pod)
    if condition is None or not pod.status.start_time:
        return True
    started = parse_rfc3339(pod.status.start_time)
    changed = parse_rfc3339(condition.last_transition_time) if condition.last_transition_time else 0.0
    if started + patience.cpu_initialization_period > now:
        return condition.status == "False" or metric.timestamp < changed + metric.window
    return condition.status == "False" and started + patience.initial_readiness_delay > changed


def requests_of(pods: Iterable[core_v1.Pod], resource: str, container: str = "") -> dict[str, int]:
    """What pods (or one container in each) request, by name of the pod. Raises NoProposalError if somebody requests nothing."""
    found = {}
    for pod in pods:
        name, whole = pod.metadata.name, pod.spec.resources
        if not container and whole is not None and resource in whole.requests:
            found[name] = milli_value(whole.requests[resource])
            continue
        sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
        containers = [one for one in (*pod.spec.containers, *sidecars) if container in ("", one.name)]
        if not containers:
            raise NoProposalError(f"container {container} not found in Pod {name}")
        for one in containers:
            if resource not in one.resources.requests:
                raise NoProposalError(f"missing request for {resource} in container {one.name} of Pod {name}")
        found[name] = sum(milli_value(one.resources.requests[resource]) for one in containers)
    return found


def _utilization(metrics: PodMetrics, requests: Mapping[str, int], target: int) -> tuple[float, int, int]:
    """(ratio to the target, percent of the requests, average). Raises NoProposalError."""
    known = [(metric.value, requests[name]) for name, metric in metrics.items() if name in requests]
    requested = sum(request for _, request in known)
    if not requested:
        raise NoProposalError("no metrics returned matched known pods")
    used = sum(value for value, _ in known)
    percent = used * 100 // requested
    return percent / target, percent, used // len(known)


def _average(metrics: PodMetrics, target: int) -> tuple[float, int]:
    average = sum(one.value for one in metrics.values()) // len(metrics)
    return average / target, average


def _counted(target: Target, metrics: PodMetrics, resource: str) -> tuple[Groups, dict[str, PodMetric]]:
    """The groups, and the metrics of pods that count. Raises NoProposalError."""
    if not target.pods:
        raise NoProposalError("no pods returned by selector while calculating replica count")
    groups = group(target.pods, metrics, resource, target.patience, target.now)
    left_out = {*groups.unready, *groups.ignored}
    return groups, {name: metric for name, metric in metrics.items() if name not in left_out}


def by_utilization(target: Target, metrics: PodMetrics, percent: int, resource: str, container: str = "") -> Proposal:
    """Replicas for a wanted utilization (percent of what is requested). Raises NoProposalError."""
    groups, counted = _counted(target, metrics, resource)
    requests = requests_of(target.pods, resource, container)
    if not counted:
        raise NoProposalError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, utilization, value = _utilization(counted, requests, percent)
    fallback = max(100, percent)
    full = {name: requests[name] * fallback // 100 for name in groups.missing}
    filled = _filled(groups, counted, ratio, full)
    if filled is None:
        return Proposal(_direct(target, ratio, groups.ready), value, utilization)
    again, _, _ = _utilization(filled, requests, percent)
    return Proposal(_careful(target, ratio, again, len(filled)), value, utilization)


def by_average(target: Target, metrics: PodMetrics, wanted: int, resource: str = "") -> Proposal:
    """Replicas for a wanted average per pod. Raises NoProposalError."""
    groups, counted = _counted(target, metrics, resource)
    if not counted:
        raise NoProposalError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, value = _average(counted, wanted)
    filled = _filled(groups, counted, ratio, dict.fromkeys(groups.missing, wanted), at_par=True)
    if filled is None:
        return Proposal(_direct(target, ratio, groups.ready), value)
    again, _ = _average(filled, wanted)
    return Proposal(_careful(target, ratio, again, len(filled)), value)


def _filled(
    groups: Groups, counted: Mapping[str, PodMetric], ratio: float, full: Mapping[str, int], *, at_par: bool = False
) -> dict[str, PodMetric] | None:
    """Metrics with assumptions about pods that have none; None if no assumption is needed.

    `full`: what missing pods use when it is about shrinking. `at_par`: whether they use nothing also when the ratio is exactly 1.
    """
    with_unready = bool(groups.unready) and ratio > 1.0
    if not with_unready and not groups.missing:
        return None
    result = dict(counted)
    if ratio < 1.0:
        result |= {name: PodMetric(value) for name, value in full.items()}
    elif ratio > 1.0 or at_par:
        result |= {name: PodMetric(0) for name in groups.missing}
    if with_unready:
        result |= {name: PodMetric(0) for name in groups.unready}
    return result


def _direct(target: Target, ratio: float, ready: int) -> int:
    return target.current if target.tolerances.cover(ratio) else math.ceil(ratio * ready)


def _careful(target: Target, before: float, after: float, count: int) -> int:
    """Replicas by the ratio with assumptions, unless these turn the direction around."""
    if target.tolerances.cover(after) or (before < 1.0 < after) or (after < 1.0 < before):
        return target.current
    replicas = math.ceil(after * count)
    turned = (after < 1.0 and replicas > target.current) or (after > 1.0 and replicas < target.current)
    return target.current if turned else replicas


def by_total(target: Target, value: int, wanted: int) -> Proposal:
    """Replicas for a wanted total of an object's or external metric. Raises NoProposalError. From zero replicas the ratio alone counts."""
    ratio = value / wanted
    if not target.current:
        return Proposal(math.ceil(ratio), value)
    if target.tolerances.cover(ratio):
        return Proposal(target.current, value)
    if not target.pods:
        raise NoProposalError(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        )
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in target.pods)
    return Proposal(math.ceil(ratio * ready), value)


def by_total_per_pod(replicas: int, tolerances: Tolerances, value: int, wanted: int) -> Proposal:
    """Replicas for a wanted value per pod of an object's or external metric. `replicas`: as many as there are now; without any, the average is the total."""
    if replicas and tolerances.cover(value / (float(wanted) * replicas)):
        return Proposal(replicas, math.ceil(value / replicas))
    return Proposal(math.ceil(value / wanted), math.ceil(value / max(replicas, 1)))
