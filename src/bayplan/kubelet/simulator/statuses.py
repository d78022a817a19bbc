"""The parts of which statuses of simulated pods are made: conditions, states and statuses of containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bayplan.api.types import core_v1
from bayplan.support.timestamps import rfc3339

CONDITIONS = frozenset(("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"))
"""Conditions that the kubelet writes."""


def conditions_of(
    pod: core_v1.Pod,
    now: float,
    ready: bool,
    *,
    initialized: bool = True,
    reason: str = "",
    started: bool = True,
    unready: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    """The kubelet's conditions; those of others (PodScheduled, readiness gates, DisruptionTarget) stay. `unready`: containers that are not, all if not given."""
    stamp, generation = rfc3339(now), pod.metadata.generation
    gates = {gate.condition_type for gate in pod.spec.readiness_gates}
    met = all(any(one.type == gate and one.status == "True" for one in pod.status.conditions) for gate in gates)
    wanted = {
        "PodReadyToStartContainers": (started, ""),
        "Initialized": (initialized, "" if initialized else "ContainersNotInitialized"),
        "Ready": (ready and met, reason or ("" if met else "ReadinessGatesNotReady")),
        "ContainersReady": (ready, reason),
    }
    known = {one.type: one for one in pod.status.conditions}
    names = [one.name for one in pod.spec.containers] if unready is None else unready
    result = []
    for name, (value, why) in wanted.items():
        status = "True" if value else "False"
        old = known.pop(name, None)
        time = old.last_transition_time if old is not None and old.status == status else stamp
        message = f"containers with unready status: [{' '.join(names)}]" if why == "ContainersNotReady" else ""
        result.append(
            core_v1.PodCondition(
                type=name,
                status=status,
                reason="" if value else why,
                message="" if value else message,
                last_transition_time=time,
                observed_generation=generation,
            )
        )
    return (*result, *known.values())


def statuses_of(
    containers: Sequence[Any], state: core_v1.ContainerState, *, ready: bool, started: bool
) -> tuple[core_v1.ContainerStatus, ...]:
    """Statuses of containers that are all in one state; those that run have what they ask for."""
    running = state.running is not None
    return tuple(
        core_v1.ContainerStatus(
            name=one.name,
            image=one.image,
            image_id=f"bayplan://{one.image}" if started else "",
            container_id=f"bayplan://{one.name}" if started else "",
            ready=ready,
            started=started,
            state=state,
            resources=one.resources if running else None,
            allocated_resources=one.resources.requests if running else {},
        )
        for one in containers
    )


def waiting(reason: str, message: str = "") -> core_v1.ContainerState:
    """The state of a container that does not run yet, or not now."""
    return core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason=reason, message=message))


def terminated(code: int, started: str | None, now: float, reason: str = "") -> core_v1.ContainerState:
    """The state of a container that ended with this exit code."""
    reason = reason or ("Completed" if code == 0 else "Error")
    state = core_v1.ContainerStateTerminated(
        exit_code=code, reason=reason, started_at=started, finished_at=rfc3339(now)
    )
    return core_v1.ContainerState(terminated=state)


def with_status(pod: core_v1.Pod, **changes: Any) -> core_v1.PodStatus:
    """The pod's status with changes, as of the generation of its spec."""
    changed: core_v1.PodStatus = msgspec.structs.replace(
        pod.status, observed_generation=pod.metadata.generation, **changes
    )
    return changed
