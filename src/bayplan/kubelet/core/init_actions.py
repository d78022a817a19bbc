"""Which init containers and sidecars are to be started or killed."""

from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.kubelet.core.plan import (
    Health,
    Kill,
    KillReason,
    PodActions,
    ProbeVerdicts,
    has_changed,
    resize_kill,
    unknown_kill,
)
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.resize import Allocation, Change, plan_container
from bayplan.kubelet.core.restarts import is_sidecar, is_to_be_started
from bayplan.kubelet.runtime.types import ContainerState, ContainerStatus


def has_failed(status: ContainerStatus) -> bool:
    """Whether an init container did not do its work."""
    if status.reason == "OOMKilled" or status.container.state is ContainerState.UNKNOWN:
        return True
    return status.container.state is ContainerState.EXITED and status.exit_code != 0


def plan_init_containers(
    pod: core_v1.Pod, state: PodState, verdicts: ProbeVerdicts, actions: PodActions, actuated: Allocation
) -> bool:
    """Add to `actions` what init containers need; whether all are done, so that the other containers may run.

    They are looked at from the last one on, because those that are done may have been removed from the runtime: the last one that exists says how
    far the pod is.
    """
    if not pod.spec.init_containers:
        return True
    plan = _Plan(pod, state, verdicts, actions, actuated)
    for index in range(len(pod.spec.init_containers) - 1, -1, -1):
        plan.look_at(index)
        if actions.kill_pod:
            actions.init_containers = []
            return False
    if not plan.seen:
        actions.init_containers.append(0)
    actions.init_containers.reverse()
    return plan.initialized


class _Plan:
    """One pass over the init containers, from the last to the first."""

    def __init__(
        self, pod: core_v1.Pod, state: PodState, verdicts: ProbeVerdicts, actions: PodActions, actuated: Allocation
    ) -> None:
        self.pod = pod
        self.state = state
        self.verdicts = verdicts
        self.actions = actions
        self.actuated = actuated
        alive = (ContainerState.CREATED, ContainerState.RUNNING)
        found = (state.latest(each.name) for each in pod.spec.containers)
        self.initialized = any(each is not None and each.container.state in alive for each in found)
        """Whether all init containers are done; true from the start if a container of the pod exists."""
        self.seen = self.initialized
        """Whether a later init container has run, so that this one must have been done before."""
        self.last = len(pod.spec.init_containers) - 1

    def look_at(self, index: int) -> None:
        container = self.pod.spec.init_containers[index]
        status = self.state.latest(container.name)
        if status is None:
            if self.seen and is_sidecar(container):
                self.actions.init_containers.append(index)
            return
        if self.seen and not is_sidecar(container):
            return
        match status.container.state:
            case ContainerState.CREATED:
                self.actions.init_containers.append(index)  # the runtime failed to start it
            case ContainerState.RUNNING if is_sidecar(container):
                self._running_sidecar(index, container, status)
            case ContainerState.RUNNING:
                container_id = status.container.id
                if (
                    plan_container(self.actions.resize, self.pod, container, container_id, self.actuated)
                    is Change.RESTART
                ):
                    self._restart(index, resize_kill(container_id, container.name))
            case ContainerState.EXITED:
                self._exited(index, container, status)
            case _:
                self._unknown(index, container, status)
        self.seen = True

    def _advance(self, index: int) -> None:
        """This one is done: the next one is due, or the pod is initialized."""
        if index == self.last:
            self.initialized = True
        elif not self.seen:
            self.actions.init_containers.append(index + 1)

    def _running_sidecar(self, index: int, container: core_v1.Container, status: ContainerStatus) -> None:
        container_id, name = status.container.id, container.name
        if container.startup_probe is not None:
            startup = self.verdicts.startup.get(container_id)
            if startup is Health.FAILURE:
                message = f"Init container {name} failed startup probe"
                self._restart(index, Kill(container_id, name, message, KillReason.STARTUP))
            if startup is not Health.SUCCESS:
                return
        self._advance(index)
        if has_changed(container, status):
            self._restart(index, Kill(container_id, name, f"Init container {name} definition changed"))
        elif container.liveness_probe is not None and self.verdicts.liveness.get(container_id) is Health.FAILURE:
            message = f"Init container {name} failed liveness probe"
            self._restart(index, Kill(container_id, name, message, KillReason.LIVENESS))
        elif plan_container(self.actions.resize, self.pod, container, container_id, self.actuated) is Change.RESTART:
            self._restart(index, resize_kill(container_id, name))

    def _restart(self, index: int, kill: Kill) -> None:
        self.actions.kills[kill.container_id] = kill
        self.actions.init_containers.append(index)

    def _exited(self, index: int, container: core_v1.Container, status: ContainerStatus) -> None:
        if is_sidecar(container):
            self.actions.init_containers.append(index)
        elif not has_failed(status):
            self._advance(index)
        elif is_to_be_started(container, self.pod, self.state):
            self.actions.init_containers.append(index)
        else:
            self.actions.kill_pod = True

    def _unknown(self, index: int, container: core_v1.Container, status: ContainerStatus) -> None:
        if (container.restart_policy or self.pod.spec.restart_policy) == "Never":
            self.actions.kill_pod = True
            return
        self._restart(index, unknown_kill("Init container", status))
