"""Containers that are started, end, and are started again: back-off as the kubelet has it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.statuses import statuses_of, waiting
from bayplan.support.durations import go_duration
from bayplan.support.timestamps import parse_rfc3339, rfc3339

CRASH_LOOP = "CrashLoopBackOff"
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 10.0, 300.0
"""Seconds before containers that ended for the second time start again, and the most that it gets by doubling."""
_STEADY = 600.0
"""Seconds of running after which there is no back-off."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A container after what was due, and seconds until its next event."""

    status: core_v1.ContainerStatus
    wait: float | None = None


def started(container: core_v1.Container, now: float, *, ready: bool) -> core_v1.ContainerStatus:
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
    return statuses_of((container,), running, ready=ready, started=True)[0]


def run_again(status: core_v1.ContainerStatus, now: float) -> core_v1.ContainerStatus:
    """The container runs once more."""
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
    again: core_v1.ContainerStatus = msgspec.structs.replace(
        status, state=running, restart_count=status.restart_count + 1, started=True
    )
    return again


def back_off(restarts: int, ran: float) -> float:
    """Seconds before containers that have been started again so often, and ran for so long (seconds), start once more: 0, 10, 20, 40, ... 300."""
    if not restarts or ran >= _STEADY:
        return 0.0
    return min(_FIRST_BACK_OFF * 2.0 ** min(restarts - 1, 10), _LONGEST_BACK_OFF)


def back_at(status: core_v1.ContainerStatus) -> float:
    """Unix time when a container that waits in back-off starts again."""
    ended = status.last_state.terminated
    if ended is None:
        return 0.0
    finished = parse_rfc3339(ended.finished_at) if ended.finished_at else 0.0
    ran = finished - parse_rfc3339(ended.started_at) if ended.started_at else 0.0
    return finished + back_off(status.restart_count, ran)


def running_since(status: core_v1.ContainerStatus, pod: core_v1.Pod) -> float:
    """Unix time when a container began to run."""
    running = status.state.running
    text = running.started_at if running is not None else None
    return parse_rfc3339(text or pod.status.start_time or "1970-01-01T00:00:00Z")


def restart(pod: core_v1.Pod, status: core_v1.ContainerStatus, last: core_v1.ContainerState, now: float) -> Moved:
    """A container that must run ended: the first time it runs again at once, later after a back-off."""
    ended = last.terminated
    started = parse_rfc3339(ended.started_at) if ended is not None and ended.started_at else now
    pause = back_off(status.restart_count, now - started)
    status = msgspec.structs.replace(status, last_state=last)
    if not pause:
        return Moved(run_again(status, now))
    name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    text = f"back-off {go_duration(pause)} restarting failed container={status.name} pod={name}"
    return Moved(msgspec.structs.replace(status, state=waiting(CRASH_LOOP, text), ready=False, started=False), pause)
