"""What strategies ask of a pod: age, owners, states of its containers, and in which order pods go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from bayplan.api.defaults.pods import qos_class
from bayplan.api.types import core_v1
from bayplan.support.timestamps import parse_rfc3339

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_QOS_ORDER: Final = ("BestEffort", "Burstable", "Guaranteed")


def prefers_to_stay(pod: core_v1.Pod) -> bool:
    """Whether a pod has the annotation that asks not to evict it."""
    return PREFER_NO_EVICTION in pod.metadata.annotations


def qos_of(pod: core_v1.Pod) -> str:
    """The quality of service class of a pod, from its status or else from its spec."""
    return pod.status.qos_class or qos_class(pod.spec)


def seconds_since(time: str | None, now: float) -> float | None:
    """Seconds since an RFC 3339 time; None without one."""
    return None if not time else now - parse_rfc3339(time)


def age(pod: core_v1.Pod, now: float) -> float:
    """Seconds since a pod was created; 0 if that is not known."""
    return seconds_since(pod.metadata.creation_timestamp, now) or 0.0


def created(pod: core_v1.Pod) -> float:
    """When a pod was created, in Unix seconds; 0 if that is not known."""
    time = pod.metadata.creation_timestamp
    return parse_rfc3339(time) if time else 0.0


def priority_order(pods: Iterable[core_v1.Pod]) -> list[core_v1.Pod]:
    """Pods in the order in which they should go: lowest priority, lowest quality of service, those without a preference to stay, newest.

    Source: the descheduler's SortPodsBasedOnPriorityLowToHigh; equal pods go newest first, as preemption prefers.
    """
    return sorted(
        pods,
        key=lambda pod: (
            pod.spec.priority is not None,
            pod.spec.priority or 0,
            _QOS_ORDER.index(qos_of(pod)),
            prefers_to_stay(pod),
            -created(pod),
            pod.metadata.namespace,
            pod.metadata.name,
        ),
    )


def owner_kinds(pod: core_v1.Pod) -> set[str]:
    """The kinds of a pod's owners."""
    return {owner.kind for owner in pod.metadata.owner_references}


def container_statuses(
    pod: core_v1.Pod, *, init: bool = False, ephemeral: bool = False
) -> Iterator[core_v1.ContainerStatus]:
    """The statuses of a pod's containers, with those of init and ephemeral containers if wanted."""
    yield from pod.status.container_statuses
    if init:
        yield from pod.status.init_container_statuses
    if ephemeral:
        yield from pod.status.ephemeral_container_statuses


def state_reasons(statuses: Iterable[core_v1.ContainerStatus], *, terminated: bool = True) -> Iterator[str]:
    """Why containers wait, and why they ended if wanted; without empty reasons."""
    for status in statuses:
        waiting, ended = status.state.waiting, status.state.terminated
        if waiting is not None and waiting.reason:
            yield waiting.reason
        if terminated and ended is not None and ended.reason:
            yield ended.reason


def exit_codes(statuses: Iterable[core_v1.ContainerStatus]) -> Iterator[int]:
    """The exit codes of containers that have ended."""
    for status in statuses:
        if status.state.terminated is not None:
            yield status.state.terminated.exit_code


def first_of(values: Iterable[str], wanted: Collection[str]) -> str:
    """The first value that is wanted; empty if there is none."""
    return next((value for value in values if value in wanted), "")
