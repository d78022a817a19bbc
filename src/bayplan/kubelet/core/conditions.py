"""The conditions of a pod that its kubelet writes (pkg/kubelet/status/generate.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.actions import sandbox_verdict
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.restarts import (
    ALL_CONTAINERS_RESTARTING,
    containers_of,
    is_sidecar,
    may_restart_all,
    restarts_all,
)

OWN_CONDITIONS = frozenset(
    (
        "PodScheduled",
        "Ready",
        "Initialized",
        "ContainersReady",
        "PodReadyToStartContainers",
        "PodResizePending",
        "PodResizeInProgress",
        ALL_CONTAINERS_RESTARTING,
    )
)
"""Types of conditions that nobody but the kubelet writes."""
DISRUPTION_TARGET = "DisruptionTarget"
"""The condition that the kubelet shares with others."""

Statuses = Mapping[str, core_v1.ContainerStatus]


def _condition(pod: core_v1.Pod, name: str, value: bool, reason: str = "", message: str = "") -> core_v1.PodCondition:
    return core_v1.PodCondition(
        type=name,
        status="True" if value else "False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )


def containers_ready(pod: core_v1.Pod, statuses: Statuses, phase: str) -> core_v1.PodCondition:
    """ContainersReady."""
    name = "ContainersReady"
    if not statuses:
        return _condition(pod, name, False, "UnknownContainerStatuses")
    wanted = [each.name for each in containers_of(pod.spec) if each in pod.spec.containers or is_sidecar(each)]
    unknown = [each for each in wanted if each not in statuses]
    unready = [each for each in wanted if each in statuses and not statuses[each].ready]
    if phase == "Failed":
        return _condition(pod, name, False, "PodFailed")
    if phase == "Succeeded" and not unknown:
        return _condition(pod, name, False, "PodCompleted")
    message = _message(unknown, unready, "unready")
    return _condition(pod, name, not message, "ContainersNotReady" if message else "", message)


def _message(unknown: Sequence[str], others: Sequence[str], state: str) -> str:
    parts = []
    if unknown:
        parts.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if others:
        parts.append(f"containers with {state} status: [{' '.join(others)}]")
    return ", ".join(parts)


def pod_ready(
    pod: core_v1.Pod, statuses: Statuses, phase: str, conditions: Iterable[core_v1.PodCondition]
) -> core_v1.PodCondition:
    """Ready: containers are, and all readiness gates are open. conditions: those that others have written."""
    containers = containers_ready(pod, statuses, phase)
    if containers.status != "True":
        renamed: core_v1.PodCondition = msgspec.structs.replace(containers, type="Ready")
        return renamed
    known = {each.type: each.status for each in conditions}
    messages = []
    for gate in pod.spec.readiness_gates:
        status = known.get(gate.condition_type)
        if status is None:
            messages.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif status != "True":
            messages.append(f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {status}')
    return _condition(pod, "Ready", not messages, "ReadinessGatesNotReady" if messages else "", ", ".join(messages))


def initialized(pod: core_v1.Pod, before: core_v1.PodStatus, statuses: Statuses, phase: str) -> core_v1.PodCondition:
    """Initialized; once true it stays true. before: the pod's status until now."""
    name = "Initialized"
    if not statuses and pod.spec.init_containers:
        return _condition(pod, name, False, "UnknownContainerStatuses")
    unknown = [each.name for each in pod.spec.init_containers if each.name not in statuses]
    incomplete = [
        each.name
        for each in pod.spec.init_containers
        if each.name in statuses and not _is_done(each, statuses[each.name])
    ]
    if phase == "Succeeded" and not unknown:
        return _condition(pod, name, True, "PodCompleted")
    if any_container_started(pod.spec, statuses):
        return _condition(pod, name, True)
    message = _message(unknown, incomplete, "incomplete")
    if not message or any(each.type == name and each.status == "True" for each in before.conditions):
        return _condition(pod, name, True)
    return _condition(pod, name, False, "ContainersNotInitialized", message)


def _is_done(container: core_v1.Container, status: core_v1.ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def any_container_started(spec: core_v1.PodSpec, statuses: Statuses) -> bool:
    """Whether a container besides init containers runs or has ended."""
    found = (statuses.get(each.name) for each in spec.containers)
    return any(each is not None and (each.state.running or each.state.terminated) is not None for each in found)


def ready_to_start_containers(pod: core_v1.Pod, state: PodState) -> core_v1.PodCondition:
    """PodReadyToStartContainers: the sandbox is there, with its network."""
    return _condition(pod, "PodReadyToStartContainers", not sandbox_verdict(pod, state).needed)


def all_containers_restarting(
    pod: core_v1.Pod, before: core_v1.PodStatus, state: PodState, phase: str
) -> core_v1.PodCondition | None:
    """AllContainersRestarting; None for pods whose containers never all start anew."""
    if not may_restart_all(pod.spec):
        return None
    reasons = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
    if phase in reasons:
        value, reason, message = False, reasons[phase], ""
    else:
        cleaned = all(state.latest(each.name) is None for each in containers_of(pod.spec))
        value = not cleaned and restarts_all(pod, state, before)
        reason = "RestartAllContainersStarted" if value else ""
        message = "container exited with restart policy rule" if value else ""
    condition = _condition(pod, ALL_CONTAINERS_RESTARTING, value, reason, message)
    unversioned: core_v1.PodCondition = msgspec.structs.replace(condition, observed_generation=0)
    return unversioned


def with_transition_times(
    conditions: Iterable[core_v1.PodCondition], before: Iterable[core_v1.PodCondition], now: str
) -> tuple[core_v1.PodCondition, ...]:
    """Conditions that tell since when they are so: those whose status did not change keep the time that they had."""
    known = {each.type: each for each in before}
    result = []
    for condition in conditions:
        old = known.get(condition.type)
        same = old is not None and old.status == condition.status
        time = old.last_transition_time if old is not None and same else now
        result.append(msgspec.structs.replace(condition, last_transition_time=time or now))
    return tuple(result)
