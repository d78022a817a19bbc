"""What of a log is asked for, and which run of a container it is about, as the pod's status tells. Pure.

Source of the behaviour: Kubernetes' `pkg/kubelet/kubelet_pods.go` (`validateContainerLogStatus`).
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.api.types import core_v1


class NoLogError(Exception):
    """There is no log. The message is as a kubelet words it; clients are told with 400."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What of a log is wanted (PodLogOptions). None where nothing is asked for."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: float | None = None
    """Unix time."""
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: str = "All"
    """All, Stdout or Stderr."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run of a container."""

    status: core_v1.ContainerStatus
    container_id: str
    """As the status has it, with the name of the runtime."""
    running: core_v1.ContainerStateRunning | None = None
    ended: core_v1.ContainerStateTerminated | None = None
    """One of the two is set."""


def logged_run(pod_name: str, status: core_v1.PodStatus, name: str, *, previous: bool) -> LoggedRun:
    """The run of a container whose log is meant. previous: the one before the newest. Raises NoLogError."""
    statuses = (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses)
    found = next((each for each in statuses if each.name == name), None)
    where = f'container "{name}" in pod "{pod_name}"'
    if found is None:
        raise NoLogError(f"{where} is not available")
    last, ended = found.last_state.terminated, found.state.terminated
    if previous:
        if last is None or not last.container_id:
            raise NoLogError(f"previous terminated {where} not found")
        return LoggedRun(found, last.container_id, ended=last)
    if found.state.running is not None:
        return LoggedRun(found, found.container_id, running=found.state.running)
    for each in (ended, last):
        if each is not None and each.container_id:
            return LoggedRun(found, each.container_id, ended=each)
    if ended is not None or last is not None:
        raise NoLogError(f"{where} is terminated")
    waiting = found.state.waiting
    if waiting is None:
        raise NoLogError(f"{where} is waiting to start - no logs yet")
    texts = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }
    raise NoLogError(f"{where} is waiting to start: {texts.get(waiting.reason, waiting.reason)}")
