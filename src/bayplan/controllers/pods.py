"""What several controllers want to know about pods."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1
from bayplan.informers import Informer
from bayplan.informers.cache import SPEC
from bayplan.support.timestamps import parse_rfc3339, rfc3339

POD_LABEL = "controller-revision-hash"
DISRUPTION_TARGET = "DisruptionTarget"
"""Label of pods: the revision that they were made from. DaemonSets label their revisions with it, too."""


def has_ended(pod: core_v1.Pod) -> bool:
    """Whether all containers of the pod have ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: core_v1.Pod) -> bool:
    """Whether the pod runs or may still run: not ended, not going away."""
    return not has_ended(pod) and not pod.metadata.deletion_timestamp


def ready_condition(pod: core_v1.Pod) -> core_v1.PodCondition | None:
    """The Ready condition, or None."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition
    return None


def is_ready(pod: core_v1.Pod) -> bool:
    """Whether the pod is ready."""
    condition = ready_condition(pod)
    return condition is not None and condition.status == "True"


def ready_since(pod: core_v1.Pod) -> float:
    """Unix time since which the pod is ready; infinite if it is not."""
    condition = ready_condition(pod)
    if condition is None or condition.status != "True" or not condition.last_transition_time:
        return float("inf")
    return parse_rfc3339(condition.last_transition_time)


def is_available(pod: core_v1.Pod, min_ready_seconds: int, now: float) -> bool:
    """Whether the pod has been ready for long enough."""
    return is_ready(pod) and (not min_ready_seconds or ready_since(pod) + min_ready_seconds <= now)


def claims_of(pod: core_v1.Pod) -> tuple[str, ...]:
    """Keys of the claims that a pod uses, those of its ephemeral volumes included."""
    if not pod.spec.volumes:
        return ()
    named, made = [], []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            named.append(f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
        if volume.ephemeral is not None:
            made.append(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}")
    return (*named, *made) if named or made else ()


def disruption_target(
    pod: core_v1.Pod, now: float, reason: str = "", message: str = "", *, status: str = "True"
) -> core_v1.PodCondition:
    """The condition of a pod that says why it is about to go, or with another status that it stays. now: Unix seconds."""
    return core_v1.PodCondition(
        type=DISRUPTION_TARGET,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=rfc3339(now),
        observed_generation=pod.metadata.generation,
    )


def index_by_node(pods: Informer[core_v1.Pod]) -> None:
    """Let an informer find pods by their node."""
    pods.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (), SPEC)


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def deletion_cost(pod: core_v1.Pod) -> int:
    """What the annotation says; 0 if it is missing or no number."""
    text = pod.metadata.annotations.get(_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def deletion_rank(pod: core_v1.Pod, pods_on_node: int, now: float) -> tuple[Any, ...]:
    """Sort key for scaling down: what loses least comes first (Kubernetes' ActivePodsWithRanks): unassigned, pending, not ready, cheap by annotation,
    crowded node, ready for a short time (in powers of two), restarted often, young."""
    status = pod.status
    created = parse_rfc3339(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else now
    ready = is_ready(pod)
    restarts = max((one.restart_count for one in status.container_statuses), default=0)
    return (
        bool(pod.spec.node_name),
        _PHASES.get(status.phase, 0),
        ready,
        deletion_cost(pod),
        -pods_on_node,
        _age_bucket(now - ready_since(pod)) if ready else 0,
        -restarts,
        _age_bucket(now - created),
        pod.metadata.uid,
    )


def _age_bucket(age: float) -> int:
    return int(max(age, 0)).bit_length()
