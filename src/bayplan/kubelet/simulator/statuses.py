"""The status of a simulated pod after a step, made by the kubelet's core, and whether it says anything new."""

from __future__ import annotations

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.conditions import DISRUPTION_TARGET, OWN_CONDITIONS, with_transition_times
from bayplan.kubelet.core.containers.states import StatusFacts
from bayplan.kubelet.core.merge import merged_status
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.pod_status import (
    TERMINAL,
    PodFacts,
    ProbeView,
    generate_pod_status,
    terminated_pod_status,
)
from bayplan.kubelet.simulator.events import WARNING, Told
from bayplan.kubelet.simulator.pod_sync import PodSync
from bayplan.kubelet.simulator.runtime_memory import RUNTIME
from bayplan.support.timestamps import rfc3339


def _never(_: str, __: str) -> bool:
    return False


def created_status(pod: core_v1.Pod, now: float, host_ip: str) -> core_v1.PodStatus:
    """The status of a pod of which nothing has been made yet."""
    state = PodState(pod.metadata.uid, pod.metadata.name, pod.metadata.namespace, seen_at=now)
    facts = PodFacts(_host_ips(pod, host_ip), StatusFacts(RUNTIME))
    status = generate_pod_status(pod, state, pod.status, ProbeView(_never, _never), facts)
    return _written(pod, status, now)


def status_after(sync: PodSync, before: core_v1.PodStatus, host_ip: str) -> core_v1.PodStatus:
    """The status after a step; the one before where nothing has changed."""
    pod = sync.pod
    known = _without_resized(before, sync)
    facts = PodFacts(
        _host_ips(pod, host_ip),
        StatusFacts(RUNTIME, sync.failures),
        failure=sync.failure,
        terminal=sync.runtime.is_stopped,
        resize_conditions=sync.resources.conditions,
    )
    state, probes = sync.runtime.state(sync.now), sync.probes()
    status = generate_pod_status(pod, state, known, probes, facts)
    if sync.resources.wait is not None:
        status = _with_resources_kept(status, before)
    if status.phase in TERMINAL:
        if not sync.runtime.is_stopped:
            sync.stop()
            facts = PodFacts(facts.host_ips, facts.containers, failure=sync.failure, terminal=True)
            status = generate_pod_status(pod, sync.runtime.state(sync.now), known, probes, facts)
        status = terminated_pod_status(pod, status)
    if sync.disruption:
        status.conditions = (*status.conditions, _disruption(pod, sync.disruption, sync.now))
    return _written(pod, status, sync.now)


def _disruption(pod: core_v1.Pod, message: str, now: float) -> core_v1.PodCondition:
    """The condition of a pod that its node has evicted."""
    return core_v1.PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason="TerminationByKubelet",
        message=message,
        observed_generation=pod.metadata.generation,
        last_transition_time=rfc3339(now),
    )


def lost_readiness(before: core_v1.PodStatus, after: core_v1.PodStatus) -> tuple[Told, ...]:
    """Events about containers that run on and are not ready any more."""
    ready = {one.container_id for one in before.container_statuses if one.ready}
    return tuple(
        Told(WARNING, "Unhealthy", "Readiness probe failed: the annotation says so", one.name)
        for one in after.container_statuses
        if one.container_id in ready and one.state.running is not None and not one.ready
    )


def _host_ips(pod: core_v1.Pod, host_ip: str) -> tuple[str, ...]:
    known = tuple(one.ip for one in pod.status.host_ips) or ((pod.status.host_ip,) if pod.status.host_ip else ())
    return known or ((host_ip,) if host_ip else ())


def _without_resized(before: core_v1.PodStatus, sync: PodSync) -> core_v1.PodStatus:
    """The status before as if it did not say what containers had whose limits have just changed."""
    if not sync.resized:
        return before

    def changed(statuses: tuple[core_v1.ContainerStatus, ...]) -> tuple[core_v1.ContainerStatus, ...]:
        return tuple(
            msgspec.structs.replace(one, resources=None) if one.name in sync.resized else one for one in statuses
        )

    forgotten: core_v1.PodStatus = msgspec.structs.replace(
        before,
        container_statuses=changed(before.container_statuses),
        init_container_statuses=changed(before.init_container_statuses),
    )
    return forgotten


def _with_resources_kept(status: core_v1.PodStatus, before: core_v1.PodStatus) -> core_v1.PodStatus:
    """Containers that are to get other resources show those that they have, so that the next step knows: the core takes requests of memory as changed at once."""
    has = {one.container_id: one.resources for one in (*before.container_statuses, *before.init_container_statuses)}

    def kept(statuses: tuple[core_v1.ContainerStatus, ...]) -> tuple[core_v1.ContainerStatus, ...]:
        return tuple(
            msgspec.structs.replace(one, resources=has.get(one.container_id, one.resources)) for one in statuses
        )

    changed: core_v1.PodStatus = msgspec.structs.replace(
        status,
        container_statuses=kept(status.container_statuses),
        init_container_statuses=kept(status.init_container_statuses),
    )
    return changed


def _written(pod: core_v1.Pod, status: core_v1.PodStatus, now: float) -> core_v1.PodStatus:
    """The status as it is written: with what others have said of the pod, and the times of conditions."""
    before, stamp = pod.status, rfc3339(now)
    merged = merged_status(pod, before, status, may_run=False)
    own = [one for one in merged.conditions if one.type in OWN_CONDITIONS]
    others = [one for one in merged.conditions if one.type not in OWN_CONDITIONS]
    conditions = (*others, *with_transition_times(own, before.conditions, stamp))
    known = {one.type: one for one in before.conditions}
    if len(conditions) == len(known) and all(known.get(one.type) == one for one in conditions):
        conditions = before.conditions
    written: core_v1.PodStatus = msgspec.structs.replace(
        merged,
        conditions=conditions,
        start_time=before.start_time or stamp,
        observed_generation=max(before.observed_generation, merged.observed_generation),
    )
    return written
