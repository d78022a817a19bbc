"""The life of a simulated pod, as a pure function: from the pod as it is and the time to what its kubelet would write next.

    bound  -> ContainerCreating -> Running and ready -> (pods that end by themselves) Succeeded or Failed
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
    started = parse_rfc3339(pod.status.start_time)
    if pod.status.phase == "Pending":
        if missing_images(pod):
            return Step(_pull_failed(pod, now))
        return Step(_running(pod, now, pod_ip), wait=run_seconds(pod, settings))
    duration = run_seconds(pod, settings)
    if duration is None:
        return Step(_follow(pod, now))
    left = _running_since(pod, started) + duration - now
    if left > 0:
        return Step(_follow(pod, now), wait=left)
    return Step(_ended(pod, now))


def _follow(pod: core_v1.Pod, now: float) -> core_v1.PodStatus | None:
    """What a running pod's status lacks: the observed generation, images changed in place, readiness as gates and annotation say (also where somebody else
    marked the pod as not ready while its node was away). None if it is up to date."""
    ready = _is_ready(pod)
    images = {container.name: container.image for container in pod.spec.containers}
    statuses = tuple(
        msgspec.structs.replace(
            one, image=images.get(one.name, one.image), ready=ready and one.state.running is not None
        )
        for one in pod.status.container_statuses
    )
    conditions = _conditions(pod, now, ready, reason="" if ready else "ContainersNotReady")
    known = {one.type: one for one in pod.status.conditions}
    if all(known.get(one.type) == one for one in conditions):
        conditions = pod.status.conditions
    status = _with(pod, container_statuses=statuses, conditions=conditions)
    return status if status != pod.status else None


def _is_ready(pod: core_v1.Pod) -> bool:
    """Whether the containers of a running pod are ready: they are, unless the annotation says that they are not."""
    return pod.metadata.annotations.get(READY, "true").lower() != "false"


def _running_since(pod: core_v1.Pod, started: float) -> float:
    for one in pod.status.container_statuses:
        if one.state.running is not None and one.state.running.started_at:
            return parse_rfc3339(one.state.running.started_at)
    return started


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
    """The containers ended and run again."""
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=rfc3339(now)))
    last = _terminated(code, started, now)
    return _with(
        pod,
        container_statuses=tuple(
            msgspec.structs.replace(one, state=running, last_state=last, restart_count=one.restart_count + 1)
            for one in pod.status.container_statuses
        ),
    )


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
