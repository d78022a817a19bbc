"""Which resources a running simulated pod has, and whether it gets others, as a pure function.

    spec changed -> room on the node? -> no, never: condition PodResizePending (Infeasible)
                                      -> not now:   condition PodResizePending (Deferred), asked again when the node changes
                                      -> yes: allocatedResources, condition PodResizeInProgress -> a moment later: resources, condition gone

What is allocated is in `status.containerStatuses[].allocatedResources`, what containers have in `resources`. The kubelet's core decides about the room, and which
containers start again because of their resizePolicy; this module reads the records of both from the pod's status.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import NodeAccount, NodeOffer, Requests
from bayplan.kubelet.core.resize import Allocation, allocation_of, resizable_containers, with_allocation
from bayplan.kubelet.core.resize_requests import (
    DEFERRED,
    IN_PROGRESS,
    PENDING,
    Refusal,
    refusal,
    resize_condition,
    resize_text,
)
from bayplan.kubelet.simulator.events import NORMAL, WARNING, Told
from bayplan.kubelet.simulator.references import Surroundings
from bayplan.support.timestamps import parse_rfc3339, rfc3339


@dataclass(frozen=True, slots=True)
class Resources:
    """How a pod's resources stand."""

    pod: core_v1.Pod
    """With what is allocated to it."""
    actuated: Allocation
    """What its containers have, or are to keep for now."""
    conditions: tuple[core_v1.PodCondition, ...] = ()
    told: tuple[Told, ...] = ()
    wait: float | None = None
    """Seconds until containers get what is allocated."""
    is_due: bool = False
    """Whether containers get what is allocated now."""


def is_concerned(pod: core_v1.Pod) -> bool:
    """A cheap look at whether a pod may have something to resize."""
    return pod.status.observed_generation != pod.metadata.generation or any(
        one.type in (PENDING, IN_PROGRESS) for one in pod.status.conditions
    )


def allocated(pod: core_v1.Pod) -> core_v1.Pod:
    """A pod with what its status says is allocated to it: what its spec asks for, if a resize to that is in progress or the status says nothing."""
    if not is_concerned(pod):
        return pod
    in_progress = _condition(pod, IN_PROGRESS)
    if in_progress is not None and in_progress.observed_generation == pod.metadata.generation:
        return pod
    statuses = _statuses(pod)
    found = {}
    for container in resizable_containers(pod.spec):
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            limits, claims = status.resources.limits, status.resources.claims
            found[container.name] = core_v1.ResourceRequirements(
                requests=status.allocated_resources, limits=limits, claims=claims
            )
    return with_allocation(pod, Allocation(found, pod.spec.resources))


def resources_of(pod: core_v1.Pod, now: float, seconds: float, around: Surroundings) -> Resources:
    """What is due for a pod's resources. seconds: how long it takes until containers have what is allocated."""
    if not is_concerned(pod):
        return Resources(pod, allocation_of(pod))
    shown, in_progress = allocated(pod), _condition(pod, IN_PROGRESS)
    if shown is not pod:
        return _decided(pod, shown, now, seconds, around)
    if in_progress is None:
        return Resources(pod, allocation_of(pod))
    left = parse_rfc3339(in_progress.last_transition_time or rfc3339(now)) + seconds - now
    if left > 0:
        return Resources(pod, allocation_of(pod), (in_progress,), (), left)
    generation = in_progress.observed_generation
    done = Told(NORMAL, "ResizeCompleted", resize_text("Pod resize completed", pod, generation))
    return Resources(pod, _actuated(pod), (), (done,), is_due=True)


def _decided(pod: core_v1.Pod, shown: core_v1.Pod, now: float, seconds: float, around: Surroundings) -> Resources:
    """Whether a pod gets what it asks for. shown: the pod with what it has."""
    generation, kept = pod.metadata.generation, allocation_of(shown)
    refused = _refusal(pod, around)
    if refused is None:
        condition = resize_condition(IN_PROGRESS, "", "", generation, now)
        started = Told(NORMAL, "ResizeStarted", resize_text("Pod resize started", pod, generation))
        return Resources(pod, allocation_of(pod), (condition,), (started,), max(seconds, 0.001))
    before = _condition(pod, PENDING)
    condition = resize_condition(PENDING, refused.reason, refused.message, generation, now)
    if before is not None:
        condition.last_transition_time = before.last_transition_time
    if before is not None and (before.reason, before.observed_generation) == (refused.reason, generation):
        return Resources(shown, kept, (condition,))
    name = "ResizeDeferred" if refused.reason == DEFERRED else "ResizeInfeasible"
    text = resize_text(f"Pod resize {refused.reason}", pod, generation, refused.message)
    return Resources(shown, kept, (condition,), (Told(WARNING, name, text),))


def _refusal(pod: core_v1.Pod, around: Surroundings) -> Refusal | None:
    if around.node is None:
        return None
    return refusal(pod, account_of(around.others()), NodeOffer(around.node, supplemental_groups_policy=True))


def account_of(pods: Iterable[core_v1.Pod]) -> NodeAccount:
    """What pods take of their node: those that have not ended, by what is allocated to them."""
    account = NodeAccount(Requests())
    for pod in pods:
        if pod.status.phase not in ("Succeeded", "Failed"):
            account.add(allocated(pod))
    return account


def _actuated(pod: core_v1.Pod) -> Allocation:
    """What containers have, as their statuses say."""
    statuses = _statuses(pod)
    found = {}
    for container in resizable_containers(pod.spec):
        status = statuses.get(container.name)
        found[container.name] = (
            status.resources if status is not None and status.resources is not None else container.resources
        )
    return Allocation(found, pod.spec.resources)


def _statuses(pod: core_v1.Pod) -> dict[str, core_v1.ContainerStatus]:
    return {one.name: one for one in (*pod.status.container_statuses, *pod.status.init_container_statuses)}


def _condition(pod: core_v1.Pod, kind: str) -> core_v1.PodCondition | None:
    return next((one for one in pod.status.conditions if one.type == kind), None)
