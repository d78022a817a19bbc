"""The statuses of a pod's containers as the API shows them, from what the runtime says (convertToAPIContainerStatuses in pkg/kubelet/kubelet_pods.go).

What the runtime has forgotten is taken from the status before: a container that ran and cannot be found any more has ended, with an unknown result.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.actions import any_container_created
from bayplan.kubelet.core.phase import RESTARTING_ALL
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.resource_status import reported_resources
from bayplan.kubelet.core.restarts import AnyContainer, is_sidecar, is_to_be_started
from bayplan.kubelet.runtime.labels import RESTART_COUNT
from bayplan.kubelet.runtime.types import ContainerState, ContainerStatus
from bayplan.support.timestamps import rfc3339

STATUS_UNKNOWN = "ContainerStatusUnknown"
FORGOTTEN = "Unknown"
"""The reason that containerd gives for an end that it has missed, with code 255."""
KILLED = 137
"""Exit code of what was killed, and of what nobody knows."""


class Section(enum.Enum):
    """Which list of containers."""

    INIT = "init"
    MAIN = "main"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why a container could not be started the last time, in the words of the API's status."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What statuses of containers depend on, besides pod and runtime."""

    runtime: str = "containerd"
    """Name of the runtime, with which ids of containers begin."""
    failures: Mapping[str, StartFailure] = field(default_factory=dict)
    """Why containers could not be started, by name."""
    allocated_resources: Mapping[str, tuple[core_v1.ResourceStatus, ...]] = field(default_factory=dict)
    """How the devices are that containers were given, by name."""
    restarting_all: bool = False
    recursive_read_only: bool = False
    """Whether the runtime can make mounts read-only with all that is mounted below."""


def container_statuses(
    pod: core_v1.Pod, state: PodState, before: core_v1.PodStatus, section: Section, facts: StatusFacts
) -> tuple[core_v1.ContainerStatus, ...]:
    """The statuses of one list of containers: those of init containers in the order of the spec, others by name."""
    containers = _containers(pod.spec, section)
    old = {each.name: each for each in _statuses(before, section)}
    shown = {}
    for container in containers:
        status = _of_container(pod, state, container, old.get(container.name), facts)
        status = _completed(pod, state, container, status) if section is Section.INIT else status
        if section is Section.MAIN:
            status.allocated_resources_status = facts.allocated_resources.get(container.name, ())
        shown[container.name] = _with_failure(pod, state, container, status, section, facts)
    names = [each.name for each in containers]
    return tuple(shown[name] for name in (names if section is Section.INIT else sorted(names)))


def _containers(spec: core_v1.PodSpec, section: Section) -> Sequence[AnyContainer]:
    by_section: dict[Section, Sequence[AnyContainer]] = {
        Section.INIT: spec.init_containers,
        Section.MAIN: spec.containers,
        Section.EPHEMERAL: spec.ephemeral_containers,
    }
    return by_section[section]


def _statuses(status: core_v1.PodStatus, section: Section) -> Sequence[core_v1.ContainerStatus]:
    return {
        Section.INIT: status.init_container_statuses,
        Section.MAIN: status.container_statuses,
        Section.EPHEMERAL: status.ephemeral_container_statuses,
    }[section]


def _of_container(
    pod: core_v1.Pod,
    state: PodState,
    container: AnyContainer,
    old: core_v1.ContainerStatus | None,
    facts: StatusFacts,
) -> core_v1.ContainerStatus:
    found = [each for each in state.containers if each.container.name == container.name][:2]
    if not found:
        return _lost(pod, container, old, facts)
    status = _converted(container, found[0], old, facts)
    if len(found) > 1:
        status.last_state = _converted(container, found[1], old, facts).state
    return status


def _lost(
    pod: core_v1.Pod, container: AnyContainer, old: core_v1.ContainerStatus | None, facts: StatusFacts
) -> core_v1.ContainerStatus:
    """A container that the runtime does not have: not made yet, or removed."""
    default = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    waiting = core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason=default))
    status = core_v1.ContainerStatus(
        name=container.name,
        image=container.image,
        state=waiting,
        started=None,
        volume_mounts=old.volume_mounts if old is not None else mount_statuses(container, facts.recursive_read_only),
    )
    if old is None:
        return status
    if facts.restarting_all and old.state.waiting is None:
        text = "The container is removed because RestartAllContainers in place"
        status.state = core_v1.ContainerState(
            waiting=core_v1.ContainerStateWaiting(reason=RESTARTING_ALL, message=text)
        )
        status.last_state = _killed(RESTARTING_ALL, text)
        status.restart_count = old.restart_count + 1
        return status
    if old.state.terminated is not None:
        kept: core_v1.ContainerStatus = msgspec.structs.replace(old)
        return kept
    status.restart_count = old.restart_count
    status.last_state = old.last_state
    if old.state.running is not None and old.last_state.terminated is None:
        text = "The container could not be located when the pod was deleted.  The container used to be Running"
        status.last_state = _killed(STATUS_UNKNOWN, text)
        status.restart_count += pod.metadata.deletion_timestamp is None
    return status


def _killed(reason: str, message: str) -> core_v1.ContainerState:
    """The state of a container of which only is known that it does not run any more."""
    return core_v1.ContainerState(
        terminated=core_v1.ContainerStateTerminated(exit_code=KILLED, reason=reason, message=message)
    )


def mount_statuses(container: AnyContainer, recursive_read_only: bool) -> tuple[core_v1.VolumeMountStatus, ...]:
    """How volumes are mounted. recursive_read_only: whether the runtime can."""
    result = []
    for mount in container.volume_mounts:
        mode = None
        if mount.read_only:
            wanted = mount.recursive_read_only or "Disabled"
            enabled = wanted == "Enabled" or (wanted == "IfPossible" and recursive_read_only)
            mode = "Enabled" if enabled else "Disabled"
        result.append(
            core_v1.VolumeMountStatus(
                name=mount.name, mount_path=mount.mount_path, read_only=mount.read_only, recursive_read_only=mode
            )
        )
    return tuple(result)


def _seconds(nanoseconds: int) -> str | None:
    return rfc3339(nanoseconds // 10**9) if nanoseconds else None


def restart_count(status: ContainerStatus) -> int:
    """How often a container was started again, as its annotation says."""
    text = status.container.annotations.get(RESTART_COUNT, "")
    return int(text) if text.isdecimal() else status.container.attempt


def _converted(
    container: AnyContainer, found: ContainerStatus, old: core_v1.ContainerStatus | None, facts: StatusFacts
) -> core_v1.ContainerStatus:
    """What the runtime says of one container, in the API's terms."""
    container_id = f"{facts.runtime}://{found.container.id}"
    status = core_v1.ContainerStatus(
        name=container.name,
        restart_count=restart_count(found),
        image=found.image or container.image,
        image_id=found.image_ref,
        container_id=container_id,
        volume_mounts=mount_statuses(container, facts.recursive_read_only),
        resources=reported_resources(container, found, old),
        allocated_resources=container.resources.requests,
        stop_signal=found.stop_signal or None,
    )
    if found.user is not None:
        status.user = core_v1.ContainerUser(
            linux=core_v1.LinuxContainerUser(
                uid=found.user.uid, gid=found.user.gid, supplemental_groups=found.user.supplemental_groups
            )
        )
    if old is not None:
        status.volume_mounts = old.volume_mounts or status.volume_mounts
        status.restart_count = max(status.restart_count, old.restart_count)
        if old.container_id != container_id and old.state.terminated is not None:
            status.last_state = core_v1.ContainerState(terminated=old.state.terminated)
        elif old.last_state.terminated is not None:
            status.last_state = core_v1.ContainerState(terminated=old.last_state.terminated)
    _set_state(status, found, old, facts)
    return status


def _set_state(
    status: core_v1.ContainerStatus, found: ContainerStatus, old: core_v1.ContainerStatus | None, facts: StatusFacts
) -> None:
    match found.container.state:
        case ContainerState.RUNNING:
            running = core_v1.ContainerStateRunning(started_at=_seconds(found.started_at))
            status.state = core_v1.ContainerState(running=running)
            if old is not None and old.state.terminated is not None and old.restart_count >= restart_count(found):
                status.restart_count = old.restart_count + 1
        case ContainerState.EXITED:
            ended = core_v1.ContainerStateTerminated(
                exit_code=found.exit_code,
                reason=found.reason,
                message=found.message,
                started_at=_seconds(found.started_at),
                finished_at=_seconds(found.finished_at),
                container_id=status.container_id,
            )
            status.state = core_v1.ContainerState(terminated=_first_told(ended, old))
        case ContainerState.UNKNOWN if old is not None and old.state.running is not None:
            reason = RESTARTING_ALL if facts.restarting_all else STATUS_UNKNOWN
            status.state = _killed(reason, "The container could not be located when the pod was terminated")
            status.restart_count = old.restart_count + 1
        case _:
            status.state = core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting())


def _first_told(
    ended: core_v1.ContainerStateTerminated, old: core_v1.ContainerStatus | None
) -> core_v1.ContainerStateTerminated:
    """How a container has ended: as it was told before, where a runtime that was killed does not know any more."""
    told = old.state.terminated if old is not None else None
    return told if told is not None and ended.reason == FORGOTTEN and told.container_id == ended.container_id else ended


def _completed(
    pod: core_v1.Pod, state: PodState, container: AnyContainer, status: core_v1.ContainerStatus
) -> core_v1.ContainerStatus:
    """An init container that nobody remembers has done its work if the pod's containers were made."""
    gone = state.latest(container.name) is None and status.state.waiting is not None
    if gone and not is_sidecar(container) and any_container_created(pod, state):
        text = (
            "Unable to get init container status from container runtime and pod has been initialized, "
            "treat it as exited normally"
        )
        ended = core_v1.ContainerStateTerminated(exit_code=0, reason="Completed", message=text)
        status.state = core_v1.ContainerState(terminated=ended)
    return status


def _with_failure(
    pod: core_v1.Pod,
    state: PodState,
    container: AnyContainer,
    status: core_v1.ContainerStatus,
    section: Section,
    facts: StatusFacts,
) -> core_v1.ContainerStatus:
    """A container that could not be started waits, with the reason of the last failure."""
    failure = facts.failures.get(container.name)
    if failure is None or not is_to_be_started(container, pod, state):
        return status
    found = state.latest(container.name)
    if section is Section.INIT and found is not None:
        if found.container.state is ContainerState.EXITED and found.exit_code == 0:
            return status
    elif section is Section.INIT and status.state.terminated is not None and not is_sidecar(container):
        return status
    if status.state.terminated is not None:
        status.last_state = status.state
    status.state = core_v1.ContainerState(
        waiting=core_v1.ContainerStateWaiting(reason=failure.reason, message=failure.message)
    )
    return status
