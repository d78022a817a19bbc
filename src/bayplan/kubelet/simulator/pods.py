"""The life of a simulated pod, as a pure function: from the pod as it is and the time to what its kubelet would write next.

    bound -> ContainerCreating -> (init containers, one after the other) -> Running and ready -> Succeeded or Failed
    deletionTimestamp -> stopped -> gone

`containers` says what happens to each container, and when; `pod_sync` lets the kubelet's core decide what follows from that. Everything is worked out from the pod's
status, so that a restart of the simulator changes nothing. Where nothing is out of the ordinary, `fast_path` comes to the same with less work.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_status import TERMINAL
from bayplan.kubelet.simulator.containers import MOMENT, is_plain
from bayplan.kubelet.simulator.events import ALL, Told, about_annotations
from bayplan.kubelet.simulator.fast_path import (
    is_settled,
    may_start,
    running_status,
    seconds_of_rest,
    seconds_to_run,
)
from bayplan.kubelet.simulator.pod_sync import Place, PodSync
from bayplan.kubelet.simulator.references import NO_SURROUNDINGS, Surroundings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.statuses import created_status, lost_readiness, status_after
from bayplan.support.timestamps import parse_rfc3339, rfc3339


@dataclass(frozen=True, slots=True)
class Step:
    """What happens next to a pod."""

    status: core_v1.PodStatus | None = None
    """Status to write now; None to leave it."""
    delete: bool = False
    """The containers have stopped: the pod goes away for good."""
    wait: float | None = None
    """Seconds until the next step; None if nothing happens until the pod changes."""
    told: tuple[Told, ...] = ()
    """Events about this step, before any are left out."""


def next_step(
    pod: core_v1.Pod,
    now: float,
    settings: SimulatorSettings,
    host_ip: str,
    pod_ip: str,
    start_seconds: float,
    told_to_stop: float | None = None,
    around: Surroundings = NO_SURROUNDINGS,
) -> Step:
    """The next step of a bound pod. `pod_ip` is the address to give it, `start_seconds` how long it takes to start, `told_to_stop` the unix time when its node
    saw that it is being deleted."""
    if pod.metadata.deletion_timestamp:
        return _stop(pod, now, settings, Place(host_ip, pod_ip), told_to_stop)
    if pod.status.phase in TERMINAL:
        return Step()
    if not pod.status.start_time:
        wait = start_seconds
        if pod.spec.active_deadline_seconds is not None:
            wait = min(wait, pod.spec.active_deadline_seconds)
        return Step(created_status(pod, now, host_ip), wait=wait, told=about_annotations(pod))
    if around.eviction is None:
        if pod.status.phase == "Pending":
            if settings.events != ALL and may_start(pod):
                status = running_status(pod, now, now, host_ip, pod_ip)
                return Step(status, wait=seconds_to_run(pod, settings))
        elif is_settled(pod):
            if is_plain(pod):
                return Step()
            if (rest := seconds_of_rest(pod, now, settings)) is not None:
                return Step(wait=None if rest == inf else max(rest, MOMENT))
    return synced(pod, now, settings, Place(host_ip, pod_ip), around)


def start_at_once(
    pod: core_v1.Pod, accepted: float, now: float, settings: SimulatorSettings, place: Place, around: Surroundings
) -> Step:
    """The step of a pod that has been starting since its node `accepted` it without showing it, and runs now."""
    if pod.metadata.deletion_timestamp or pod.status.phase in TERMINAL:
        return Step()  # it has ended meanwhile
    if may_start(pod):
        return Step(running_status(pod, accepted, now, place.host_ip, place.pod_ip), wait=seconds_to_run(pod, settings))
    created = msgspec.structs.replace(pod, status=created_status(pod, accepted, place.host_ip))
    step = synced(created, now, settings, place, around)
    return step if step.status is not None else Step(created.status, wait=step.wait, told=step.told)


def synced(pod: core_v1.Pod, now: float, settings: SimulatorSettings, place: Place, around: Surroundings) -> Step:
    """What a kubelet makes of a pod now, the slow path that all rules are in."""
    sync = PodSync(pod, now, settings, place, around)
    sync.run()
    status = status_after(sync, pod.status, place.host_ip)
    told = (*sync.told, *lost_readiness(pod.status, status))
    wait = None if status.phase in TERMINAL else sync.wait()
    return Step(status if status != pod.status else None, wait=wait, told=told)


def _stop(pod: core_v1.Pod, now: float, settings: SimulatorSettings, place: Place, told_to_stop: float | None) -> Step:
    """A pod that is being deleted: its containers take a moment to stop, then it goes.

    Its deletionTimestamp has no fractions of seconds, which would often be longer than that moment: when within its second it was is what the node saw."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    since = parse_rfc3339(pod.metadata.deletion_timestamp or rfc3339(now)) - grace
    if told_to_stop is not None:
        since = min(max(since, told_to_stop), since + 1)
    left = since + min(settings.stop_seconds, grace) - now
    if pod.status.phase != "Running":
        return Step(delete=True)
    if left > 0:
        return Step(wait=left)
    if settings.unseen_seconds and is_plain(pod) and not pod.metadata.finalizers:
        return Step(delete=True)  # what its containers came to would be seen for a moment only
    sync = PodSync(pod, now, settings, place, NO_SURROUNDINGS)
    sync.stop()
    return Step(status_after(sync, pod.status, place.host_ip), delete=True)
