"""Whether a container of a simulated pod can be started now, and if not, why: back-off, image, variables, command."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.core.back_off import restart_seconds
from bayplan.kubelet.core.containers.states import StartFailure, restart_count
from bayplan.kubelet.core.plan import has_changed
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime.types import ContainerState
from bayplan.kubelet.simulator.containers import is_missing_command
from bayplan.kubelet.simulator.events import NORMAL, WARNING, Told, about_pull
from bayplan.kubelet.simulator.nodes.images import BACK_OFF, NEVER_PULL, PULL, pull_failure
from bayplan.kubelet.simulator.references import Surroundings, config_error
from bayplan.kubelet.simulator.runtime_memory import SANDBOX_CONDITION, RuntimePod
from bayplan.support.durations import go_duration
from bayplan.support.timestamps import parse_rfc3339

CRASH_LOOP, CONFIG_ERROR, RUN_ERROR = "CrashLoopBackOff", "CreateContainerConfigError", "RunContainerError"
_RETRY_SECONDS = 10.0
"""How long a kubelet waits before it tries again what has failed (backOffPeriod)."""
_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a container is not started now."""

    failure: StartFailure
    wait: float | None
    told: tuple[Told, ...] = ()


def refusal_of(
    runtime: RuntimePod, container: AnyContainer, now: float, around: Surroundings, *, without_pause: bool
) -> Refused | None:
    """Why a container is not started now; None if it can be. without_pause: whether it was stopped in order to start again."""
    shown = _shown_reason(runtime.pod, container.name)
    if not without_pause and (refused := _crash_loop(runtime, container, now, shown)) is not None:
        return refused
    if (refused := _without_image(runtime, container, now, shown)) is not None:
        return refused
    allocatable = around.node.status.allocatable if around.node is not None else {}
    if text := config_error(runtime.pod, container, around.found, allocatable):
        event = Told(WARNING, "Failed", f"Error: {text}", container.name)
        return Refused(StartFailure(CONFIG_ERROR, text), _RETRY_SECONDS, (event,))
    return None


def command_error(container: AnyContainer) -> str:
    """Why a container that was made cannot be run: what containerd and runc say; empty if it can."""
    if not is_missing_command(container):
        return ""
    command = container.command[0]
    if "/" in command:
        why = f'exec: "{command}": stat {command}: no such file or directory'
    else:
        why = f'exec: "{command}": executable file not found in $PATH'
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
        f"unable to start container process: error during container init: {why}: unknown"
    )


def _crash_loop(runtime: RuntimePod, container: AnyContainer, now: float, shown: str) -> Refused | None:
    """A container that ended again soon waits, longer each time; one with another image does not."""
    ended = runtime.newest.get(container.name)
    if ended is None or ended.container.state is not ContainerState.EXITED or has_changed(container, ended):
        return None
    finished = ended.finished_at / _NANOSECONDS
    pause = restart_seconds(restart_count(ended), finished - ended.started_at / _NANOSECONDS)
    left = finished + pause - now
    if left <= 0:
        return None
    name, metadata = container.name, runtime.pod.metadata
    pod_name = f"{metadata.name}_{metadata.namespace}({metadata.uid})"
    text = f"back-off {go_duration(pause)} restarting failed container={name} pod={pod_name}"
    event = Told(WARNING, "BackOff", f"Back-off restarting failed container {name} in pod {pod_name}", name)
    return Refused(StartFailure(CRASH_LOOP, text), left, () if shown == CRASH_LOOP else (event,))


def _without_image(runtime: RuntimePod, container: AnyContainer, now: float, shown: str) -> Refused | None:
    found = pull_failure(container, now - _needed_since(runtime, container.name, now))
    if found is None:
        return None
    name, image = container.name, container.image
    told: list[Told] = []
    if found.reason != shown:
        if found.error and shown != PULL:
            told += about_pull(image, found.error, name)
        if found.reason == BACK_OFF:
            told.append(Told(NORMAL, "BackOff", f'Back-off pulling image "{image}"', name))
        elif found.reason != PULL:
            told.append(
                Told(WARNING, NEVER_PULL if found.reason == NEVER_PULL else "InspectFailed", found.message, name)
            )
        told.append(Told(WARNING, "Failed", f"Error: {found.reason}", name))
    return Refused(StartFailure(found.reason, found.message), found.wait, tuple(told))


def _needed_since(runtime: RuntimePod, name: str, now: float) -> float:
    """Unix time at which the image of a container was first needed: when the container before it ended, or when the pod had its sandbox."""
    ended = runtime.newest.get(name)
    if ended is not None:
        return ended.finished_at / _NANOSECONDS
    for one in runtime.pod.status.conditions:
        if one.type == SANDBOX_CONDITION and one.status == "True" and one.last_transition_time:
            return parse_rfc3339(one.last_transition_time)
    return now


def _shown_reason(pod: core_v1.Pod, name: str) -> str:
    """Why the status says that a container waits."""
    status = pod.status
    for one in (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses):
        if one.name == name and one.state.waiting is not None:
            return one.state.waiting.reason
    return ""
