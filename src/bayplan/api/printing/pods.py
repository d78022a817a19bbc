"""How pods look in tables: one word for the state of all containers, and how often they were restarted."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, Printer, age, columns, object_age
from bayplan.api.types import core_v1

_ENDED = {
    "Succeeded": [
        {"type": "Completed", "status": "True", "reason": "Succeeded", "message": "The pod has completed successfully."}
    ],
    "Failed": [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}],
}


class _Summary:
    """State of a pod as a person would say it, gathered over its containers."""

    def __init__(self, pod: core_v1.Pod) -> None:
        self.pod = pod
        self.reason = _pod_reason(pod)
        self.ready = 0
        self.restarts = 0
        self.last_end = ""
        """When the last of the restarted containers ended; "" if none did."""
        self.restartable = {
            container.name for container in pod.spec.init_containers if container.restart_policy == "Always"
        }
        self.total = len(pod.spec.containers) + len(self.restartable)
        initializing = self._init_containers()
        if not initializing or _is_true(pod, "Initialized"):
            self._containers()
        if pod.metadata.deletion_timestamp is not None:
            if pod.status.reason == "NodeLost":
                self.reason = "Unknown"
            elif pod.status.phase not in _ENDED:
                self.reason = "Terminating"

    def _count(self, status: core_v1.ContainerStatus) -> None:
        self.restarts += status.restart_count
        ended = status.last_state.terminated
        if ended is not None and ended.finished_at:
            self.last_end = max(self.last_end, ended.finished_at)

    def _init_containers(self) -> bool:
        """Look at init containers up to the first that is not done. Returns whether there is one."""
        for index, status in enumerate(self.pod.status.init_container_statuses):
            self._count(status)
            ended, waiting = status.state.terminated, status.state.waiting
            if ended is not None and ended.exit_code == 0:
                continue
            if status.name in self.restartable and status.started:
                self.ready += status.ready
                continue
            if ended is not None:
                self.reason = f"Init:{_end_reason(ended)}"
            elif waiting is not None and waiting.reason and waiting.reason != "PodInitializing":
                self.reason = f"Init:{waiting.reason}"
            else:
                self.reason = f"Init:{index}/{len(self.pod.spec.init_containers)}"
            return True
        return False

    def _containers(self) -> None:
        """Look at the containers proper; restarts of init containers that are done count no more."""
        self.restarts, self.last_end = 0, ""
        for status in self.pod.status.init_container_statuses:
            if status.name in self.restartable:
                self._count(status)
        running = False
        for status in reversed(self.pod.status.container_statuses):
            self._count(status)
            state = status.state
            if state.waiting is not None and state.waiting.reason:
                self.reason = state.waiting.reason
            elif state.terminated is not None:
                self.reason = _end_reason(state.terminated)
            elif status.ready and state.running is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed" and running:
            self.reason = "Running" if _is_true(self.pod, "Ready") else "NotReady"

    def restarts_text(self, now: float) -> str:
        """`3 (5m ago)`."""
        return (
            f"{self.restarts} ({age(self.last_end, now)} ago)"
            if self.restarts and self.last_end
            else str(self.restarts)
        )


def _pod_reason(pod: core_v1.Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "SchedulingGated":
            return "SchedulingGated"
    return pod.status.reason or pod.status.phase


def _end_reason(ended: core_v1.ContainerStateTerminated) -> str:
    return ended.reason or (f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}")


def _is_true(pod: core_v1.Pod, condition_type: str) -> bool:
    return any(condition.type == condition_type and condition.status == "True" for condition in pod.status.conditions)


def _readiness_gates(pod: core_v1.Pod) -> str:
    gates = pod.spec.readiness_gates
    return f"{sum(_is_true(pod, gate.condition_type) for gate in gates)}/{len(gates)}" if gates else NONE


def _cells(pod: core_v1.Pod, now: float) -> list[Any]:
    summary = _Summary(pod)
    return [
        pod.metadata.name,
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarts_text(now),
        object_age(pod, now),
        pod.status.pod_ips[0].ip if pod.status.pod_ips else NONE,
        pod.spec.node_name or NONE,
        pod.status.nominated_node_name or NONE,
        _readiness_gates(pod),
    ]


POD = Printer(columns("core/Pod"), _cells, lambda pod: _ENDED.get(pod.status.phase, []))
