"""Resizing the containers of a running pod in place, as a pure function.

    spec changed ─▶ room on the node? ─▶ no, never: condition PodResizePending (Infeasible)
                                      ─▶ not now:   condition PodResizePending (Deferred), asked again when the node changes
                                      ─▶ yes: allocatedResources, condition PodResizeInProgress ─▶ a moment later: resources, conditions gone

A container whose resizePolicy says RestartContainer for a resource that changes is started again. What containers have is in
`status.containerStatuses[].resources`, what the node has promised them in `allocatedResources`.

Source of the behaviour: KEP-1287 and the allocation manager of Kubernetes 1.36's kubelet (conditions, reasons, messages).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.quantity import milli_value, value
from bayplan.api.types import core_v1
from bayplan.kubelet.core.resize_requests import DEFERRED, IN_PROGRESS, INFEASIBLE, PENDING, resize_condition
from bayplan.support.timestamps import parse_rfc3339, rfc3339

_RESOURCES = ("cpu", "memory")
_KILLED = 137
"""Exit code of a container that is stopped to be started with other resources."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a node has, and what its other pods are promised. Milli-cpu and bytes."""

    capacity: Mapping[str, int]
    used: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Resize:
    """What becomes of a pod's status."""

    status: core_v1.PodStatus
    wait: float | None = None
    """Seconds until there is something to do; None if it is done or the node has to change first."""


def is_concerned(pod: core_v1.Pod) -> bool:
    """A cheap look at whether a running pod may have something to resize."""
    return pod.status.observed_generation != pod.metadata.generation or any(
        one.type in (PENDING, IN_PROGRESS) for one in pod.status.conditions
    )


def amount(name: str, quantity: str | int | float) -> int:
    """A quantity in the unit in which nodes count the resource."""
    return milli_value(quantity) if name == "cpu" else value(quantity)


def resizable(pod: core_v1.Pod) -> dict[str, core_v1.Container]:
    """Containers and sidecars by name."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    return {one.name: one for one in (*pod.spec.containers, *sidecars)}


def promised(pod: core_v1.Pod) -> dict[str, int]:
    """What the node has promised a pod: what is allocated where the status says so, else what the spec asks for."""
    statuses = {one.name: one for one in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    total = dict.fromkeys(_RESOURCES, 0)
    for name, container in resizable(pod).items():
        known = statuses.get(name)
        requests = known.allocated_resources if known is not None and known.resources else container.resources.requests
        for resource in _RESOURCES:
            total[resource] += amount(resource, requests.get(resource, "0"))
    return total


def requested(pod: core_v1.Pod) -> dict[str, int]:
    """What the spec asks for."""
    containers = resizable(pod).values()
    return {name: sum(amount(name, one.resources.requests.get(name, "0")) for one in containers) for name in _RESOURCES}


def advance(pod: core_v1.Pod, now: float, seconds: float, room: Callable[[], Room]) -> Resize:
    """The next step of a running pod's resize. `seconds`: how long it takes. `room` is asked only if it matters."""
    containers = resizable(pod)
    status = _first_report(pod, containers)
    if not _differs(status, containers):
        return Resize(_with_conditions(status, {PENDING: None, IN_PROGRESS: None}))
    started = next((one for one in status.conditions if one.type == IN_PROGRESS), None)
    generation = pod.metadata.generation
    if started is not None and started.observed_generation == generation:
        left = parse_rfc3339(started.last_transition_time or rfc3339(now)) + seconds - now
        if left > 0:
            return Resize(status, left)
        return Resize(_applied(status, containers, now))
    refusal = _refusal(pod, room())
    if refusal is not None:
        reason, message = refusal
        pending = resize_condition(PENDING, reason, message, generation, now)
        return Resize(_with_conditions(status, {PENDING: pending, IN_PROGRESS: None}))
    started = resize_condition(IN_PROGRESS, "", "", generation, now)
    status = _with_conditions(_allocated(status, containers), {PENDING: None, IN_PROGRESS: started})
    return Resize(status, max(seconds, 0.0))


def _refusal(pod: core_v1.Pod, room: Room) -> tuple[str, str] | None:
    """(reason, message) why a pod cannot have what it asks for; None if it can."""
    wanted = requested(pod)
    for name in ("memory", "cpu"):
        have = room.capacity.get(name, 0)
        if wanted[name] > have:
            message = f"Node didn't have enough capacity: {name}, requested: {wanted[name]}, capacity: {have}"
            return INFEASIBLE, message
    for name in _RESOURCES:
        have, used = room.capacity.get(name, 0), room.used.get(name, 0)
        if wanted[name] and wanted[name] + used > have:
            message = (
                f"Node didn't have enough resource: {name}, requested: {wanted[name]}, used: {used}, capacity: {have}"
            )
            return DEFERRED, message
    return None


def _with_conditions(
    status: core_v1.PodStatus, changes: Mapping[str, core_v1.PodCondition | None]
) -> core_v1.PodStatus:
    """Set or take away conditions. One that stays True keeps its time, unless it begins anew for another generation."""
    known = {one.type: one for one in status.conditions}
    for kind, new in changes.items():
        old = known.pop(kind, None)
        if new is None:
            continue
        if old is not None and kind == PENDING:
            new.last_transition_time = old.last_transition_time
        known[kind] = new
    conditions = tuple(known.values())
    return status if conditions == status.conditions else msgspec.structs.replace(status, conditions=conditions)


def _first_report(pod: core_v1.Pod, containers: Mapping[str, core_v1.Container]) -> core_v1.PodStatus:
    """Statuses that say nothing of resources yet, as of pods that somebody else started, take over what the spec says."""

    def reported(one: core_v1.ContainerStatus) -> core_v1.ContainerStatus:
        container = containers.get(one.name)
        if container is None or one.resources is not None or one.state.running is None:
            return one
        requests = container.resources.requests
        return msgspec.structs.replace(one, resources=container.resources, allocated_resources=requests)

    return _mapped(pod.status, reported)


def _mapped(
    status: core_v1.PodStatus, change: Callable[[core_v1.ContainerStatus], core_v1.ContainerStatus]
) -> core_v1.PodStatus:
    """A status with changed container statuses; the same one if nothing changes."""
    changes: dict[str, Any] = {}
    for name in ("container_statuses", "init_container_statuses"):
        old = getattr(status, name)
        new = tuple(change(one) for one in old)
        if any(after is not before for after, before in zip(new, old, strict=True)):
            changes[name] = new
    return msgspec.structs.replace(status, **changes) if changes else status


def _all(status: core_v1.PodStatus) -> Iterable[core_v1.ContainerStatus]:
    return (*status.container_statuses, *status.init_container_statuses)


def _differs(status: core_v1.PodStatus, containers: Mapping[str, core_v1.Container]) -> bool:
    """Whether a running container has other resources than its spec asks for."""
    return any(
        one.resources is not None and one.name in containers and _has_changed(one.resources, containers[one.name])
        for one in _all(status)
    )


def _has_changed(have: core_v1.ResourceRequirements, container: core_v1.Container) -> bool:
    return bool(_changed_resources(have, container.resources))


def _changed_resources(have: core_v1.ResourceRequirements, wanted: core_v1.ResourceRequirements) -> set[str]:
    return {
        name
        for name in _RESOURCES
        if have.requests.get(name) != wanted.requests.get(name) or have.limits.get(name) != wanted.limits.get(name)
    }


def _allocated(status: core_v1.PodStatus, containers: Mapping[str, core_v1.Container]) -> core_v1.PodStatus:
    def promise(one: core_v1.ContainerStatus) -> core_v1.ContainerStatus:
        container = containers.get(one.name)
        if container is None or one.allocated_resources == container.resources.requests:
            return one
        return msgspec.structs.replace(one, allocated_resources=container.resources.requests)

    return _mapped(status, promise)


def _applied(status: core_v1.PodStatus, containers: Mapping[str, core_v1.Container], now: float) -> core_v1.PodStatus:
    def apply(one: core_v1.ContainerStatus) -> core_v1.ContainerStatus:
        container = containers.get(one.name)
        if container is None or one.resources is None:
            return one
        changed = _changed_resources(one.resources, container.resources)
        if not changed:
            return one
        resized: core_v1.ContainerStatus = msgspec.structs.replace(one, resources=container.resources)
        restarts = {each.resource_name for each in container.resize_policy if each.restart_policy == "RestartContainer"}
        return _restarted(resized, now) if changed & restarts and one.state.running is not None else resized

    return _with_conditions(_mapped(status, apply), {PENDING: None, IN_PROGRESS: None})


def _restarted(one: core_v1.ContainerStatus, now: float) -> core_v1.ContainerStatus:
    """The container ended and runs again."""
    running = one.state.running
    ended = core_v1.ContainerStateTerminated(
        exit_code=_KILLED,
        reason="Error",
        started_at=running.started_at if running is not None else None,
        finished_at=rfc3339(now),
    )
    again = core_v1.ContainerStateRunning(started_at=rfc3339(now))
    restarted: core_v1.ContainerStatus = msgspec.structs.replace(
        one,
        state=core_v1.ContainerState(running=again),
        last_state=core_v1.ContainerState(terminated=ended),
        restart_count=one.restart_count + 1,
    )
    return restarted
