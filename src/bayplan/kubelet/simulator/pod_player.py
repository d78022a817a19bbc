"""Leads pods through their usual life: asks `pods.next_step`, waits, writes, tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder, reference
from bayplan.kubelet.core.admission import Rejection, rejected_status
from bayplan.kubelet.core.eviction import REASON as EVICTED
from bayplan.kubelet.core.pod_status import TERMINAL, Failure
from bayplan.kubelet.core.preemption import DISRUPTION_MESSAGE
from bayplan.kubelet.core.preemption import MESSAGE as PREEMPTED
from bayplan.kubelet.core.preemption import REASON as PREEMPTING
from bayplan.kubelet.pods.container_events import field_path
from bayplan.kubelet.simulator.admission import NodeAdmission
from bayplan.kubelet.simulator.containers import is_plain, needs_config, start_seconds
from bayplan.kubelet.simulator.events import ALL, WARNING, Told, about_deletion, chosen
from bayplan.kubelet.simulator.fast_path import is_settled
from bayplan.kubelet.simulator.object_reader import ObjectReader
from bayplan.kubelet.simulator.pod_sync import Place
from bayplan.kubelet.simulator.pods import Step, next_step, start_at_once
from bayplan.kubelet.simulator.references import NOTHING_FOUND, Surroundings, refers
from bayplan.kubelet.simulator.runtime_memory import SANDBOX_CONDITION
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness


class PodPlayer:
    """Plays pods without stages. `node` gives a node by its name, `host_ip` its address, `pod_ip` that of a pod, `others` the other pods of a pod's node."""

    def __init__(
        self,
        client: Client,
        settings: SimulatorSettings,
        *,
        clock: Clock,
        randomness: Randomness,
        recorder: EventRecorder,
        admission: NodeAdmission,
        node: Callable[[str], core_v1.Node | None],
        others: Callable[[core_v1.Pod], Iterable[core_v1.Pod]],
        host_ip: Callable[[str], str],
        pod_ip: Callable[[core_v1.Pod], str],
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._recorder = recorder
        self._admission = admission
        self._node = node
        self._others = others
        self._host_ip = host_ip
        self._pod_ip = pod_ip
        self._objects = ObjectReader(client, clock)
        self._accepted: dict[str, float] = {}
        """Uid of a pod that its node has accepted -> unix time of that; what it shows until it runs is not worth writing."""
        self._due: dict[str, float] = {}
        """Uid of a pod -> unix time of its next step, however often the pod changes meanwhile."""
        self._stopping: dict[str, float] = {}
        """Uid of a pod that is being deleted -> unix time when that was seen."""

    def forget(self, pod: core_v1.Pod) -> None:
        """A pod is gone."""
        uid = pod.metadata.uid
        self._accepted.pop(uid, None)
        self._due.pop(uid, None)
        self._stopping.pop(uid, None)

    async def advance(self, pod: core_v1.Pod) -> float | None:
        """Carry out what is due for a pod. Seconds until there is something to do; None if nothing is until the pod changes.

        Raises ApiError, TransportError, and LookupError if its node has no address left.
        """
        now, uid = self._clock.now(), pod.metadata.uid
        due = self._due.get(uid, now)
        is_early = due > now
        if is_early and _is_being_made(pod):
            return due - now
        was_accepted = uid in self._accepted
        if pod.metadata.deletion_timestamp and uid not in self._stopping:
            self._stopping[uid] = now
            self._tell(pod, about_deletion(pod))
        if not was_accepted and _is_new(pod):
            outcome = self._admission.admit(pod, lambda: self._others(pod))
            if isinstance(outcome, Rejection):
                await self._reject(pod, outcome)
                return None
            for victim in outcome:
                await self._get_rid(victim, Failure(PREEMPTING, PREEMPTED), DISRUPTION_MESSAGE)
        step = self._next(pod, now, await self._surroundings(pod))
        if is_early and step.status is None:
            step = replace(step, told=())  # what is tried again when it is due, and told then
        self._due.pop(uid, None)
        if step.wait is not None:
            self._due[uid] = now + step.wait
        try:
            await self._carry_out(pod, step)
        except (ApiError, TransportError):
            self._due.pop(uid, None)  # the step is due still, not the one after it
            raise
        if was_accepted:
            self._accepted.pop(uid, None)
        return None if step.delete else step.wait

    async def evict(self, pod: core_v1.Pod, message: str) -> None:
        """End a pod because its node is short of something. Raises ApiError, TransportError."""
        await self._get_rid(pod, Failure(EVICTED, message))

    async def _get_rid(self, pod: core_v1.Pod, why: Failure, disruption: str = "") -> None:
        """End a pod. disruption: what its condition DisruptionTarget says, if that is not the same. Raises ApiError, TransportError."""
        host_ip = self._host_ip(pod.spec.node_name)
        around = Surroundings(eviction=why, disruption=disruption)
        step = next_step(pod, self._clock.now(), self._settings, host_ip, pod.status.pod_ip, 0.0, around=around)
        if step.status is not None:
            told = (Told(WARNING, why.reason, why.message), *step.told)
            await self._carry_out(pod, replace(step, told=told))

    async def _reject(self, pod: core_v1.Pod, rejection: Rejection) -> None:
        """The node does not take a pod. Raises ApiError, TransportError."""
        await self._client.update_status(msgspec.structs.replace(pod, status=rejected_status(pod, rejection)))
        self._recorder.event(pod, "Warning", rejection.reason, rejection.message)

    async def _surroundings(self, pod: core_v1.Pod) -> Surroundings:
        """What decides about a pod besides itself; objects are read only for pods that refer to some and have to start. Raises ApiError, TransportError."""
        found = NOTHING_FOUND
        if _has_to_start(pod) and refers(pod.spec) and (pod.status.start_time or pod.metadata.uid in self._accepted):
            found = await self._objects.find(pod, needs_config=needs_config(pod, self._settings))
        return Surroundings(found, self._node(pod.spec.node_name), lambda: self._others(pod))

    def _next(self, pod: core_v1.Pod, now: float, around: Surroundings) -> Step:
        """What happens next to a pod."""
        settings, uid = self._settings, pod.metadata.uid
        if pod.status.phase == "Running" and is_plain(pod) and is_settled(pod) and not pod.metadata.deletion_timestamp:
            return Step()
        host_ip = self._host_ip(pod.spec.node_name)
        pod_ip = "" if pod.spec.host_network else self._pod_ip(pod)
        if not _is_new(pod):
            return next_step(pod, now, settings, host_ip, pod_ip, 0.0, self._stopping.get(uid), around)
        accepted = self._accepted.get(uid)
        if accepted is not None:
            return start_at_once(pod, accepted, now, settings, Place(host_ip, pod_ip), around)
        start = start_seconds(pod, settings, self._randomness.jitter)
        if self._is_unseen(pod, start):
            self._accepted[uid] = now
            return Step(wait=start)
        return next_step(pod, now, settings, host_ip, pod_ip, start, around=around)

    def _is_unseen(self, pod: core_v1.Pod, start: float) -> bool:
        """Whether a start only begins what will have ended before anybody looks."""
        settings = self._settings
        return start < settings.unseen_seconds and is_plain(pod) and settings.events != ALL

    async def _carry_out(self, pod: core_v1.Pod, step: Step) -> None:
        """Write a step. Raises ApiError, TransportError."""
        metadata = pod.metadata
        if step.status is not None:
            await self._client.update_status(msgspec.structs.replace(pod, status=step.status))
        if not step.delete:
            self._tell(pod, step.told)
        else:
            await self._client.delete(
                core_v1.Pod, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
            )

    def _tell(self, pod: core_v1.Pod, events: Iterable[Told]) -> None:
        for event in chosen(events, self._settings.events):
            where = reference(self._client, pod)
            if event.container:
                where.field_path = field_path(pod, event.container)
            self._recorder.event(where, event.type, event.reason, event.message)


def _is_new(pod: core_v1.Pod) -> bool:
    """Whether a pod has just been bound."""
    status = pod.status
    return not status.start_time and status.phase == "Pending" and not pod.metadata.deletion_timestamp


def _is_being_made(pod: core_v1.Pod) -> bool:
    """Whether a pod has no sandbox yet, so that only time changes what becomes of it."""
    if pod.status.phase != "Pending" or pod.metadata.deletion_timestamp:
        return False
    return not any(one.type == SANDBOX_CONDITION and one.status == "True" for one in pod.status.conditions)


def _has_to_start(pod: core_v1.Pod) -> bool:
    """Whether a container of a pod may have to be started."""
    status = pod.status
    if pod.metadata.deletion_timestamp or status.phase in TERMINAL:
        return False
    statuses = (*status.init_container_statuses, *status.container_statuses)
    settled = status.observed_generation == pod.metadata.generation and is_plain(pod)
    return not statuses or not settled or any(one.state.waiting is not None for one in statuses)
