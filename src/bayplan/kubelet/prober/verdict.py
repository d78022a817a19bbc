"""What one probe is to do next, and what its results mean: a worker's state without its task."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.core.pod_status import TERMINAL
from bayplan.kubelet.core.restarts import AnyContainer, may_restart_all, runs_again
from bayplan.kubelet.prober.results import ProbeType
from bayplan.support.timestamps import parse_rfc3339


class Turn(enum.Enum):
    """What a worker does now."""

    STOP = "stop"
    """Nothing will ever be probed again."""
    WAIT = "wait"
    """Nothing is to be probed now."""
    PROBE = "probe"


INITIAL = {
    ProbeType.STARTUP: Health.UNKNOWN,
    ProbeType.LIVENESS: Health.SUCCESS,
    ProbeType.READINESS: Health.FAILURE,
}
"""What holds for a container until its probe has said something."""
RESTART_TOLERANCE = 10.0
"""Seconds before the kubelet's start from which on a container that runs counts as new."""


@dataclass(slots=True)
class ProbeState:
    """One probe of one container over all of its restarts."""

    type: ProbeType
    spec: core_v1.Probe
    container: AnyContainer
    container_id: str = ""
    on_hold: bool = False
    """Whether nothing is probed until there is a new container."""
    last: Health | None = None
    run: int = 0
    """How often in a row the last result came."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, with results to note before that: `(container id, health)`, None to forget the container."""

    turn: Turn
    results: tuple[tuple[str, Health | None], ...] = ()


def next_step(state: ProbeState, pod: core_v1.Pod, status: core_v1.PodStatus, now: float, started_at: float) -> Step:
    """What a probe does at a tick. status: what the kubelet last said of the pod. started_at: when the kubelet started (Unix times)."""
    if status.phase in TERMINAL:
        return Step(Turn.STOP)
    found = next(
        (
            each
            for each in (*status.container_statuses, *status.init_container_statuses)
            if each.name == state.container.name and each.container_id
        ),
        None,
    )
    if found is None:
        return Step(Turn.WAIT)
    container_id = found.container_id.partition("://")[2]
    results: list[tuple[str, Health | None]] = []
    if container_id != state.container_id:
        results = _new_container(state, found, container_id, started_at)
    if state.on_hold:
        return Step(Turn.WAIT, tuple(results))
    if found.state.running is None:
        results.append((container_id, Health.FAILURE))
        return Step(_turn_of_ended(state, pod, found), tuple(results))
    if pod.metadata.deletion_timestamp is not None and state.type is not ProbeType.READINESS:
        results.append((container_id, Health.SUCCESS))  # quiet until the container has ended
        return Step(Turn.STOP, tuple(results))
    since = parse_rfc3339(found.state.running.started_at) if found.state.running.started_at else now
    early = int(now - since) < state.spec.initial_delay_seconds
    wrong_time = bool(found.started) == (state.type is ProbeType.STARTUP)
    return Step(Turn.WAIT if early or wrong_time else Turn.PROBE, tuple(results))


def _new_container(
    state: ProbeState, found: core_v1.ContainerStatus, container_id: str, started_at: float
) -> list[tuple[str, Health | None]]:
    results: list[tuple[str, Health | None]] = [(state.container_id, None)] if state.container_id else []
    state.container_id, state.on_hold = container_id, False
    running = found.state.running
    began = parse_rfc3339(running.started_at) if running is not None and running.started_at else None
    survived = began is not None and began < started_at - RESTART_TOLERANCE
    if not survived:
        results.append((container_id, INITIAL[state.type]))
    elif state.type is ProbeType.STARTUP and found.started:
        results.append((container_id, Health.SUCCESS))
    return results


def _turn_of_ended(state: ProbeState, pod: core_v1.Pod, found: core_v1.ContainerStatus) -> Turn:
    ended = found.state.terminated
    if ended is None or may_restart_all(pod.spec) or runs_again(state.container, pod.spec, ended.exit_code):
        return Turn.WAIT
    return Turn.STOP


def conclude(state: ProbeState, health: Health) -> Health | None:
    """What a probe's result changes, once it has come often enough; None while it has not."""
    state.run = state.run + 1 if state.last is health else 1
    state.last = health
    threshold = state.spec.failure_threshold if health is Health.FAILURE else state.spec.success_threshold
    if state.run < threshold:
        return None
    if state.type is ProbeType.STARTUP or (state.type is ProbeType.LIVENESS and health is Health.FAILURE):
        state.on_hold, state.run = True, 0
    return health
