"""The life of a simulated pod, as a pure function: from the pod as it is and the time to what its kubelet would write next.

    bound  -> ContainerCreating -> (init containers, one after the other) -> Running and ready -> Succeeded or Failed
                                   container ended and must run: again at once, later after CrashLoopBackOff
    deletionTimestamp -> stopped -> gone

What happens to each container, and when, is in `containers`. An image whose name or tag says that it does not exist (`nonexistent`, `non-existent`, `invalid`,
`404`) is never pulled. Everything is worked out from the status, so that a restart of the simulator changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.containers import (
    EXIT_CODE,
    INIT,
    Ending,
    duration,
    ending,
    exit_code,
    is_plain,
    may_be_ready,
    ready_after,
)
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.statuses import (
    CONDITIONS,
    conditions_of,
    statuses_of,
    terminated,
    waiting,
    with_status,
)
from bayplan.support.timestamps import parse_rfc3339, rfc3339

_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 10.0, 300.0
"""Seconds before containers that ended for the second time start again, and the most that it gets by doubling."""
_STEADY = 600.0
"""Seconds of running after which there is no back-off."""
_MISSING_IMAGE = re.compile(r"non-?existent|invalid|:404$")
_BACK_OFF = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True)
class Step:
    """What happens next to a pod."""

    status: core_v1.PodStatus | None = None
    """Status to write now; None to leave it."""
    delete: bool = False
    """The containers have stopped: the pod goes away for good."""
    wait: float | None = None
    """Seconds until the next step; None if nothing happens until the pod changes."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A container after what was due, and seconds until its next event."""

    status: core_v1.ContainerStatus
    wait: float | None = None


def missing_images(pod: core_v1.Pod) -> list[str]:
    """Names of containers whose image cannot be pulled."""
    return [one.name for one in (*pod.spec.init_containers, *pod.spec.containers) if _MISSING_IMAGE.search(one.image)]


def next_step(
    pod: core_v1.Pod, now: float, settings: SimulatorSettings, host_ip: str, pod_ip: str, start_seconds: float
) -> Step:
    """The next step of a bound pod. `pod_ip` is the address to give it, `start_seconds` how long it takes to start."""
    if pod.metadata.deletion_timestamp:
        return _stop(pod, now, settings)
    if pod.status.phase in ("Succeeded", "Failed"):
        return Step()
    if not pod.status.start_time:
        delay = start_seconds if not missing_images(pod) else None
        return Step(_creating(pod, now, host_ip), wait=delay)
    if pod.status.phase == "Pending":
        if missing_images(pod):
            return Step(_pull_failed(pod, now))
        return _initialize(pod, now, settings, pod_ip)
    if is_plain(pod) and _is_settled(pod):
        return Step()
    return _live(pod, now, settings)


def _creating(pod: core_v1.Pod, now: float, host_ip: str) -> core_v1.PodStatus:
    state = waiting("PodInitializing" if pod.spec.init_containers else "ContainerCreating")
    return with_status(
        pod,
        phase="Pending",
        start_time=rfc3339(now),
        host_ip=host_ip,
        host_ips=(core_v1.HostIP(ip=host_ip),) if host_ip else (),
        conditions=conditions_of(
            pod, now, False, initialized=not pod.spec.init_containers, reason="ContainersNotReady", started=False
        ),
        init_container_statuses=statuses_of(
            pod.spec.init_containers, waiting("PodInitializing"), ready=False, started=False
        ),
        container_statuses=statuses_of(pod.spec.containers, state, ready=False, started=False),
    )


def _pull_failed(pod: core_v1.Pod, now: float) -> core_v1.PodStatus | None:
    """Containers with images that are not there wait for ever."""
    missing = set(missing_images(pod))
    statuses = tuple(
        msgspec.structs.replace(
            one,
            state=waiting("ImagePullBackOff", f'Back-off pulling image "{one.image}"')
            if one.name in missing
            else one.state,
        )
        for one in pod.status.container_statuses
    )
    if statuses == pod.status.container_statuses:
        return None
    return with_status(pod, container_statuses=statuses)


# Init containers


def _initialize(pod: core_v1.Pod, now: float, settings: SimulatorSettings, pod_ip: str) -> Step:
    """Init containers run one after the other; sidecars among them are started in passing. Then everything else starts."""
    statuses = {one.name: one for one in pod.status.init_container_statuses}
    moved: list[core_v1.ContainerStatus] = []
    wait: float | None = None
    for index, container in enumerate(pod.spec.init_containers):
        status = (
            statuses.get(container.name)
            or statuses_of((container,), waiting("PodInitializing"), ready=False, started=False)[0]
        )
        if container.restart_policy == "Always":
            moved.append(status if status.state.running else _started(container, now, ready=True))
            continue
        step = _initializing(pod, container, status, now)
        moved.append(step.status)
        ended = step.status.state.terminated
        if ended is None or ended.exit_code:
            rest = pod.spec.init_containers[index + 1 :]
            moved += [
                statuses.get(one.name) or statuses_of((one,), waiting("PodInitializing"), ready=False, started=False)[0]
                for one in rest
            ]
            wait = step.wait
            break
    else:
        return _run(pod, now, settings, pod_ip, tuple(moved))
    failed = ended is not None
    status_ = with_status(
        pod,
        phase="Failed" if failed else "Pending",
        init_container_statuses=tuple(moved),
        conditions=conditions_of(
            pod,
            now,
            False,
            initialized=False,
            reason="PodFailed" if failed else "ContainersNotReady",
            started=not failed,
        ),
    )
    return Step(status_ if status_ != pod.status else None, wait=wait)


def _initializing(
    pod: core_v1.Pod, container: core_v1.Container, status: core_v1.ContainerStatus, now: float
) -> _Moved:
    """One init container: started, ended, or started again after it failed."""
    state = status.state
    if state.terminated is not None:
        return _Moved(status)
    seconds = duration(pod, INIT, container.name, status.restart_count) or 0.0
    if state.waiting is not None and state.waiting.reason == _BACK_OFF:
        back = _back_at(status)
        if back > now:
            return _Moved(status, back - now)
        status = _again(status, now)
    elif state.running is None:
        status = _started(container, now, ready=False)
    running = status.state.running
    begun = parse_rfc3339(running.started_at) if running is not None and running.started_at else now
    left = begun + seconds - now
    if left > 0:
        return _Moved(status, left)
    named = f"{EXIT_CODE}.{container.name}" in pod.metadata.annotations  # one for all is about the containers that run
    code = exit_code(pod, container.name, status.restart_count) if named else 0
    last = terminated(code, rfc3339(begun), now)
    if code and pod.spec.restart_policy != "Never":
        return _ended(pod, msgspec.structs.replace(status, ready=False), last, now)
    return _Moved(msgspec.structs.replace(status, state=last, ready=not code, started=False))


def _run(
    pod: core_v1.Pod,
    now: float,
    settings: SimulatorSettings,
    pod_ip: str,
    initialized: tuple[core_v1.ContainerStatus, ...],
) -> Step:
    """All init containers are done: the others start."""
    address = pod.status.host_ip if pod.spec.host_network else pod_ip
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
    begun = with_status(
        pod,
        phase="Running",
        pod_ip=address,
        pod_ips=(core_v1.PodIP(ip=address),) if address else (),
        init_container_statuses=initialized,
        container_statuses=statuses_of(pod.spec.containers, running, ready=True, started=True),
    )
    if is_plain(pod):
        return Step(msgspec.structs.replace(begun, conditions=conditions_of(pod, now, True)))
    step = _live(msgspec.structs.replace(pod, status=begun), now, settings, fresh=True)
    return Step(step.status or begun, wait=step.wait)


# Running


def _live(pod: core_v1.Pod, now: float, settings: SimulatorSettings, *, fresh: bool = False) -> Step:
    """What is due for each container of a running pod, and what the status lacks: images changed in place, ephemeral containers, readiness.

    `fresh`: the containers have just been started; nothing ends at the same moment.
    """
    status, spec = pod.status, pod.spec
    sidecars = {one.name: one for one in spec.init_containers if one.restart_policy == "Always"}
    main = [
        _moved(pod, _named(spec.containers, one.name), one, now, settings, fresh) for one in status.container_statuses
    ]
    beside = [_moved(pod, sidecars.get(one.name), one, now, settings, fresh) for one in status.init_container_statuses]
    ended = [one.status.state.terminated for one in main]
    if ended and all(one is not None for one in ended):
        return Step(_finished(pod, main, beside, sidecars, now))
    waits = [one.wait for one in (*main, *beside) if one.wait is not None]
    ephemeral = status.ephemeral_container_statuses
    shown = {one.name for one in ephemeral}
    if added := [one for one in spec.ephemeral_containers if one.name not in shown]:
        running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
        ephemeral = (*ephemeral, *statuses_of(added, running, ready=False, started=True))
    containers = tuple(one.status for one in main)
    ready = all(one.ready for one in containers)
    conditions = conditions_of(
        pod,
        now,
        ready,
        reason="" if ready else "ContainersNotReady",
        unready=[one.name for one in containers if not one.ready],
    )
    known = {one.type: one for one in status.conditions}
    if all(known.get(one.type) == one for one in conditions):
        conditions = status.conditions
    new = with_status(
        pod,
        container_statuses=containers,
        init_container_statuses=tuple(one.status for one in beside),
        ephemeral_container_statuses=ephemeral,
        conditions=conditions,
    )
    return Step(new if new != status else None, wait=min(waits, default=None))


def _named(containers: Sequence[core_v1.Container], name: str) -> core_v1.Container | None:
    return next((one for one in containers if one.name == name), None)


def _moved(
    pod: core_v1.Pod,
    container: core_v1.Container | None,
    status: core_v1.ContainerStatus,
    now: float,
    settings: SimulatorSettings,
    fresh: bool,
) -> _Moved:
    """What is due for one container (or sidecar; None for init containers, which are done)."""
    if container is None:
        return _Moved(status)
    state = status.state
    if state.waiting is not None and state.waiting.reason == _BACK_OFF:
        back = _back_at(status)
        if back > now:
            return _Moved(status, back - now)
        status = _again(status, now)
    elif state.running is None:
        return _Moved(status)
    begun = _since(status, pod)
    plan = ending(pod, container, settings, status.restart_count)
    waits = []
    if plan is not None:
        left = begun + plan.seconds - now
        if left <= 0 and not fresh:
            return _after_end(pod, container, status, plan, now)
        waits.append(max(left, 0.001))
    unready = begun + ready_after(pod, container, status.restart_count) - now
    if unready > 0:
        waits.append(unready)
    ready = unready <= 0 and may_be_ready(pod, container.name)
    if (status.image, status.ready) != (container.image, ready):
        status = msgspec.structs.replace(status, image=container.image, ready=ready)
    return _Moved(status, min(waits, default=None))


def _after_end(
    pod: core_v1.Pod, container: core_v1.Container, status: core_v1.ContainerStatus, plan: Ending, now: float
) -> _Moved:
    """A container that ended runs again, now or later, or stays where it is."""
    running = status.state.running
    last = terminated(plan.code, running.started_at if running is not None else None, now, plan.reason)
    policy = container.restart_policy or pod.spec.restart_policy
    if policy in ("", "Always") or (policy == "OnFailure" and plan.code):
        step = _ended(pod, status, last, now)
        if step.status.state.running is None:
            return step
        ready = not ready_after(pod, container, step.status.restart_count) and may_be_ready(pod, container.name)
        return _Moved(msgspec.structs.replace(step.status, ready=ready), 0.001)
    return _Moved(msgspec.structs.replace(status, state=last, ready=False, started=False))


def _ended(pod: core_v1.Pod, status: core_v1.ContainerStatus, last: core_v1.ContainerState, now: float) -> _Moved:
    """A container that must run ended: the first time it runs again at once, later after a back-off."""
    ended = last.terminated
    started = parse_rfc3339(ended.started_at) if ended is not None and ended.started_at else now
    pause = back_off(status.restart_count, now - started)
    status = msgspec.structs.replace(status, last_state=last)
    if not pause:
        return _Moved(_again(status, now))
    name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    text = f"back-off {_duration(pause)} restarting failed container={status.name} pod={name}"
    return _Moved(msgspec.structs.replace(status, state=waiting(_BACK_OFF, text), ready=False, started=False), pause)


def _finished(
    pod: core_v1.Pod,
    main: Sequence[_Moved],
    beside: Sequence[_Moved],
    sidecars: dict[str, core_v1.Container],
    now: float,
) -> core_v1.PodStatus:
    """All containers ended for good; sidecars are stopped."""
    failed = any(one.status.state.terminated is not None and one.status.state.terminated.exit_code for one in main)
    stopped = tuple(
        msgspec.structs.replace(
            one.status, state=terminated(0, rfc3339(_since(one.status, pod)), now), ready=False, started=False
        )
        if one.status.name in sidecars and one.status.state.running is not None
        else one.status
        for one in beside
    )
    return with_status(
        pod,
        phase="Failed" if failed else "Succeeded",
        conditions=conditions_of(pod, now, False, reason="PodFailed" if failed else "PodCompleted", started=False),
        init_container_statuses=stopped,
        container_statuses=tuple(one.status for one in main),
    )


def _is_settled(pod: core_v1.Pod) -> bool:
    """A cheap look that finds most running pods up to date: nothing in the spec is new, everything is ready, and nothing else has a say in that."""
    status, spec = pod.status, pod.spec
    return (
        status.observed_generation == pod.metadata.generation
        and not spec.readiness_gates
        and len(spec.ephemeral_containers) == len(status.ephemeral_container_statuses)
        and all(one.ready for one in status.container_statuses)
        and sum(one.type in CONDITIONS and one.status == "True" for one in status.conditions) == len(CONDITIONS)
    )


def _since(status: core_v1.ContainerStatus, pod: core_v1.Pod) -> float:
    """Unix time when a container began to run."""
    running = status.state.running
    text = running.started_at if running is not None else None
    return parse_rfc3339(text or pod.status.start_time or "1970-01-01T00:00:00Z")


def _started(container: core_v1.Container, now: float, *, ready: bool) -> core_v1.ContainerStatus:
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
    return statuses_of((container,), running, ready=ready, started=True)[0]


def _again(status: core_v1.ContainerStatus, now: float) -> core_v1.ContainerStatus:
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


def _duration(seconds: float) -> str:
    """As Go writes it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _back_at(status: core_v1.ContainerStatus) -> float:
    """Unix time when a container that waits in back-off starts again."""
    ended = status.last_state.terminated
    if ended is None:
        return 0.0
    finished = parse_rfc3339(ended.finished_at) if ended.finished_at else 0.0
    ran = finished - parse_rfc3339(ended.started_at) if ended.started_at else 0.0
    return finished + back_off(status.restart_count, ran)


# The end


def _stop(pod: core_v1.Pod, now: float, settings: SimulatorSettings) -> Step:
    """A pod that is being deleted: its containers take a moment to stop, then it goes."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    begun = parse_rfc3339(pod.metadata.deletion_timestamp or rfc3339(now)) - grace
    left = begun + min(settings.stop_seconds, grace) - now
    if pod.status.phase != "Running":
        return Step(delete=True)
    if left > 0:
        return Step(wait=left)
    statuses = tuple(
        msgspec.structs.replace(one, state=terminated(0, one.state.running.started_at, now), ready=False, started=False)
        if one.state.running is not None
        else one
        for one in pod.status.container_statuses
    )
    reason = "PodFailed" if pod.spec.restart_policy == "Never" else "ContainersNotReady"
    conditions = conditions_of(pod, now, False, reason=reason)
    return Step(with_status(pod, container_statuses=statuses, conditions=conditions), delete=True)
