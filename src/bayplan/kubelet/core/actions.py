"""What is to be done about a pod, given its spec and what its runtime has of it (computePodActions in pkg/kubelet/kuberuntime).

The result names a sandbox to make or a pod to stop, containers to start by their index in the spec, and containers to kill by id, each with the words
that users see in events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.core.init_actions import plan_init_containers
from bayplan.kubelet.core.plan import (
    Health,
    Kill,
    KillReason,
    PodActions,
    ProbeVerdicts,
    Reset,
    has_changed,
    resize_kill,
    unknown_kill,
)
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.resize import Allocation, Change, plan_container, plan_pod
from bayplan.kubelet.core.restarts import RESTART_ALL, is_to_be_started, matching_rule
from bayplan.kubelet.runtime.types import ContainerState, ContainerStatus, NamespaceMode, SandboxState


@dataclass(frozen=True, slots=True)
class SandboxVerdict:
    """Whether a pod needs another sandbox, which one it has, and the attempt that the next or present one is."""

    needed: bool
    attempt: int
    sandbox_id: str


def is_host_network(pod: core_v1.Pod) -> bool:
    """Whether a pod is in the node's network."""
    return bool(pod.spec.host_network)


def sandbox_verdict(pod: core_v1.Pod, state: PodState) -> SandboxVerdict:
    """Whether the pod needs a new sandbox."""
    if not state.sandboxes:
        return SandboxVerdict(True, 0, "")
    newest = state.sandboxes[0]
    attempt, sandbox_id = newest.sandbox.attempt, newest.sandbox.id
    ready = sum(each.sandbox.state is SandboxState.READY for each in state.sandboxes)
    if ready > 1 or newest.sandbox.state is not SandboxState.READY:
        return SandboxVerdict(True, attempt + 1, sandbox_id)
    wanted = NamespaceMode.NODE if is_host_network(pod) else NamespaceMode.POD
    if newest.network is not wanted:
        return SandboxVerdict(True, attempt + 1, "")
    if wanted is NamespaceMode.POD and not newest.ips:
        return SandboxVerdict(True, attempt + 1, sandbox_id)
    return SandboxVerdict(False, attempt, sandbox_id)


def compute_pod_actions(
    pod: core_v1.Pod,
    state: PodState,
    verdicts: ProbeVerdicts,
    *,
    actuated: Allocation,
    restart_all: bool = False,
) -> PodActions:
    """What is to be done about a pod that is to run. pod: with the resources that are allocated to it. actuated: those that its containers have got.
    restart_all: all of its containers are to start anew."""
    sandbox = sandbox_verdict(pod, state)
    actions = PodActions(
        kill_pod=sandbox.needed, create_sandbox=sandbox.needed, sandbox_id=sandbox.sandbox_id, attempt=sandbox.attempt
    )
    if restart_all:
        actions.resets = _resets(pod, state)
        return actions
    if sandbox.needed:
        _plan_new_sandbox(pod, state, actions)
        return actions
    actions.ephemeral_containers = [
        index for index, each in enumerate(pod.spec.ephemeral_containers) if state.latest(each.name) is None
    ]
    initialized = plan_init_containers(pod, state, verdicts, actions, actuated)
    if not actions.kill_pod and initialized:
        _plan_containers(pod, state, verdicts, actions, actuated)
        plan_pod(actions.resize, pod, actuated)
    return actions


def _plan_new_sandbox(pod: core_v1.Pod, state: PodState, actions: PodActions) -> None:
    """Begin from the first init container, unless all that was to run has run."""
    if pod.spec.restart_policy == "Never" and actions.attempt != 0 and state.containers:
        actions.create_sandbox = False
        return
    to_start = []
    for index, container in enumerate(pod.spec.containers):
        status = state.latest(container.name)
        succeeded = status is not None and status.container.state is ContainerState.EXITED and status.exit_code == 0
        if not (succeeded and (container.restart_policy or pod.spec.restart_policy) == "OnFailure"):
            to_start.append(index)
    if not to_start and any_container_created(pod, state):
        actions.create_sandbox = False
    elif pod.spec.init_containers:
        actions.init_containers = [0]
    else:
        actions.containers = to_start


def any_container_created(pod: core_v1.Pod, state: PodState) -> bool:
    """Whether any container besides init containers exists or has existed: the pod was initialized then."""
    found = (state.latest(each.name) for each in pod.spec.containers)
    return any(each is not None and each.container.state is not ContainerState.UNKNOWN for each in found)


def _plan_containers(
    pod: core_v1.Pod, state: PodState, verdicts: ProbeVerdicts, actions: PodActions, actuated: Allocation
) -> None:
    kept = 0
    for index, container in enumerate(pod.spec.containers):
        status = state.latest(container.name)
        if status is None or status.container.state is not ContainerState.RUNNING:
            if is_to_be_started(container, pod, state):
                actions.containers.append(index)
                if status is not None and status.container.state is ContainerState.UNKNOWN:
                    actions.kills[status.container.id] = unknown_kill("Container", status)
            continue
        kill = _kill_of_running(container, status, verdicts)
        if kill is None:
            container_id = status.container.id
            if plan_container(actions.resize, pod, container, container_id, actuated) is Change.RESTART:
                actions.kills[container_id] = resize_kill(container_id, container.name)
                actions.containers.append(index)
            else:
                kept += 1
            continue
        policy = container.restart_policy or pod.spec.restart_policy
        if has_changed(container, status) or policy != "Never":
            kill = Kill(kill.container_id, kill.name, f"{kill.message}, will be restarted", kill.reason)
            actions.containers.append(index)
        actions.kills[kill.container_id] = kill
    if not kept and not actions.containers:
        actions.kill_pod = True
        actions.init_containers = []  # sidecars must not keep the pod alive


def _kill_of_running(container: core_v1.Container, status: ContainerStatus, verdicts: ProbeVerdicts) -> Kill | None:
    """Why a container that runs must end; None where it may go on."""
    container_id, name = status.container.id, container.name
    if has_changed(container, status):
        return Kill(container_id, name, f"Container {name} definition changed")
    if verdicts.liveness.get(container_id) is Health.FAILURE:
        return Kill(container_id, name, f"Container {name} failed liveness probe", KillReason.LIVENESS)
    if verdicts.startup.get(container_id) is Health.FAILURE:
        return Kill(container_id, name, f"Container {name} failed startup probe", KillReason.STARTUP)
    return None


def _resets(pod: core_v1.Pod, state: PodState) -> list[Reset]:
    """All containers, those whose end caused it last: while they are there, the cause can be read from the runtime."""
    sources: list[Reset] = []
    targets: list[Reset] = []
    for containers in (pod.spec.containers, pod.spec.init_containers):
        causes, others = _resets_of(containers, state)
        sources += causes
        targets += others
    return targets + sources


def _resets_of(containers: Sequence[core_v1.Container], state: PodState) -> tuple[list[Reset], list[Reset]]:
    causes: list[Reset] = []
    others: list[Reset] = []
    for container in containers:
        for status in state.containers:
            if status.container.name != container.name:
                continue
            if status.container.state is not ContainerState.EXITED:
                others.append(Reset(status.container.id, container.name, kill=True))
                continue
            rule = matching_rule(container, status.exit_code)
            caused = rule is not None and rule.action == RESTART_ALL
            (causes if caused else others).append(Reset(status.container.id, container.name, kill=False))
    return causes, others
