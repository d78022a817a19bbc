"""The life of a simulated pod, as a pure function: from the pod as it is and the time to what its kubelet would write next.

    bound  -> ContainerCreating -> Running and ready -> (pods that end by themselves) Succeeded or Failed
                                   Running <-> CrashLoopBackOff (containers that end but must run)
    deletionTimestamp -> stopped -> gone

Annotations of the pod change that: `bayplan.dev/start-seconds`, `bayplan.dev/run-seconds` (containers end after so long), `bayplan.dev/exit-code`
(with which code), `bayplan.dev/ready` (`false` while the readiness probe is to fail). Without them a pod that may end (restartPolicy Never or OnFailure) ends
after a while with code 0, unless it sleeps: `sleep 30` runs for 30 seconds, the pause image and `sleep infinity` for ever. An image whose name or tag says
that it does not exist (`nonexistent`, `non-existent`, `invalid`, `404`) is never pulled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339, rfc3339

START, RUN, EXIT_CODE = "bayplan.dev/start-seconds", "bayplan.dev/run-seconds", "bayplan.dev/exit-code"
READY = "bayplan.dev/ready"
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 10.0, 300.0
"""Seconds before containers that ended for the second time start again, and the most that it gets by doubling."""
_STEADY = 600.0
"""Seconds of running after which there is no back-off."""
_CONDITIONS = frozenset(("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"))
"""Conditions that the kubelet writes."""
_MISSING_IMAGE = re.compile(r"non-?existent|invalid|:404$")
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)\b")
_ENDLESS = re.compile(r"sleep\s+inf|pause|tail\s+-f|while\s+(?:true|:)")


@dataclass(frozen=True, slots=True)
class Step:
    """What happens next to a pod."""

    status: core_v1.PodStatus | None = None
    """Status to write now; None to leave it."""
    delete: bool = False
    """The containers have stopped: the pod goes away for good."""
    wait: float | None = None
    """Seconds until the next step; None if nothing happens until the pod changes."""


def number(pod: core_v1.Pod, annotation: str, default: float) -> float:
    """A number from an annotation; the default if it is missing or malformed."""
    try:
        return float(pod.metadata.annotations.get(annotation, default))
    except ValueError:
        return default


def run_seconds(pod: core_v1.Pod, settings: SimulatorSettings) -> float | None:
    """How long the pod's containers run; None for ever."""
    if RUN in pod.metadata.annotations:
        return number(pod, RUN, settings.run_seconds)
    if pod.spec.restart_policy in ("", "Always"):
        return None
    longest = settings.run_seconds
    for container in pod.spec.containers:
        text = " ".join((*container.command, *container.args))
        if _ENDLESS.search(text) or (not text and "pause" in container.image):
            return None
        if match := _SLEEP.search(text):
            longest = max(longest, float(match[1])) if longest != settings.run_seconds else float(match[1])
    return longest


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
        waiting = start_seconds if not missing_images(pod) else None
        return Step(_creating(pod, now, host_ip), wait=waiting)
    if pod.status.phase == "Pending":
        if missing_images(pod):
            return Step(_pull_failed(pod, now))
        return Step(_running(pod, now, pod_ip), wait=run_seconds(pod, settings))
    if (back := _back_at(pod)) is not None:
        return Step(_follow(pod, now), wait=back - now) if back > now else Step(_run_again(pod, now))
    duration = run_seconds(pod, settings)
    if duration is None:
        return Step(_follow(pod, now))
    left = _running_since(pod) + duration - now
    if left > 0:
        return Step(_follow(pod, now), wait=left)
    return Step(_ended(pod, now))


def _follow(pod: core_v1.Pod, now: float) -> core_v1.PodStatus | None:
    """What a running pod's status lacks; None if it is up to date.

    That is the observed generation, images changed in place, ephemeral containers, and readiness as gates and annotation say, also where somebody else marked
    the pod as not ready while its node was away.
    """
    if _is_settled(pod):
        return None
    ready = _is_ready(pod)
    images = {container.name: container.image for container in pod.spec.containers}
    statuses = tuple(
        msgspec.structs.replace(
            one, image=images.get(one.name, one.image), ready=ready and one.state.running is not None
        )
        for one in pod.status.container_statuses
    )
    ephemeral = pod.status.ephemeral_container_statuses
    shown = {one.name for one in ephemeral}
    if added := [one for one in pod.spec.ephemeral_containers if one.name not in shown]:
        running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
        ephemeral = (*ephemeral, *_statuses(added, running, ready=False, started=True))
    conditions = _conditions(pod, now, ready, reason="" if ready else "ContainersNotReady")
    known = {one.type: one for one in pod.status.conditions}
    if all(known.get(one.type) == one for one in conditions):
        conditions = pod.status.conditions
    status = _with(pod, container_statuses=statuses, ephemeral_container_statuses=ephemeral, conditions=conditions)
    return status if status != pod.status else None


def _is_settled(pod: core_v1.Pod) -> bool:
    """A cheap look that finds most running pods up to date: nothing in the spec is new, everything is ready, and nothing else has a say in that."""
    status, spec = pod.status, pod.spec
    return (
        status.observed_generation == pod.metadata.generation
        and not spec.readiness_gates
        and len(spec.ephemeral_containers) == len(status.ephemeral_container_statuses)
        and READY not in pod.metadata.annotations
        and all(one.ready for one in status.container_statuses)
        and sum(one.type in _CONDITIONS and one.status == "True" for one in status.conditions) == len(_CONDITIONS)
    )


def _is_ready(pod: core_v1.Pod) -> bool:
    """Whether the containers of a running pod are ready: they are, unless they wait to be started again or the annotation says that they are not."""
    return _back_at(pod) is None and pod.metadata.annotations.get(READY, "true").lower() != "false"


def _running_since(pod: core_v1.Pod) -> float:
    """Unix time when the containers began to run."""
    for one in pod.status.container_statuses:
        if one.state.running is not None and one.state.running.started_at:
            return parse_rfc3339(one.state.running.started_at)
    return parse_rfc3339(pod.status.start_time or "")


def _conditions(
    pod: core_v1.Pod, now: float, ready: bool, *, initialized: bool = True, reason: str = "", started: bool = True
) -> tuple[Any, ...]:
    """The kubelet's conditions; those of others (PodScheduled, readiness gates, DisruptionTarget) stay."""
    stamp, generation = rfc3339(now), pod.metadata.generation
    gates = {gate.condition_type for gate in pod.spec.readiness_gates}
    met = all(any(one.type == gate and one.status == "True" for one in pod.status.conditions) for gate in gates)
    wanted = {
        "PodReadyToStartContainers": (started, ""),
        "Initialized": (initialized, "" if initialized else "ContainersNotInitialized"),
        "Ready": (ready and met, reason or ("" if met else "ReadinessGatesNotReady")),
        "ContainersReady": (ready, reason),
    }
    known = {one.type: one for one in pod.status.conditions}
    result = []
    for name, (value, why) in wanted.items():
        status = "True" if value else "False"
        old = known.pop(name, None)
        time = old.last_transition_time if old is not None and old.status == status else stamp
        message = (
            f"containers with unready status: [{' '.join(one.name for one in pod.spec.containers)}]"
            if why == "ContainersNotReady"
            else ""
        )
        result.append(
            core_v1.PodCondition(
                type=name,
                status=status,
                reason="" if value else why,
                message="" if value else message,
                last_transition_time=time,
                observed_generation=generation,
            )
        )
    return (*result, *known.values())


def _statuses(
    containers: Sequence[Any], state: core_v1.ContainerState, *, ready: bool, started: bool
) -> tuple[core_v1.ContainerStatus, ...]:
    return tuple(
        core_v1.ContainerStatus(
            name=one.name,
            image=one.image,
            image_id=f"bayplan://{one.image}" if started else "",
            container_id=f"bayplan://{one.name}" if started else "",
            ready=ready,
            started=started,
            state=state,
        )
        for one in containers
    )


def _waiting(reason: str, message: str = "") -> core_v1.ContainerState:
    return core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason=reason, message=message))


def _terminated(code: int, started: str | None, now: float) -> core_v1.ContainerState:
    reason = "Completed" if code == 0 else "Error"
    state = core_v1.ContainerStateTerminated(
        exit_code=code, reason=reason, started_at=started, finished_at=rfc3339(now)
    )
    return core_v1.ContainerState(terminated=state)


def _with(pod: core_v1.Pod, **changes: Any) -> core_v1.PodStatus:
    changed: core_v1.PodStatus = msgspec.structs.replace(
        pod.status, observed_generation=pod.metadata.generation, **changes
    )
    return changed


def _creating(pod: core_v1.Pod, now: float, host_ip: str) -> core_v1.PodStatus:
    waiting = _waiting("PodInitializing" if pod.spec.init_containers else "ContainerCreating")
    return _with(
        pod,
        phase="Pending",
        start_time=rfc3339(now),
        host_ip=host_ip,
        host_ips=(core_v1.HostIP(ip=host_ip),),
        conditions=_conditions(
            pod, now, False, initialized=not pod.spec.init_containers, reason="ContainersNotReady", started=False
        ),
        init_container_statuses=_statuses(
            pod.spec.init_containers, _waiting("PodInitializing"), ready=False, started=False
        ),
        container_statuses=_statuses(pod.spec.containers, waiting, ready=False, started=False),
    )


def _pull_failed(pod: core_v1.Pod, now: float) -> core_v1.PodStatus | None:
    """Containers with images that are not there wait for ever."""
    missing = set(missing_images(pod))
    statuses = tuple(
        msgspec.structs.replace(
            one,
            state=_waiting("ImagePullBackOff", f'Back-off pulling image "{one.image}"')
            if one.name in missing
            else one.state,
        )
        for one in pod.status.container_statuses
    )
    if statuses == pod.status.container_statuses:
        return None
    return _with(pod, container_statuses=statuses)


def _running(pod: core_v1.Pod, now: float, pod_ip: str) -> core_v1.PodStatus:
    stamp = rfc3339(now)
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=stamp))
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    done = [one for one in pod.spec.init_containers if one.restart_policy != "Always"]
    address = pod.status.host_ip if pod.spec.host_network else pod_ip
    ready = _is_ready(pod)
    return _with(
        pod,
        phase="Running",
        pod_ip=address,
        pod_ips=(core_v1.PodIP(ip=address),),
        conditions=_conditions(pod, now, ready, reason="" if ready else "ContainersNotReady"),
        init_container_statuses=(
            *_statuses(done, _terminated(0, stamp, now), ready=True, started=False),
            *_statuses(sidecars, running, ready=True, started=True),
        ),
        container_statuses=_statuses(pod.spec.containers, running, ready=ready, started=True),
    )


def _ended(pod: core_v1.Pod, now: float) -> core_v1.PodStatus:
    code = int(number(pod, EXIT_CODE, 0))
    started = next(
        (one.state.running.started_at for one in pod.status.container_statuses if one.state.running is not None), None
    )
    if pod.spec.restart_policy in ("", "Always") or (pod.spec.restart_policy == "OnFailure" and code):
        return _restarted(pod, now, code, started)
    state = _terminated(code, started, now)
    return _with(
        pod,
        phase="Failed" if code else "Succeeded",
        conditions=_conditions(pod, now, False, reason="PodFailed" if code else "PodCompleted", started=False),
        container_statuses=tuple(
            msgspec.structs.replace(one, state=state, ready=False, started=False)
            for one in pod.status.container_statuses
        ),
    )


def _restarted(pod: core_v1.Pod, now: float, code: int, started: str | None) -> core_v1.PodStatus:
    """The containers ended. The first time they run again at once, later after a back-off."""
    last = _terminated(code, started, now)
    ended = tuple(msgspec.structs.replace(one, last_state=last) for one in pod.status.container_statuses)
    pause = back_off(
        max((one.restart_count for one in ended), default=0), now - parse_rfc3339(started) if started else 0.0
    )
    if not pause:
        return _run_again(msgspec.structs.replace(pod, status=_with(pod, container_statuses=ended)), now)
    name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    statuses = tuple(
        msgspec.structs.replace(
            one,
            state=_waiting(
                "CrashLoopBackOff", f"back-off {_duration(pause)} restarting failed container={one.name} pod={name}"
            ),
            ready=False,
            started=False,
        )
        for one in ended
    )
    return _with(pod, container_statuses=statuses, conditions=_conditions(pod, now, False, reason="ContainersNotReady"))


def back_off(restarts: int, ran: float) -> float:
    """Seconds before containers that have been started again so often, and ran for so long (seconds), start once more: 0, 10, 20, 40, ... 300."""
    if not restarts or ran >= _STEADY:
        return 0.0
    return min(_FIRST_BACK_OFF * 2.0 ** min(restarts - 1, 10), _LONGEST_BACK_OFF)


def _duration(seconds: float) -> str:
    """As Go writes it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _back_at(pod: core_v1.Pod) -> float | None:
    """Unix time when containers that wait in back-off start again; None if they do not wait."""
    for one in pod.status.container_statuses:
        ended = one.last_state.terminated
        if one.state.waiting is not None and one.state.waiting.reason == "CrashLoopBackOff" and ended is not None:
            finished = parse_rfc3339(ended.finished_at) if ended.finished_at else 0.0
            ran = finished - parse_rfc3339(ended.started_at) if ended.started_at else 0.0
            return finished + back_off(one.restart_count, ran)
    return None


def _run_again(pod: core_v1.Pod, now: float) -> core_v1.PodStatus:
    """The containers run once more."""
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
    statuses = tuple(
        msgspec.structs.replace(one, state=running, restart_count=one.restart_count + 1, started=True)
        for one in pod.status.container_statuses
    )
    again = msgspec.structs.replace(pod, status=_with(pod, container_statuses=statuses))
    return _follow(again, now) or again.status


def _stop(pod: core_v1.Pod, now: float, settings: SimulatorSettings) -> Step:
    """A pod that is being deleted: its containers take a moment to stop, then it goes."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    begun = parse_rfc3339(pod.metadata.deletion_timestamp or rfc3339(now)) - grace
    left = begun + min(settings.stop_seconds, grace) - now
    if left > 0 and pod.status.phase == "Running":
        return Step(wait=left)
    if pod.status.phase == "Running":
        started = next(
            (one.state.running.started_at for one in pod.status.container_statuses if one.state.running is not None),
            None,
        )
        state = _terminated(0, started, now)
        statuses = tuple(
            msgspec.structs.replace(one, state=state, ready=False, started=False)
            if one.state.running is not None
            else one
            for one in pod.status.container_statuses
        )
        conditions = _conditions(
            pod, now, False, reason="PodFailed" if pod.spec.restart_policy == "Never" else "ContainersNotReady"
        )
        return Step(_with(pod, container_statuses=statuses, conditions=conditions), delete=True)
    return Step(delete=True)
