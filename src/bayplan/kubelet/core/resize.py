"""Resizing pods in place: what a node has promised a pod, whether it can promise more, and which limits are to change (KEP-1287).

    spec ──room on the node?──▶ allocated ──limits set──▶ actuated

All three are `Allocation`s. The kubelet works with the allocated pod throughout; containers whose actuated resources are others are updated, or
started again where their resizePolicy says so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from bayplan.api.quantity import Quantity, milli_value, parse, value
from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import is_sidecar

RESIZABLE = ("memory", "cpu")
"""Resources that can change while a container runs, in the order in which they do."""
_RESTART = "RestartContainer"


class Allocation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Resources of a pod: of its containers by name, and its own where it has some."""

    containers: dict[str, core_v1.ResourceRequirements] = msgspec.field(default_factory=dict)
    pod: core_v1.ResourceRequirements | None = None


def lasting_containers(spec: core_v1.PodSpec) -> list[core_v1.Container]:
    """Containers and sidecars: what runs as long as the pod does."""
    return [*spec.containers, *(each for each in spec.init_containers if is_sidecar(each))]


def resizable_containers(spec: core_v1.PodSpec) -> list[core_v1.Container]:
    """Containers, sidecars and init containers, whose resources may change while they run."""
    return [*spec.containers, *spec.init_containers]


def allocation_of(pod: core_v1.Pod) -> Allocation:
    """What the spec of a pod asks for."""
    return Allocation({each.name: each.resources for each in resizable_containers(pod.spec)}, pod.spec.resources)


def with_allocation(pod: core_v1.Pod, allocation: Allocation | None) -> core_v1.Pod:
    """A pod as if its spec asked for what is allocated; the same pod if it does."""
    if allocation is None:
        return pod

    def changed(containers: tuple[core_v1.Container, ...]) -> tuple[core_v1.Container, ...]:
        return tuple(
            each
            if each.name not in allocation.containers
            or same_resources(each.resources, allocation.containers[each.name])
            else msgspec.structs.replace(each, resources=allocation.containers[each.name])
            for each in containers
        )

    spec = pod.spec
    containers, init_containers = changed(spec.containers), changed(spec.init_containers)
    level = spec.resources if same_resources(spec.resources, allocation.pod) else allocation.pod
    unchanged = level is spec.resources and all(
        one is other
        for one, other in zip((*containers, *init_containers), (*spec.containers, *spec.init_containers), strict=True)
    )
    if unchanged:
        return pod
    spec = msgspec.structs.replace(spec, containers=containers, init_containers=init_containers, resources=level)
    allocated: core_v1.Pod = msgspec.structs.replace(pod, spec=spec)
    return allocated


def same_resources(one: core_v1.ResourceRequirements | None, other: core_v1.ResourceRequirements | None) -> bool:
    """Whether requests and limits are equal amounts, however they are spelled."""
    if one is None or other is None:
        return one is other
    return _parsed(one) == _parsed(other)


def _parsed(resources: core_v1.ResourceRequirements) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    requests, limits = resources.requests, resources.limits
    return (
        {name: parse(amount) for name, amount in requests.items()},
        {name: parse(amount) for name, amount in limits.items()},
    )


class Change(enum.Enum):
    """What a running container needs to have what is allocated to it."""

    NONE = enum.auto()
    UPDATE = enum.auto()
    RESTART = enum.auto()


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of one container: memory in bytes, cpu in thousandths; 0 where nothing is said. The pod's limits hold for containers without any."""

    memory_limit: int = 0
    memory_request: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0

    def of(self, resource: str) -> tuple[int, int]:
        """(limit, request) of memory or cpu."""
        if resource == "memory":
            return self.memory_limit, self.memory_request
        return self.cpu_limit, self.cpu_request


def amounts(
    resources: core_v1.ResourceRequirements | None, of_pod: core_v1.ResourceRequirements | None = None
) -> Amounts:
    """The amounts of one container in a pod that may have resources of its own."""
    if resources is None:
        return Amounts()
    limits = {**(of_pod.limits if of_pod is not None else {}), **resources.limits}
    requests = resources.requests
    return Amounts(
        value(limits.get("memory", 0)),
        value(requests.get("memory", 0)),
        milli_value(limits.get("cpu", 0)),
        milli_value(requests.get("cpu", 0)),
    )


@dataclass(frozen=True, slots=True)
class ContainerUpdate:
    """A running container of which one resource is to change in place."""

    container_id: str
    container: core_v1.Container
    current: Amounts
    wanted: Amounts


@dataclass(slots=True)
class ResizePlan:
    """Updates by resource, decreases before increases so that the pod's own limit is kept meanwhile."""

    updates: dict[str, list[ContainerUpdate]] = field(default_factory=dict)
    pod: bool = False
    """Whether the pod's own limits are to change, also where no container is updated."""

    @property
    def changes_anything(self) -> bool:
        """Whether there is something to do."""
        return self.pod or bool(self.updates)

    def touches(self, resource: str) -> bool:
        """Whether limits of this resource are to change."""
        return self.pod or bool(self.updates.get(resource))


def plan_container(
    plan: ResizePlan, pod: core_v1.Pod, container: core_v1.Container, container_id: str, actuated: Allocation
) -> Change:
    """Add to the plan what a running container needs. pod: with what is allocated to it.

    A container of which is not known what it has got, as by a kubelet that kept no records, is updated and never started again for that.
    """
    has = actuated.containers.get(container.name)
    current = amounts(has, actuated.pod)
    wanted = amounts(container.resources, pod.spec.resources)
    changed = [name for name in RESIZABLE if current.of(name) != wanted.of(name)]
    if not changed:
        return Change.NONE
    restarts = {each.resource_name for each in container.resize_policy if each.restart_policy == _RESTART}
    if has is not None and restarts.intersection(changed):
        plan.pod = True
        return Change.RESTART
    for name in changed:
        update = ContainerUpdate(container_id, container, current, wanted)
        updates = plan.updates.setdefault(name, [])
        if wanted.of(name) < current.of(name):
            updates.insert(0, update)
        else:
            updates.append(update)
    return Change.UPDATE


def plan_pod(plan: ResizePlan, pod: core_v1.Pod, actuated: Allocation) -> None:
    """Add what the pod's own resources need."""
    if pod.spec.resources is not None and amounts(pod.spec.resources) != amounts(actuated.pod):
        plan.pod = True


def is_in_progress(pod: core_v1.Pod, running: Iterable[str], actuated: Allocation) -> bool:
    """Whether a container that runs (by name), or the pod itself, has not got yet what is allocated."""
    plan, names = ResizePlan(), set(running)
    for container in resizable_containers(pod.spec):
        if container.name in names and plan_container(plan, pod, container, "", actuated) is not Change.NONE:
            return True
    plan_pod(plan, pod, actuated)
    return plan.pod


def resources_between(update: ContainerUpdate, resource: str) -> core_v1.ResourceRequirements:
    """What an updated container has when one resource has changed. Memory goes first, so cpu finds it changed already."""
    memory = update.wanted
    cpu = update.current if resource == "memory" else update.wanted

    def listed(memory_bytes: int, milli_cpu: int) -> dict[str, str | int | float]:
        found: dict[str, str | int | float] = {}
        if memory_bytes:
            found["memory"] = str(memory_bytes)
        if milli_cpu:
            found["cpu"] = f"{milli_cpu}m"
        return found

    changed: core_v1.ResourceRequirements = msgspec.structs.replace(
        update.container.resources,
        limits={**_others(update.container.resources.limits), **listed(memory.memory_limit, cpu.cpu_limit)},
        requests={**_others(update.container.resources.requests), **listed(memory.memory_request, cpu.cpu_request)},
    )
    return changed


def _others(amounts_by_name: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    return {name: amount for name, amount in amounts_by_name.items() if name not in RESIZABLE}


def decreasing_memory(updates: Iterable[ContainerUpdate]) -> dict[str, int]:
    """Names of containers whose memory limit is to be lower than it is -> that limit in bytes."""
    return {
        each.container.name: each.wanted.memory_limit
        for each in updates
        if each.wanted.memory_limit
        and (not each.current.memory_limit or each.wanted.memory_limit < each.current.memory_limit)
    }
