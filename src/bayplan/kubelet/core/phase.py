"""The phase of a pod, from the statuses of its containers (getPhase in pkg/kubelet/kubelet_pods.go)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import is_sidecar, runs_again

RESTARTING_ALL = "RestartingAllContainers"
"""Reason of a container that ended because all of its pod's containers start anew."""


def phase_of(
    pod: core_v1.Pod,
    statuses: Mapping[str, core_v1.ContainerStatus],
    *,
    terminal: bool,
    initialized: bool,
    static: bool,
) -> str:
    """The phase.

    statuses: of containers and init containers, by name. terminal: nothing of the pod runs or will run any more. initialized: a container
    besides init containers was created in the present sandbox. static: the pod comes from a file of the node.
    """
    counts = _count(pod.spec, statuses)
    if counts["failed init"]:
        return "Failed"
    pending = counts["pending init"] or (counts["pending sidecar"] and not initialized)
    if pending or counts["waiting"]:
        return "Pending"
    if counts["running"] and not counts["unknown"]:
        return "Running"
    if counts["unknown"] or not counts["stopped"]:
        return "Pending"
    if not (terminal and not static) and counts["stopped"] != counts["stopped for good"]:
        return "Running"
    return "Succeeded" if counts["stopped"] == counts["succeeded"] else "Failed"


def _count(spec: core_v1.PodSpec, statuses: Mapping[str, core_v1.ContainerStatus]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for container in spec.init_containers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            _count_sidecar(status, counts)
        else:
            _count_init(container, spec, status, counts)
    for container in spec.containers:
        _count_container(container, spec, statuses.get(container.name), counts)
    return counts


def _ended(status: core_v1.ContainerStatus) -> core_v1.ContainerStateTerminated | None:
    """How a container ended that does not run: now, or before it waits to run again."""
    if status.state.terminated is not None:
        return status.state.terminated
    return status.last_state.terminated if status.state.waiting is not None else None


def _is_restartable(
    container: core_v1.Container, spec: core_v1.PodSpec, ended: core_v1.ContainerStateTerminated
) -> bool:
    return ended.reason == RESTARTING_ALL or runs_again(container, spec, ended.exit_code)


def _count_init(
    container: core_v1.Container, spec: core_v1.PodSpec, status: core_v1.ContainerStatus | None, counts: Counter[str]
) -> None:
    ended = _ended(status) if status is not None else None
    if ended is None:
        counts["pending init"] += 1
    elif ended.exit_code and not _is_restartable(container, spec, ended):
        counts["failed init"] += 1


def _count_sidecar(status: core_v1.ContainerStatus | None, counts: Counter[str]) -> None:
    if status is None:
        counts["unknown"] += 1
    elif status.state.running is not None:
        counts["running"] += 1
        counts["pending sidecar"] += not status.started
    elif _ended(status) is None:
        counts["pending sidecar"] += 1
        counts["waiting" if status.state.waiting is not None else "unknown"] += 1


def _count_container(
    container: core_v1.Container, spec: core_v1.PodSpec, status: core_v1.ContainerStatus | None, counts: Counter[str]
) -> None:
    if status is None:
        counts["unknown"] += 1
        return
    if status.state.running is not None:
        counts["running"] += 1
        return
    ended = _ended(status)
    if ended is None:
        counts["waiting" if status.state.waiting is not None else "unknown"] += 1
        return
    counts["stopped"] += 1
    counts["stopped for good"] += not _is_restartable(container, spec, ended)
    if status.state.terminated is not None:
        counts["succeeded"] += not ended.exit_code
