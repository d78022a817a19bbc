"""Init containers of a simulated pod: one after the other, sidecars among them started in passing."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.containers import EXIT_CODE, INIT, duration, exit_code, said_code
from bayplan.kubelet.simulator.restarts import CRASH_LOOP, Moved, back_at, restart, run_again, started
from bayplan.kubelet.simulator.statuses import statuses_of, terminated, waiting
from bayplan.support.timestamps import parse_rfc3339, rfc3339


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pod's init containers are."""

    statuses: tuple[core_v1.ContainerStatus, ...]
    done: bool = False
    """Whether everything else may start."""
    failed: bool = False
    """Whether one has failed for good."""
    wait: float | None = None
    """Seconds until something happens; None if nothing does."""


def initialize(pod: core_v1.Pod, now: float) -> Progress:
    """What is due for the init containers of a pod."""
    known = {one.name: one for one in pod.status.init_container_statuses}
    containers, moved = pod.spec.init_containers, list[core_v1.ContainerStatus]()
    for index, container in enumerate(containers):
        status = known.get(container.name) or _waiting(container)
        if container.restart_policy == "Always":
            moved.append(status if status.state.running else started(container, now, ready=True))
            continue
        step = _initializing(pod, container, status, now)
        moved.append(step.status)
        ended = step.status.state.terminated
        if ended is None or ended.exit_code:
            rest = (known.get(one.name) or _waiting(one) for one in containers[index + 1 :])
            return Progress((*moved, *rest), failed=ended is not None, wait=step.wait)
    return Progress(tuple(moved), done=True)


def _waiting(container: core_v1.Container) -> core_v1.ContainerStatus:
    return statuses_of((container,), waiting("PodInitializing"), ready=False, started=False)[0]


def _initializing(pod: core_v1.Pod, container: core_v1.Container, status: core_v1.ContainerStatus, now: float) -> Moved:
    """One init container: started, ended, or started again after it failed."""
    state = status.state
    if state.terminated is not None:
        return Moved(status)
    seconds = duration(pod, INIT, container.name, status.restart_count) or 0.0
    if state.waiting is not None and state.waiting.reason == CRASH_LOOP:
        back = back_at(status)
        if back > now:
            return Moved(status, back - now)
        status = run_again(status, now)
    elif state.running is None:
        status = started(container, now, ready=False)
    running = status.state.running
    begun = parse_rfc3339(running.started_at) if running is not None and running.started_at else now
    left = begun + seconds - now
    if left > 0:
        return Moved(status, left)
    named = f"{EXIT_CODE}.{container.name}" in pod.metadata.annotations  # one for all is about the containers that run
    code = exit_code(pod, container, status.restart_count) if named else said_code(container)
    last = terminated(code, rfc3339(begun), now)
    if code and pod.spec.restart_policy != "Never":
        return restart(pod, msgspec.structs.replace(status, ready=False), last, now)
    return Moved(msgspec.structs.replace(status, state=last, ready=not code, started=False))
