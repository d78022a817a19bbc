"""The status of a pod as the API shows it, made from what the runtime says (generateAPIPodStatus in pkg/kubelet/kubelet_pods.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from bayplan.api.defaults.pods import qos_class
from bayplan.api.types import core_v1
from bayplan.kubelet.core.conditions import (
    DISRUPTION_TARGET,
    OWN_CONDITIONS,
    all_containers_restarting,
    containers_ready,
    initialized,
    pod_ready,
    ready_to_start_containers,
)
from bayplan.kubelet.core.containers.states import KILLED, STATUS_UNKNOWN, Section, StatusFacts, container_statuses
from bayplan.kubelet.core.phase import phase_of
from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.resource_status import pod_resources
from bayplan.kubelet.core.restarts import is_sidecar, may_restart_all, restarts_all, runs_again
from bayplan.kubelet.runtime.types import LinuxResources

TERMINAL = frozenset(("Succeeded", "Failed"))
STATIC_SOURCE = "kubernetes.io/config.source"
"""Annotation that says where a pod comes from: `api`, or `file` or `http` for static pods."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the pod in the API that stands for a static pod."""


def is_static(pod: core_v1.Pod) -> bool:
    """Whether a pod comes from a file of the node or a URL, and not from the API."""
    return pod.metadata.annotations.get(STATIC_SOURCE, "api") != "api"


def is_mirror(pod: core_v1.Pod) -> bool:
    """Whether a pod of the API only stands for a static pod."""
    return MIRROR in pod.metadata.annotations


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod has failed as a whole, such as Evicted."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ProbeView:
    """What probes say of containers, for the status: `(name, container id) -> started` and `-> ready`."""

    started: Callable[[str, str], bool]
    ready: Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a pod's status depends on besides pod and runtime."""

    host_ips: tuple[str, ...] = ()
    containers: StatusFacts = field(default_factory=StatusFacts)
    terminal: bool = False
    """Whether nothing of the pod runs or will run any more."""
    failure: Failure | None = None
    resize_conditions: tuple[core_v1.PodCondition, ...] = ()
    shows_resources: bool = False
    """Whether the status says what the pod as a whole has."""
    cgroup: LinuxResources | None = None
    """What the pod's cgroup says of that; None where it has none."""
    extra: Mapping[str, core_v1.PodCondition] = field(default_factory=dict)
    """Conditions that the kubelet has set once, such as DisruptionTarget, by type."""


def generate_pod_status(
    pod: core_v1.Pod, state: PodState, before: core_v1.PodStatus, probes: ProbeView, facts: PodFacts
) -> core_v1.PodStatus:
    """The status of now. before: what the kubelet last said, or the API's status if it has not said anything yet."""
    container_facts = replace(facts.containers, restarting_all=restarts_all(pod, state, before))
    sections = {each: container_statuses(pod, state, before, each, container_facts) for each in Section}
    static = is_static(pod)
    by_name = {each.name: each for each in (*sections[Section.INIT], *sections[Section.MAIN])}
    _set_probe_results(pod, sections, probes)
    has_active = {each.container.name for each in state.active}
    phase = phase_of(
        pod,
        by_name,
        terminal=facts.terminal,
        initialized=any(each.name in has_active for each in pod.spec.containers),
        static=static,
    )
    phase, reason, message = _final_phase(pod, before, phase, facts.failure)
    status = core_v1.PodStatus(
        observed_generation=pod.metadata.generation,
        phase=phase,
        reason=reason,
        message=message,
        qos_class=qos_class(pod.spec),
        init_container_statuses=sections[Section.INIT],
        container_statuses=sections[Section.MAIN],
        ephemeral_container_statuses=sections[Section.EPHEMERAL],
        start_time=before.start_time or pod.status.start_time,
        nominated_node_name=pod.status.nominated_node_name,
        conditions=_conditions(pod, state, before, by_name, phase, facts),
    )
    _set_addresses(pod, state, before, status, facts.host_ips)
    if facts.shows_resources:
        found = pod_resources(pod, facts.cgroup, before.resources if before.phase == "Running" else None)
        status.resources, status.allocated_resources = found.actual, dict(found.allocated)
    return status


def _set_probe_results(
    pod: core_v1.Pod, sections: Mapping[Section, tuple[core_v1.ContainerStatus, ...]], probes: ProbeView
) -> None:
    sidecars = {each.name for each in pod.spec.init_containers if is_sidecar(each)}
    for section in (Section.MAIN, Section.INIT):
        for status in sections[section]:
            container_id = status.container_id.partition("://")[2]
            running = status.state.running is not None
            status.started = running and probes.started(status.name, container_id)
            if section is Section.MAIN or status.name in sidecars:
                status.ready = status.started and probes.ready(status.name, container_id)
            else:
                ended = status.state.terminated
                status.ready = ended is not None and ended.exit_code == 0
    for status in sections[Section.EPHEMERAL]:
        status.started = None


def _final_phase(
    pod: core_v1.Pod, before: core_v1.PodStatus, phase: str, failure: Failure | None
) -> tuple[str, str, str]:
    """(phase, reason, message): a pod never leaves a terminal phase, and what was said about a phase stays."""
    if phase not in TERMINAL:
        phase = next((each for each in (before.phase, pod.status.phase) if each in TERMINAL), phase)
    reason = message = ""
    if phase == before.phase:
        reason = before.reason or pod.status.reason
        message = before.message or pod.status.message
    if failure is not None:
        phase, reason, message = "Failed", failure.reason, failure.message
    if pod.status.phase in TERMINAL:
        phase = pod.status.phase
    return phase, reason, message


def _conditions(
    pod: core_v1.Pod,
    state: PodState,
    before: core_v1.PodStatus,
    statuses: Mapping[str, core_v1.ContainerStatus],
    phase: str,
    facts: PodFacts,
) -> tuple[core_v1.PodCondition, ...]:
    conditions = [each for each in pod.status.conditions if each.type not in OWN_CONDITIONS]
    conditions += facts.resize_conditions
    disruption = facts.extra.get(DISRUPTION_TARGET) or next(
        (each for each in before.conditions if each.type == DISRUPTION_TARGET), None
    )
    if disruption is not None:
        conditions = [each for each in conditions if each.type != DISRUPTION_TARGET] + [disruption]
    conditions += [
        ready_to_start_containers(pod, state),
        initialized(pod, before, statuses, phase),
        pod_ready(pod, statuses, phase, conditions),
        containers_ready(pod, statuses, phase),
        core_v1.PodCondition(type="PodScheduled", status="True", observed_generation=pod.metadata.generation),
    ]
    restarting = all_containers_restarting(pod, before, state, phase)
    if restarting is not None:
        conditions.append(restarting)
    return tuple(conditions)


def _set_addresses(
    pod: core_v1.Pod,
    state: PodState,
    before: core_v1.PodStatus,
    status: core_v1.PodStatus,
    host_ips: tuple[str, ...],
) -> None:
    ips = _sorted_by_family(state.ips, host_ips)
    if pod.spec.host_network:
        ips = tuple(each.ip for each in before.pod_ips) or host_ips[:1]
        ips += tuple(each for each in host_ips[1:2] if len(ips) == 1 and (":" in each) != (":" in ips[0]))
    status.host_ip = host_ips[0] if host_ips else ""
    status.host_ips = tuple(core_v1.HostIP(ip=each) for each in host_ips)
    status.pod_ip = ips[0] if ips else ""
    status.pod_ips = tuple(core_v1.PodIP(ip=each) for each in ips)


def _sorted_by_family(ips: tuple[str, ...], host_ips: tuple[str, ...]) -> tuple[str, ...]:
    """One address per family, that of the node's first family in front."""
    if not ips:
        return ()
    prefers_six = ":" in (host_ips or ips)[0]
    first = next((each for each in ips if (":" in each) == prefers_six), None)
    second = next((each for each in ips if (":" in each) != prefers_six), None)
    return tuple(each for each in (first, second) if each is not None)


def disrupted(
    pod: core_v1.Pod, status: core_v1.PodStatus, reason: str, message: str, why: str, *, phase: str = "Failed"
) -> core_v1.PodStatus:
    """The status of a pod that its node ends. why: what the condition DisruptionTarget says."""
    condition = core_v1.PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason="TerminationByKubelet",
        message=why,
        observed_generation=pod.metadata.generation,
    )
    others = tuple(each for each in status.conditions if each.type != DISRUPTION_TARGET)
    changed: core_v1.PodStatus = msgspec.structs.replace(
        status, phase=phase, reason=reason, message=message, conditions=(*others, condition)
    )
    return changed


def terminated_pod_status(pod: core_v1.Pod, before: core_v1.PodStatus) -> core_v1.PodStatus:
    """The status of a pod of which nothing runs any more: containers that were not seen to end have ended with an unknown result."""
    text = "The container could not be located when the pod was terminated"
    ended = core_v1.ContainerState(
        terminated=core_v1.ContainerStateTerminated(exit_code=KILLED, reason=STATUS_UNKNOWN, message=text)
    )

    def closed(status: core_v1.ContainerStatus) -> core_v1.ContainerStatus:
        if status.state.terminated is not None:
            return status
        changed: core_v1.ContainerStatus = msgspec.structs.replace(status, state=ended, ready=False, started=False)
        return changed

    containers = before.container_statuses
    if _has_initialized(pod, before):
        containers = tuple(map(closed, containers))
    inits, seen = before.init_container_statuses, _initialized_count(before.init_container_statuses)
    phase = before.phase if before.phase in TERMINAL or is_static(pod) else "Failed"
    final: core_v1.PodStatus = msgspec.structs.replace(
        before,
        container_statuses=containers,
        init_container_statuses=(*map(closed, inits[:seen]), *inits[seen:]),
        phase=phase,
    )
    return final


def _has_initialized(pod: core_v1.Pod, status: core_v1.PodStatus) -> bool:
    if not pod.spec.init_containers:
        return True
    if any(each.last_state.terminated or each.state.waiting is None for each in status.container_statuses):
        return True
    if len(status.init_container_statuses) != len(pod.spec.init_containers):
        return False
    last = status.init_container_statuses[-1]
    if is_sidecar(pod.spec.init_containers[-1]):
        return last.state.running is not None and bool(last.started)
    ends = (last.last_state.terminated, last.state.terminated)
    return any(each is not None and each.exit_code == 0 for each in ends)


def _initialized_count(statuses: tuple[core_v1.ContainerStatus, ...]) -> int:
    """How many init containers have been started, at least one where there are any."""
    for index in range(len(statuses) - 1, -1, -1):
        if statuses[index].state.waiting is None or statuses[index].last_state.terminated is not None:
            return index + 1
    return min(len(statuses), 1)


def illegal_transition(pod: core_v1.Pod, before: core_v1.PodStatus, after: core_v1.PodStatus) -> str:
    """Which container has come back to life that must not; empty if none has."""
    if may_restart_all(pod.spec):
        return ""
    specs = {each.name: each for each in (*pod.spec.containers, *pod.spec.init_containers)}
    for what, old, new in (
        ("container", before.container_statuses, after.container_statuses),
        ("init container", before.init_container_statuses, after.init_container_statuses),
    ):
        now = {each.name: each for each in new}
        for status in old:
            ended, spec = status.state.terminated, specs.get(status.name)
            if ended is None or spec is None or (what == "init container" and is_sidecar(spec)):
                continue
            if runs_again(spec, pod.spec, ended.exit_code):
                continue
            changed = now.get(status.name)
            if changed is not None and changed.state.terminated is None:
                return f"terminated {what} {status.name} attempted illegal transition to non-terminated state"
    return ""


def is_healthy(health: Health | None, *, probed: bool) -> bool:
    """Whether a probe's last word lets a container count as started or ready: without a probe it does."""
    return health is Health.SUCCESS if health is not None else not probed
