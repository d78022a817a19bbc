"""How long containers get to end, and in which order (setTerminationGracePeriod and terminationOrdering in pkg/kubelet/kuberuntime)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.api.types import core_v1
from bayplan.kubelet.core.plan import KillReason
from bayplan.kubelet.core.restarts import AnyContainer, is_sidecar

MINIMUM_GRACE = 2
"""Seconds that every container gets between the signal and its end by force."""


def grace_period(pod: core_v1.Pod, container: AnyContainer, reason: KillReason) -> int:
    """Seconds that a container gets to end."""
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    if pod.spec.termination_grace_period_seconds is None:
        return MINIMUM_GRACE
    probes = {KillReason.STARTUP: container.startup_probe, KillReason.LIVENESS: container.liveness_probe}
    probe = probes.get(reason)
    if probe is not None and probe.termination_grace_period_seconds is not None:
        return probe.termination_grace_period_seconds
    return pod.spec.termination_grace_period_seconds


def prerequisites(spec: core_v1.PodSpec, running: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """For each sidecar that runs, the running containers that must end before it: all others, and sidecars that started later."""
    alive = set(running)
    main = [each.name for each in spec.containers if each.name in alive]
    result: dict[str, tuple[str, ...]] = {}
    later: list[str] = []
    for container in reversed(spec.init_containers):
        if is_sidecar(container) and container.name in alive:
            result[container.name] = (*main, *later)
            later = [container.name]
    return result


def shortened(given: int | None, wanted: int) -> int:
    """A grace period after somebody asked for another one: it may become shorter, never longer."""
    return wanted if given is None else min(given, wanted)
