"""The life of a simulated pod, as a pure function: from the pod as it is and the time to what its kubelet would write next.

    bound  -> ContainerCreating -> (init containers, one after the other) -> Running and ready -> Succeeded or Failed
                                   container ended and must run: again at once, later after CrashLoopBackOff
    deletionTimestamp -> stopped -> gone

What happens to each container, and when, is in `containers`. An image whose name or tag says that it does not exist (`nonexistent`, `non-existent`, `invalid`,
`404`) is never pulled. Everything is worked out from the status, so that a restart of the simulator changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.containers import (
    Ending,
    ending,
    is_plain,
    may_be_ready,
    ready_after,
)
from bayplan.kubelet.simulator.initialization import Progress, initialize
from bayplan.kubelet.simulator.restarts import CRASH_LOOP, Moved, back_at, restart, run_again, running_since
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

_MISSING_IMAGE = re.compile(r"non-?existent|invalid|:404$")


@dataclass(frozen=True, slots=True)
class Step:
    """What happens next to a pod."""

    status: core_v1.PodStatus | None = None
    """Status to write now; None to leave it."""
    delete: bool = False
    """The containers have stopped: the pod goes away for good."""
    wait: float | None = None
    """Seconds until the next step; None if nothing happens until the pod changes."""


def missing_images(pod: core_v1.Pod) -> list[str]:
    """Names of containers whose image cannot be pulled."""
    return [one.name for one in (*pod.spec.init_containers, *pod.spec.containers) if _MISSING_IMAGE.search(one.image)]


def next_step(
    pod: core_v1.Pod,
    now: float,
    settings: SimulatorSettings,
    host_ip: str,
    pod_ip: str,
    start_seconds: float,
    told_to_stop: float | None = None,
) -> Step:
    """The next step of a bound pod. `pod_ip` is the address to give it, `start_seconds` how long it takes to start, `told_to_stop` the unix time when its node
    saw that it is being deleted."""
    if pod.metadata.deletion_timestamp:
        return _stop(pod, now, settings, told_to_stop)
    if pod.status.phase in ("Succeeded", "Failed"):
        return Step()
    if not pod.status.start_time:
        delay = start_seconds if not missing_images(pod) else None
        return Step(_creating(pod, now, host_ip), wait=delay)
    if pod.status.phase == "Pending":
        if missing_images(pod):
            return Step(_pull_failed(pod, now))
        progress = initialize(pod, now)
        return (
            _run(pod, now, settings, pod_ip, progress.statuses) if progress.done else _initializing(pod, now, progress)
        )
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


def _initializing(pod: core_v1.Pod, now: float, progress: Progress) -> Step:
    """Init containers are not done yet, or one of them has failed the pod."""
    failed = progress.failed
    reason = "PodFailed" if failed else "ContainersNotReady"
    conditions = conditions_of(pod, now, False, initialized=False, reason=reason, started=not failed)
    status = with_status(
        pod,
        phase="Failed" if failed else "Pending",
        init_container_statuses=progress.statuses,
        conditions=conditions,
    )
    return Step(status if status != pod.status else None, wait=progress.wait)


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
) -> Moved:
    """What is due for one container (or sidecar; None for init containers, which are done)."""
    if container is None:
        return Moved(status)
    state = status.state
    if state.waiting is not None and state.waiting.reason == CRASH_LOOP:
        back = back_at(status)
        if back > now:
            return Moved(status, back - now)
        status = run_again(status, now)
    elif state.running is None:
        return Moved(status)
    begun = running_since(status, pod)
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
    return Moved(status, min(waits, default=None))


def _after_end(
    pod: core_v1.Pod, container: core_v1.Container, status: core_v1.ContainerStatus, plan: Ending, now: float
) -> Moved:
    """A container that ended runs again, now or later, or stays where it is."""
    running = status.state.running
    last = terminated(plan.code, running.started_at if running is not None else None, now, plan.reason)
    policy = container.restart_policy or pod.spec.restart_policy
    if policy in ("", "Always") or (policy == "OnFailure" and plan.code):
        step = restart(pod, status, last, now)
        if step.status.state.running is None:
            return step
        ready = not ready_after(pod, container, step.status.restart_count) and may_be_ready(pod, container.name)
        return Moved(msgspec.structs.replace(step.status, ready=ready), 0.001)
    return Moved(msgspec.structs.replace(status, state=last, ready=False, started=False))


def _finished(
    pod: core_v1.Pod,
    main: Sequence[Moved],
    beside: Sequence[Moved],
    sidecars: dict[str, core_v1.Container],
    now: float,
) -> core_v1.PodStatus:
    """All containers ended for good; sidecars are stopped."""
    failed = any(one.status.state.terminated is not None and one.status.state.terminated.exit_code for one in main)
    stopped = tuple(
        msgspec.structs.replace(
            one.status, state=terminated(0, rfc3339(running_since(one.status, pod)), now), ready=False, started=False
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


# The end

_INTERRUPTED = 143
"""Exit code of a task that is told to stop (128 and the number of SIGTERM); a server that is told so has done its work."""


def _stop(pod: core_v1.Pod, now: float, settings: SimulatorSettings, told: float | None) -> Step:
    """A pod that is being deleted: its containers take a moment to stop, then it goes.

    Its deletionTimestamp has no fractions of seconds, which would often be longer than that moment: when within its second it was is what the node saw."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    begun = parse_rfc3339(pod.metadata.deletion_timestamp or rfc3339(now)) - grace
    if told is not None:
        begun = min(max(begun, told), begun + 1)
    left = begun + min(settings.stop_seconds, grace) - now
    if pod.status.phase != "Running":
        return Step(delete=True)
    if left > 0:
        return Step(wait=left)
    if settings.unseen_seconds and is_plain(pod) and not pod.metadata.finalizers:
        return Step(delete=True)  # what its containers came to would be seen for a moment only
    code = 0 if pod.spec.restart_policy in ("", "Always") else _INTERRUPTED
    statuses = _stopped(pod.status.container_statuses, code, now)
    failed = any(one.state.terminated is not None and one.state.terminated.exit_code for one in statuses)
    status = with_status(
        pod,
        phase="Failed" if failed else "Succeeded",
        container_statuses=statuses,
        init_container_statuses=_stopped(pod.status.init_container_statuses, 0, now),
        conditions=conditions_of(pod, now, False, reason="PodFailed" if failed else "PodCompleted"),
    )
    return Step(status, delete=True)


def _stopped(statuses: Iterable[core_v1.ContainerStatus], code: int, now: float) -> tuple[core_v1.ContainerStatus, ...]:
    """The containers after they were told to stop; those that ended before stay as they are."""
    return tuple(
        msgspec.structs.replace(
            one, state=terminated(code, one.state.running.started_at, now), ready=False, started=False
        )
        if one.state.running is not None
        else one
        for one in statuses
    )
