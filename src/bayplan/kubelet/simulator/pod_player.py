"""Leads pods through their usual life: asks `pods.next_step`, waits, writes, tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.kubelet.core.admission import Rejection, rejected_status
from bayplan.kubelet.simulator import resize
from bayplan.kubelet.simulator.admission import NodeAdmission
from bayplan.kubelet.simulator.containers import is_plain, start_seconds
from bayplan.kubelet.simulator.events import ALL, Told, stopping, told
from bayplan.kubelet.simulator.pods import Step, next_step
from bayplan.kubelet.simulator.resizing import Resizing
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.statuses import with_status
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness


class PodPlayer:
    """Plays pods without stages. `host_ip` gives the address of a node, `pod_ip` that of a pod."""

    def __init__(
        self,
        client: Client,
        settings: SimulatorSettings,
        *,
        clock: Clock,
        randomness: Randomness,
        recorder: EventRecorder,
        resizing: Resizing,
        admission: NodeAdmission,
        host_ip: Callable[[str], str],
        pod_ip: Callable[[core_v1.Pod], str],
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._recorder = recorder
        self._resizing = resizing
        self._admission = admission
        self._host_ip = host_ip
        self._pod_ip = pod_ip
        self._begun: dict[str, float] = {}
        """Uid of a pod that is about to start -> unix time since when; what it shows until it runs is not worth writing."""
        self._due: dict[str, float] = {}
        """Uid of a pod -> unix time of its next step, however often the pod changes meanwhile."""
        self._stopping: dict[str, float] = {}
        """Uid of a pod that is being deleted -> unix time when that was seen."""

    def forget(self, pod: core_v1.Pod) -> None:
        """A pod is gone."""
        uid = pod.metadata.uid
        self._begun.pop(uid, None)
        self._due.pop(uid, None)
        self._stopping.pop(uid, None)

    async def advance(self, pod: core_v1.Pod) -> float | None:
        """Carry out what is due for a pod. Seconds until there is something to do; None if nothing is until the pod changes.

        Raises ApiError, TransportError, and LookupError if its node has no address left.
        """
        now, uid = self._clock.now(), pod.metadata.uid
        due = self._due.get(uid, now)
        if due > now and pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp:
            return due - now
        had_begun = uid in self._begun
        if pod.metadata.deletion_timestamp and uid not in self._stopping:
            self._stopping[uid] = now
            self._tell(pod, stopping(pod, self._settings.events))
        if not had_begun and _is_new(pod):
            rejection = self._admission.admit(pod)
            if rejection is not None:
                await self._reject(pod, rejection)
                return None
        step = self._next(pod, now)
        self._due.pop(uid, None)
        if step.wait is not None:
            self._due[uid] = now + step.wait
        try:
            await self._carry_out(pod, step)
        except (ApiError, TransportError):
            self._due.pop(uid, None)  # the step is due still, not the one after it
            raise
        if had_begun:
            self._begun.pop(uid, None)
        return None if step.delete else step.wait

    async def _reject(self, pod: core_v1.Pod, rejection: Rejection) -> None:
        """The node does not take a pod. Raises ApiError, TransportError."""
        await self._client.update_status(msgspec.structs.replace(pod, status=rejected_status(pod, rejection)))
        self._recorder.event(pod, "Warning", rejection.reason, rejection.message)

    def _next(self, pod: core_v1.Pod, now: float) -> Step:
        """What happens next to a pod."""
        settings, uid = self._settings, pod.metadata.uid
        host_ip = self._host_ip(pod.spec.node_name)
        pod_ip = "" if pod.spec.host_network else self._pod_ip(pod)
        start = 0.0 if pod.status.start_time else start_seconds(pod, settings, self._randomness.jitter)
        if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp and resize.is_concerned(pod):
            resized, wait = self._resizing.advance(pod, now)
            step = next_step(resized, now, settings, host_ip, pod_ip, start)
            if step.status is None and resized is not pod:
                step = replace(step, status=with_status(resized))
            return step if wait is None else replace(step, wait=wait if step.wait is None else min(wait, step.wait))
        if pod.status.start_time or pod.metadata.deletion_timestamp:
            return next_step(pod, now, settings, host_ip, pod_ip, start, self._stopping.get(uid))
        begun = self._begun.get(uid)
        if begun is not None:
            first = next_step(pod, begun, settings, host_ip, pod_ip, start).status
            if first is None:
                return Step()  # it has ended meanwhile
            return next_step(msgspec.structs.replace(pod, status=first), now, settings, host_ip, pod_ip, start)
        step = next_step(pod, now, settings, host_ip, pod_ip, start)
        if self._is_unseen(pod, step):
            self._begun[uid] = now
            return replace(step, status=None)
        return step

    def _is_unseen(self, pod: core_v1.Pod, start: Step) -> bool:
        """Whether a start only begins what will have ended before anybody looks."""
        wait, settings = start.wait, self._settings
        return wait is not None and wait < settings.unseen_seconds and is_plain(pod) and settings.events != ALL

    async def _carry_out(self, pod: core_v1.Pod, step: Step) -> None:
        """Write a step. Raises ApiError, TransportError."""
        metadata = pod.metadata
        if step.status is not None:
            await self._client.update_status(msgspec.structs.replace(pod, status=step.status))
            if not step.delete:
                self._tell(pod, told(pod, step.status, self._settings.events))
        if step.delete:
            await self._client.delete(
                core_v1.Pod, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
            )

    def _tell(self, pod: core_v1.Pod, events: Iterable[Told]) -> None:
        for event in events:
            self._recorder.event(pod, *event)


def _is_new(pod: core_v1.Pod) -> bool:
    """Whether a pod has just been bound."""
    status = pod.status
    return not status.start_time and status.phase == "Pending" and not pod.metadata.deletion_timestamp
