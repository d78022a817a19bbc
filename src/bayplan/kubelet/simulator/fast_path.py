"""The fast path of most steps: a pod without init containers starts, and a pod of which all containers run and are ready goes on.

What is said here is exactly what `pod_sync` comes to, as a test shows for generated pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from bayplan.api.defaults.pods import qos_class
from bayplan.api.types import core_v1
from bayplan.kubelet.core.conditions import OWN_CONDITIONS
from bayplan.kubelet.core.containers.states import mount_statuses
from bayplan.kubelet.core.resize import lasting_containers
from bayplan.kubelet.core.resize_requests import IN_PROGRESS, PENDING
from bayplan.kubelet.simulator.containers import (
    MOMENT,
    ending,
    is_missing_command,
    is_plain,
    liveness_lost_after,
    may_be_ready,
    ready_after,
    says_anything,
    started_after,
)
from bayplan.kubelet.simulator.nodes.images import image_of, is_available
from bayplan.kubelet.simulator.references import refers
from bayplan.kubelet.simulator.runtime_memory import RUNTIME, container_id
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339, rfc3339

_TRUE = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""The conditions of a pod that runs and is ready, in the kubelet's order."""
_READY = frozenset(_TRUE[:-1])
_RESIZES = (PENDING, IN_PROGRESS)


def is_settled(pod: core_v1.Pod) -> bool:
    """A cheap look that finds most running pods up to date: nothing in the spec is new, everything is ready, and nothing else has a say in that."""
    status, spec = pod.status, pod.spec
    return (
        status.observed_generation == pod.metadata.generation
        and not spec.readiness_gates
        and spec.active_deadline_seconds is None
        and len(spec.ephemeral_containers) == len(status.ephemeral_container_statuses)
        and all(one.ready for one in status.container_statuses)
        and _is_at_rest(status.conditions)
    )


def _is_at_rest(conditions: tuple[core_v1.PodCondition, ...]) -> bool:
    """Whether conditions say that a pod runs, is ready, and has the resources that it asks for."""
    ready = 0
    for one in conditions:
        if one.type in _READY:
            ready += one.status == "True"
        elif one.type in _RESIZES:
            return False
    return ready == len(_READY)


def seconds_of_rest(pod: core_v1.Pod, now: float, settings: SimulatorSettings) -> float | None:
    """How long nothing happens to a settled pod; None if it has to be looked at now, infinity if nothing ever does."""
    status = pod.status
    known = {one.name: one for one in (*status.container_statuses, *status.init_container_statuses)}
    left = inf
    for container in lasting_containers(pod.spec):
        shown = known.get(container.name)
        running = shown.state.running if shown is not None else None
        if shown is None or running is None or running.started_at is None:
            return None
        began = parse_rfc3339(running.started_at) - now
        if not is_ready_at(pod, container, shown.restart_count, -began):
            return None
        for due in ends_after(pod, container, settings, shown.restart_count):
            left = min(left, began + due)
    return left if left > 0 else None


def is_ready_at(pod: core_v1.Pod, container: core_v1.Container, restarts: int, age: float) -> bool:
    """Whether a container is ready so many seconds after its start, for what its annotations say."""
    if not may_be_ready(pod, container.name):
        return False
    return age >= max(ready_after(pod, container, restarts), started_after(pod, container))


def ends_after(
    pod: core_v1.Pod, container: core_v1.Container, settings: SimulatorSettings, restarts: int
) -> Iterator[float]:
    """Seconds after its start when something ends a container."""
    plan = ending(pod, container, settings, restarts)
    if plan is not None:
        yield plan.seconds
    lost = liveness_lost_after(pod, container)
    if lost is not None:
        yield lost


def may_start(pod: core_v1.Pod) -> bool:
    """Whether a pod that has not started yet may be shown as running and ready with one write."""
    spec, is_annotated = pod.spec, says_anything(pod)
    return (
        not (spec.init_containers or spec.ephemeral_containers or spec.readiness_gates)
        and spec.active_deadline_seconds is None
        and not refers(spec)
        and all(
            not one.restart_policy_rules
            and is_available(one.image)
            and not is_missing_command(one)
            and (not is_annotated or is_ready_at(pod, one, 0, 0.0))
            for one in spec.containers
        )
        and not any(one.state.waiting is None or one.restart_count for one in pod.status.container_statuses)
    )


def seconds_to_run(pod: core_v1.Pod, settings: SimulatorSettings) -> float | None:
    """Seconds until something is due for a pod that has just started; None if nothing is."""
    if is_plain(pod):
        return None
    ends = [each for one in pod.spec.containers for each in ends_after(pod, one, settings, 0)]
    return max(min(ends), MOMENT) if ends else None


def running_status(pod: core_v1.Pod, accepted: float, now: float, host_ip: str, pod_ip: str) -> core_v1.PodStatus:
    """The status of a pod that runs now, whose node accepted it at an earlier time."""
    before, stamp = pod.status, rfc3339(now)
    start_time = before.start_time or rfc3339(accepted)
    if before.host_ips:
        host_ips, host_ip = before.host_ips, before.host_ips[0].ip
    else:
        host_ips = (core_v1.HostIP(ip=host_ip),) if host_ip else ()
    address = host_ip if pod.spec.host_network else pod_ip
    containers = sorted(pod.spec.containers, key=_name) if len(pod.spec.containers) > 1 else pod.spec.containers
    state = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=stamp))
    return core_v1.PodStatus(
        observed_generation=pod.metadata.generation,
        phase="Running",
        conditions=_conditions(pod, start_time, stamp),
        nominated_node_name=before.nominated_node_name,
        host_ip=host_ip,
        host_ips=host_ips,
        pod_ip=address,
        pod_ips=(core_v1.PodIP(ip=address),) if address else (),
        start_time=start_time,
        container_statuses=tuple(_container(pod.metadata.uid, one, state) for one in containers),
        qos_class=before.qos_class or qos_class(pod.spec),
        resource_claim_statuses=before.resource_claim_statuses,
        extended_resource_claim_status=before.extended_resource_claim_status,
        node_allocatable_resource_claim_statuses=before.node_allocatable_resource_claim_statuses,
    )


def _name(container: core_v1.Container) -> str:
    return container.name


def _container(uid: str, one: core_v1.Container, state: core_v1.ContainerState) -> core_v1.ContainerStatus:
    return core_v1.ContainerStatus(
        name=one.name,
        state=state,
        ready=True,
        image=one.image,
        image_id=image_of(one.image).image_id,
        container_id=f"{RUNTIME}://{container_id(uid, one.name, 0)}",
        started=True,
        allocated_resources=one.resources.requests,
        resources=one.resources,
        volume_mounts=mount_statuses(one, recursive_read_only=False) if one.volume_mounts else (),
    )


def _conditions(pod: core_v1.Pod, start_time: str, now: str) -> tuple[core_v1.PodCondition, ...]:
    generation, known = pod.metadata.generation, {one.type: one for one in pod.status.conditions}
    found = [one for one in pod.status.conditions if one.type not in OWN_CONDITIONS]
    for name in _TRUE:
        old = known.get(name)
        since = start_time if name in ("Initialized", "PodScheduled") else now
        if old is not None and old.status == "True":
            since = old.last_transition_time or since
        found.append(
            core_v1.PodCondition(type=name, status="True", observed_generation=generation, last_transition_time=since)
        )
    return tuple(found)
