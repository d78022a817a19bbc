"""In which order pods end when their node shuts down, and how long each gets (pkg/kubelet/nodeshutdown)."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.core.admission import CRITICAL_PRIORITY, Rejection
from bayplan.kubelet.core.pod_status import disrupted

NOT_ADMITTED = Rejection("NodeShutdown", "Pod was rejected as the node is shutting down.")
REASON = "Terminated"
MESSAGE = "Pod was terminated in response to imminent node shutdown."
UNREADY = "node is shutting down"
"""What the node's condition Ready says meanwhile."""


@dataclass(frozen=True, slots=True, order=True)
class GracePeriod:
    """Seconds for pods of at least a priority; pods below the lowest belong to that."""

    priority: int
    seconds: int


def grace_periods(configuration: KubeletConfiguration) -> tuple[GracePeriod, ...]:
    """The periods one after the other, lowest priority first; none where shutdowns are not waited for."""
    by_priority = configuration.shutdown_grace_period_by_pod_priority
    if by_priority:
        return tuple(sorted(GracePeriod(each.priority, each.shutdown_grace_period_seconds) for each in by_priority))
    whole, critical = configuration.shutdown_grace_period, configuration.shutdown_grace_period_critical_pods
    if not whole or whole < critical:
        return ()
    return GracePeriod(0, int(whole - critical)), GracePeriod(CRITICAL_PRIORITY, int(critical))


def in_order(
    periods: Sequence[GracePeriod], pods: Iterable[core_v1.Pod]
) -> list[tuple[GracePeriod, list[core_v1.Pod]]]:
    """The pods by the period that they belong to, in the order of the periods."""
    groups: list[tuple[GracePeriod, list[core_v1.Pod]]] = [(each, []) for each in periods]
    bounds = [each.priority for each in periods]
    for pod in pods:
        index = bisect.bisect_right(bounds, pod.spec.priority or 0) - 1
        groups[max(index, 0)][1].append(pod)
    return groups


def grace_of(pod: core_v1.Pod, period: GracePeriod) -> int:
    """Seconds that a pod gets: its own grace period where that is shorter."""
    own = pod.spec.termination_grace_period_seconds
    return period.seconds if own is None else min(own, period.seconds)


def ended(pod: core_v1.Pod, status: core_v1.PodStatus) -> core_v1.PodStatus:
    """The status of a pod that ends with its node; one that has succeeded stays so."""
    phase = "Succeeded" if status.phase == "Succeeded" else "Failed"
    return disrupted(pod, status, REASON, MESSAGE, MESSAGE, phase=phase)
