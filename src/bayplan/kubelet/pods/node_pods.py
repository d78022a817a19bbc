"""The pods that a node is to run: taken in, admitted, handed to workers, and cleaned up after (the sync loop of pkg/kubelet/kubelet.go)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client.errors import TransportError
from bayplan.kubelet.core.admission import (
    NODE_AFFINITY,
    NodeAccount,
    NodeOffer,
    Rejection,
    Requests,
    rejected_status,
    rejections,
)
from bayplan.kubelet.core.conditions import OWN_CONDITIONS
from bayplan.kubelet.core.pod_status import TERMINAL, disrupted, is_mirror, is_static
from bayplan.kubelet.core.preemption import DISRUPTION_MESSAGE, make_room
from bayplan.kubelet.core.preemption import MESSAGE as PREEMPTED
from bayplan.kubelet.core.preemption import REASON as PREEMPTING
from bayplan.kubelet.pods.container_events import WARNING, ContainerEvents
from bayplan.kubelet.pods.deadlines import seconds_left
from bayplan.kubelet.pods.pleg import PodEvent, PodEventType, PodLifecycleEvents
from bayplan.kubelet.pods.pod_garbage import PodGarbage
from bayplan.kubelet.pods.pod_resizes import PodResizes
from bayplan.kubelet.pods.pod_workers import PodWorkers, Termination, WorkState
from bayplan.kubelet.pods.status_manager import StatusManager
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.types import ContainerState, SandboxState
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 2.0
ORPHAN_GRACE_SECONDS = 1

Admit = Callable[[core_v1.Pod, list[core_v1.Pod]], Rejection | None]
"""A further check of a pod against those that the node has; None if it may run."""


@dataclass(frozen=True, slots=True)
class _Admission:
    """A pod is taken when these have ended, which make room. missing: the resource for which they do."""

    victims: list[core_v1.Pod]
    missing: str


class PodAllocation(Protocol):
    """What a pod gets of which the node has only so much: CPUs of its own, memory near to them, devices."""

    def admit(self, pod: core_v1.Pod, done: Callable[[Rejection | None], None]) -> None:
        """Allocate what a pod asks for. `done` is called with why it cannot have it, or None: at once, or later if a device plugin has to be asked."""

    def release(self, uid: str) -> None:
        """A pod is not to run here after all."""

    def offer(self, uid: str, offer: NodeOffer) -> NodeOffer:
        """What the node offers a pod that may have some of it already."""

    async def close(self) -> None:
        """Decide nothing more."""


class NodePods:
    """See the module. `add`, `update` and `delete` hear of pods in the API or in files; all may be called again with the same pod."""

    def __init__(
        self,
        workers: PodWorkers,
        statuses: StatusManager,
        lifecycle: PodLifecycleEvents,
        garbage: PodGarbage,
        events: ContainerEvents,
        offer: Callable[[], NodeOffer],
        read_node: Callable[[], Awaitable[core_v1.Node]],
        clock: Clock,
        resizes: PodResizes,
        checks: Iterable[Admit] = (),
        allocation: PodAllocation | None = None,
    ) -> None:
        """offer: what is known of the node. read_node: the node as the API has it now; raises ApiError, TransportError."""
        self._workers = workers
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._garbage = garbage
        self._events = events
        self._offer = offer
        self._clock = clock
        self._resizes = resizes
        self._checks = tuple(checks)
        self._allocation = allocation
        self._allocating: set[str] = set()
        """Pods whose device plugins have not answered yet."""
        self._read_node = read_node
        self._reading: dict[str, asyncio.Task[None]] = {}
        """Pods for which the node is read from the API, since it does not match them as far as is known."""
        self._nodes_read: dict[str, core_v1.Node] = {}
        """What was read, by the pod for which it was."""
        self._requests = Requests()
        self._pods: dict[str, core_v1.Pod] = {}
        self._mirrors: dict[tuple[str, str], core_v1.Pod] = {}
        """Mirror pods by namespace and name."""
        self._admitted: set[str] = set()
        self.on_preemption: Callable[[str], None] = lambda _: None
        """Called with the resource that is missing, such as cpu, for each pod that ends to make room for a critical one."""
        self.ready = False
        """Whether all pods of the API are known, so that what is not known is not wanted."""
        statuses.pod_in_api = self.in_api

    def get(self, uid: str) -> core_v1.Pod | None:
        """A pod of this node."""
        return self._pods.get(uid)

    def all(self) -> list[core_v1.Pod]:
        """All pods of this node, static ones included, mirror pods not."""
        return list(self._pods.values())

    def active(self) -> list[core_v1.Pod]:
        """Admitted pods that have not ended, with the resources that are allocated to them."""
        return [
            self._resizes.allocated(each)
            for uid, each in self._pods.items()
            if uid in self._admitted and self._is_active(each)
        ]

    def mirror_of(self, pod: core_v1.Pod) -> core_v1.Pod | None:
        """The mirror pod of a static pod."""
        return self._mirrors.get((pod.metadata.namespace, pod.metadata.name))

    def mirrors(self) -> list[core_v1.Pod]:
        """All mirror pods of this node."""
        return list(self._mirrors.values())

    def in_api(self, pod: core_v1.Pod) -> core_v1.Pod | None:
        """The pod of the API that shows a pod's status."""
        return self.mirror_of(pod) if is_static(pod) else self._pods.get(pod.metadata.uid)

    def add(self, pod: core_v1.Pod) -> None:
        """A pod was bound to this node, or found in a file."""
        if is_mirror(pod):
            self._mirrors[pod.metadata.namespace, pod.metadata.name] = pod
            self._touch_static(pod)
            return
        uid = pod.metadata.uid
        self._pods[uid] = pod
        ended = pod.status.phase in TERMINAL
        if ended or pod.metadata.deletion_timestamp is not None:
            self._workers.update(pod)
            return
        if self._allocation is None or uid in self._admitted:
            self._admit(pod, None)
        elif uid not in self._allocating:
            self._allocating.add(uid)
            self._allocation.admit(pod, lambda rejection: self._allocated(uid, rejection))

    def _allocated(self, uid: str, rejection: Rejection | None) -> None:
        """A pod has got what it asks for, or has not; meanwhile it may have changed, or gone."""
        self._allocating.discard(uid)
        pod = self._pods.get(uid)
        if pod is not None and pod.metadata.deletion_timestamp is None:
            self._admit(pod, rejection)

    def _admit(self, pod: core_v1.Pod, rejection: Rejection | None) -> None:
        uid = pod.metadata.uid
        admission = rejection or self._admission(pod)
        if isinstance(admission, Rejection) and admission.reason == NODE_AFFINITY and uid not in self._nodes_read:
            self._look_again(pod, admission)
            return
        self._nodes_read.pop(uid, None)
        if isinstance(admission, Rejection):
            self.reject(pod, admission)
            return
        for victim in admission.victims:
            self._preempt(victim, admission.missing)
        self._admitted.add(uid)
        self._resizes.admit(pod)
        self._retry_resizes()
        self._workers.update(pod, after=[each.metadata.uid for each in admission.victims])

    def _look_again(self, pod: core_v1.Pod, rejection: Rejection) -> None:
        """Judge a pod by the node as the API has it: labels may have come to it just before the pod (predicateAdmitHandler)."""
        uid = pod.metadata.uid
        if uid not in self._reading:
            self._reading[uid] = task = asyncio.get_running_loop().create_task(self._admit_by_api(uid, rejection))
            task.add_done_callback(lambda _: self._reading.pop(uid, None))

    async def _admit_by_api(self, uid: str, rejection: Rejection) -> None:
        found = None
        try:
            found = await self._read_node()
        except (ApiError, TransportError) as error:
            logger.warning("the node cannot be read: %s", error)
        pod = self._pods.get(uid)
        if pod is None:
            return
        if found is not None:
            self._nodes_read[uid] = found
            self.add(pod)
        elif pod.metadata.deletion_timestamp is None:
            self.reject(pod, rejection)

    async def close(self) -> None:
        """Look at nothing again; what is undecided stays so."""
        reading = list(self._reading.values())
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    def _retry_resizes(self) -> None:
        """Give pods the resources that they wait for, where there is room now."""
        waiting = {uid: each for uid, each in self._pods.items() if uid in self._admitted}
        for pod in self._resizes.retry(waiting, self.active):
            self._workers.update(pod)

    def update(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        """A pod has changed in the API."""
        uid = new.metadata.uid
        if old.metadata.uid != uid:
            self.delete(old)
            self.add(new)
            return
        if is_mirror(new):
            self._mirrors[new.metadata.namespace, new.metadata.name] = new
            self._touch_static(new)
            return
        self._pods[uid] = new
        deleted_now = old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None
        if uid in self._admitted and old.spec != new.spec:
            self._resizes.want(new)
            self._retry_resizes()
        if _needs_sync(old, new):
            if uid in self._admitted or deleted_now or self._workers.state(uid) is not None:
                self._workers.update(new)
        else:
            self._workers.renew(new)
        self._statuses.refresh(uid, new)

    def delete(self, pod: core_v1.Pod) -> None:
        """A pod is gone from the API, or from its file: what still runs of it ends."""
        if is_mirror(pod):
            self._mirrors.pop((pod.metadata.namespace, pod.metadata.name), None)
            self._touch_static(pod)
            return
        uid = pod.metadata.uid
        self._pods.pop(uid, None)
        self._admitted.discard(uid)
        self._nodes_read.pop(uid, None)
        if uid in self._allocating and self._allocation is not None:
            self._allocating.discard(uid)
            self._allocation.release(uid)
        if self._workers.state(uid) is not None:
            grace = pod.metadata.deletion_grace_period_seconds
            self._workers.kill(uid, pod, Termination(grace), deleted=True)

    def on_lifecycle(self, event: PodEvent) -> None:
        """Something has happened to a container."""
        if event.type is not PodEventType.REMOVED:
            self._workers.touch(event.pod_uid)

    async def run(self) -> None:
        """Clean up every two seconds, until cancelled."""
        while True:
            await self._clock.sleep(HOUSEKEEPING_SECONDS)
            if self.ready:
                try:
                    await self.clean_up()
                except RuntimeRequestError as error:
                    logger.warning("clean-up: %s", error)

    async def clean_up(self) -> None:
        """End what nobody wants, forget what has ended, and watch deadlines. Raises RuntimeRequestError."""
        self._workers.forget(self._pods)
        self._admitted &= self._pods.keys()
        self._statuses.forget_all_but(self._pods.keys() | self._workers.known().keys())
        known = self._workers.known()
        self._resizes.retain(self._pods.keys() | known.keys())
        self._retry_resizes()
        for uid, (sandboxes, containers) in self._lifecycle.pods().items():
            runs = any(each.state is ContainerState.RUNNING for each in containers) or any(
                each.state is SandboxState.READY for each in sandboxes
            )
            if uid not in known and uid not in self._pods and runs:
                logger.info("ending pod %s, of which only the runtime knows", uid)
                self._workers.kill(uid, None, Termination(ORPHAN_GRACE_SECONDS), deleted=True)
        self._watch_deadlines()
        wanted = {uid for uid in self._pods if known.get(uid) is not WorkState.TERMINATED}
        busy = {uid for uid, state in self._workers.known().items() if state is not WorkState.TERMINATED}
        await self._garbage.collect(keep=set(self._pods), wanted=wanted | busy)

    def _watch_deadlines(self) -> None:
        now = self._clock.now()
        for pod in self.active():
            status = self._statuses.get(pod.metadata.uid) or pod.status
            left = seconds_left(pod, status.start_time, now)
            if left is not None and left <= 0 and not self._workers.is_terminating(pod.metadata.uid):
                self._workers.touch(pod.metadata.uid)

    def reject(self, pod: core_v1.Pod, rejection: Rejection) -> None:
        """The node does not take a pod: it has failed."""
        self._admitted.discard(pod.metadata.uid)
        self._events.pod(pod, WARNING, rejection.reason, rejection.message)
        self._statuses.set(pod, rejected_status(pod, rejection))

    def _admission(self, pod: core_v1.Pod) -> Rejection | _Admission:
        """Why the node does not take a pod, or what is to be done first."""
        others = [each for each in self.active() if each.metadata.uid != pod.metadata.uid]
        pod = self._resizes.allocated(pod)
        for check in self._checks:
            rejection = check(pod, others)
            if rejection is not None:
                return rejection
        account = NodeAccount(self._requests)
        for other in others:
            account.add(other)
        offer = self._offer()
        read = self._nodes_read.get(pod.metadata.uid)
        if read is not None:
            offer = replace(offer, node=read)
        if self._allocation is not None:
            offer = self._allocation.offer(pod.metadata.uid, offer)
        found = rejections(pod, account, offer)
        lasting, victims = make_room(pod, others, found, self._requests)
        return lasting[0] if lasting else _Admission(victims, found[0].resource if found else "")

    def _preempt(self, pod: core_v1.Pod, resource: str) -> None:
        """End a pod to make room for a critical one, which lacks a resource."""
        self._events.pod(pod, WARNING, PREEMPTING, PREEMPTED)

        def failed(status: core_v1.PodStatus) -> core_v1.PodStatus:
            return disrupted(pod, status, PREEMPTING, PREEMPTED, DISRUPTION_MESSAGE)

        self._workers.kill(pod.metadata.uid, pod, Termination(set_status=failed, evicted=True))
        self.on_preemption(resource)

    def _is_active(self, pod: core_v1.Pod) -> bool:
        uid = pod.metadata.uid
        if self._workers.state(uid) is WorkState.TERMINATED:
            return False
        status = self._statuses.get(uid) or pod.status
        if status.phase in TERMINAL or pod.status.phase in TERMINAL:
            return self._workers.may_have_running_containers(uid)
        return True

    def _touch_static(self, mirror: core_v1.Pod) -> None:
        """Look at the static pod again whose mirror pod has changed."""
        for uid, pod in self._pods.items():
            if is_static(pod) and (pod.metadata.namespace, pod.metadata.name) == (
                mirror.metadata.namespace,
                mirror.metadata.name,
            ):
                self._workers.touch(uid)
                self._statuses.refresh(uid, mirror)


def _needs_sync(old: core_v1.Pod, new: core_v1.Pod) -> bool:
    """Whether a change is more than the echo of a status that this kubelet has written."""
    before, after = old.metadata, new.metadata
    if old.spec != new.spec or before.deletion_timestamp != after.deletion_timestamp:
        return True
    if before.deletion_grace_period_seconds != after.deletion_grace_period_seconds:
        return True
    if before.labels != after.labels or before.annotations != after.annotations:
        return True
    return _others_conditions(old) != _others_conditions(new)


def _others_conditions(pod: core_v1.Pod) -> list[tuple[str, str]]:
    return [(each.type, each.status) for each in pod.status.conditions if each.type not in OWN_CONDITIONS]
