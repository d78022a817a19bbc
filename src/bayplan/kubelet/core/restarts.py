"""Which containers run again after they have ended.

A container's own restart policy and its rules come before the pod's policy (`spec.containers[*].restartPolicyRules`).
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.runtime.types import ContainerState

AnyContainer = core_v1.Container | core_v1.EphemeralContainer

RESTART = "Restart"
RESTART_ALL = "RestartAllContainers"
ALL_CONTAINERS_RESTARTING = "AllContainersRestarting"
"""Condition of a pod whose containers are all to start anew."""


def is_sidecar(container: AnyContainer) -> bool:
    """Whether an init container keeps running beside those that follow."""
    return container.restart_policy == "Always"


def matching_rule(container: AnyContainer, exit_code: int) -> core_v1.ContainerRestartRule | None:
    """The first restart rule that is about this exit code."""
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is None or codes.operator not in ("In", "NotIn"):
            continue
        if (exit_code in codes.values) == (codes.operator == "In"):
            return rule
    return None


def runs_again(container: AnyContainer, spec: core_v1.PodSpec, exit_code: int) -> bool:
    """Whether a container that ended with this code is to run again."""
    if container.restart_policy is not None:
        rule = matching_rule(container, exit_code)
        if rule is not None and rule.action in (RESTART, RESTART_ALL):
            return True
    policy = container.restart_policy or spec.restart_policy
    if policy == "Never":
        return False
    return policy != "OnFailure" or exit_code != 0


def may_run_again(container: AnyContainer, spec: core_v1.PodSpec) -> bool:
    """Whether there is any way for a container to end after which it runs again."""
    if container.restart_policy is None:
        return spec.restart_policy != "Never"
    return container.restart_policy != "Never" or any(rule.action == RESTART for rule in container.restart_policy_rules)


def is_to_be_started(container: AnyContainer, pod: core_v1.Pod, state: PodState) -> bool:
    """Whether a container that does not run is to be started: it never ran, or runs again."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    status = state.latest(container.name)
    if status is None:
        return True
    if status.container.state is ContainerState.RUNNING:
        return False
    if status.container.state is not ContainerState.EXITED:
        return True
    return runs_again(container, pod.spec, status.exit_code)


def containers_of(spec: core_v1.PodSpec) -> Iterator[core_v1.Container]:
    """Init containers, then containers."""
    yield from spec.init_containers
    yield from spec.containers


def may_restart_all(spec: core_v1.PodSpec) -> bool:
    """Whether some container's end may start all of the pod's containers anew."""
    return any(rule.action == RESTART_ALL for each in containers_of(spec) for rule in each.restart_policy_rules)


def restarts_all(pod: core_v1.Pod, state: PodState, status: core_v1.PodStatus) -> bool:
    """Whether all containers are to start anew because one has ended so. status: what the pod's status was before."""
    if any(each.type == ALL_CONTAINERS_RESTARTING and each.status == "True" for each in status.conditions):
        return True
    if not may_restart_all(pod.spec):
        return False
    shown = {each.name: each for each in (*status.init_container_statuses, *status.container_statuses)}
    for container in containers_of(pod.spec):
        latest = state.latest(container.name)
        if latest is None or latest.container.state is not ContainerState.EXITED:
            continue
        codes = [latest.exit_code]
        before = shown.get(container.name)
        if before is not None and before.state.terminated is not None:
            codes.append(before.state.terminated.exit_code)
        for code in codes:
            rule = matching_rule(container, code)
            if rule is not None and rule.action == RESTART_ALL:
                return True
    return False
