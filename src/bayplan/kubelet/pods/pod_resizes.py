"""Which resources the pods of a node are allocated, and how their resizes stand: conditions and events (pkg/kubelet/allocation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from bayplan.api.defaults.pods import qos_class
from bayplan.api.types import core_v1
from bayplan.kubelet.allocations import AllocationRecords
from bayplan.kubelet.core.admission import NodeAccount, NodeOffer, Requests
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.core.resize import Allocation, allocation_of, is_in_progress, with_allocation
from bayplan.kubelet.core.resize_requests import (
    DEFERRED,
    ERROR,
    IN_PROGRESS,
    INFEASIBLE,
    PENDING,
    Refusal,
    fixed_refusal,
    raises_requests,
    refusal,
    resize_condition,
    resize_text,
)
from bayplan.kubelet.pods.container_events import NORMAL, WARNING, ContainerEvents
from bayplan.kubelet.runtime.types import ContainerState
from bayplan.support.clock import Clock


@dataclass(slots=True)
class _Conditions:
    pending: core_v1.PodCondition | None = None
    in_progress: core_v1.PodCondition | None = None


class PodResizes:
    """See the module. Methods that take a pod take it as the API shows it, unless they say otherwise."""

    def __init__(
        self,
        allocated: AllocationRecords,
        actuated: AllocationRecords,
        events: ContainerEvents,
        offer: Callable[[], NodeOffer],
        clock: Clock,
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        """fixed: resources of which Guaranteed pods keep what they got when they were admitted -> the policy by which they do."""
        self._allocated = allocated
        self._actuated = actuated
        self._events = events
        self._offer = offer
        self._clock = clock
        self._fixed = fixed or {}
        self._requests = Requests()
        self._conditions: dict[str, _Conditions] = {}
        self._pending: set[str] = set()

    def load(self) -> None:
        """Read what an earlier kubelet has recorded."""
        self._allocated.load()
        self._actuated.load()

    def allocated(self, pod: core_v1.Pod) -> core_v1.Pod:
        """A pod with the resources that it may use now."""
        return with_allocation(pod, self._allocated.get(pod.metadata.uid))

    def admit(self, pod: core_v1.Pod) -> None:
        """The node takes a pod: what is recorded stays allocated, or what it asks for."""
        uid = pod.metadata.uid
        if uid not in self._conditions:
            known = {each.type: each for each in pod.status.conditions}
            self._conditions[uid] = _Conditions(known.get(PENDING), known.get(IN_PROGRESS))
        self._allocated.set(uid, allocation_of(self.allocated(pod)))
        self.want(pod)

    def want(self, pod: core_v1.Pod) -> None:
        """A pod may ask for other resources than it has been allocated: `retry` decides."""
        uid = pod.metadata.uid
        if self.allocated(pod) is not pod:
            self._pending.add(uid)
            return
        self._pending.discard(uid)
        self._of(uid).pending = None

    def retry(self, pods: Mapping[str, core_v1.Pod], active: Callable[[], Iterable[core_v1.Pod]]) -> list[core_v1.Pod]:
        """Decide on pending resizes; the pods of which something changed. active: the pods that run, with what is allocated to them."""
        if not self._pending:
            return []
        running = {pod.metadata.uid: pod for pod in active()}
        self._pending &= pods.keys()
        changed = []
        for pod in sorted((pods[uid] for uid in self._pending), key=self._order):
            others = [each for uid, each in running.items() if uid != pod.metadata.uid]
            if self._decide(pod, others):
                changed.append(pod)
            if pod.metadata.uid in running:
                running[pod.metadata.uid] = self.allocated(pod)
        return changed

    def _order(self, pod: core_v1.Pod) -> tuple[bool, int, bool, str, str]:
        """Those first that ask for no more, then by priority and class of service, then those that wait longest."""
        pending = self._of(pod.metadata.uid).pending
        since = pending.last_transition_time if pending is not None else None
        return (
            raises_requests(pod, self.allocated(pod)),
            -(pod.spec.priority or 0),
            qos_class(pod.spec) != "Guaranteed",
            since or "~",
            pod.metadata.uid,
        )

    def _decide(self, pod: core_v1.Pod, others: list[core_v1.Pod]) -> bool:
        """Whether something changed about a pod."""
        uid, generation = pod.metadata.uid, pod.metadata.generation
        conditions = self._of(uid)
        account = NodeAccount(self._requests)
        for other in others:
            account.add(other)
        refused = fixed_refusal(pod, self.allocated(pod), self._fixed) or refusal(pod, account, self._offer())
        if refused is not None:
            self._pending = self._pending - {uid} if refused.reason == INFEASIBLE else self._pending
            return self._refuse(pod, refused)
        self._pending.discard(uid)
        self._allocated.set(uid, allocation_of(pod))
        conditions.pending = None
        conditions.in_progress = self._condition(IN_PROGRESS, "", "", generation)
        self._events.pod(pod, NORMAL, "ResizeStarted", resize_text("Pod resize started", pod, generation))
        return True

    def _refuse(self, pod: core_v1.Pod, refused: Refusal) -> bool:
        conditions, generation = self._of(pod.metadata.uid), pod.metadata.generation
        before = conditions.pending
        after = self._condition(PENDING, refused.reason, refused.message, generation)
        if before is not None:
            after.last_transition_time = before.last_transition_time
        conditions.pending = after
        if before is None or (before.reason, before.observed_generation) != (after.reason, generation):
            name = "ResizeDeferred" if refused.reason == DEFERRED else "ResizeInfeasible"
            text = resize_text(f"Pod resize {refused.reason}", pod, generation, refused.message)
            self._events.pod(pod, WARNING, name, text)
        return before != after

    def observe(self, pod: core_v1.Pod, state: PodState) -> None:
        """Look how far a resize is. pod: with what is allocated to it."""
        conditions = self._of(pod.metadata.uid)
        running = [each.container.name for each in state.active if each.container.state is ContainerState.RUNNING]
        actuated = self._actuated.get(pod.metadata.uid) or Allocation()
        if running and is_in_progress(pod, running, actuated):
            if conditions.in_progress is None:
                conditions.in_progress = self._condition(IN_PROGRESS, "", "", pod.metadata.generation)
        elif conditions.in_progress is not None:
            generation = conditions.in_progress.observed_generation
            conditions.in_progress = None
            self._events.pod(pod, NORMAL, "ResizeCompleted", resize_text("Pod resize completed", pod, generation))

    def fail(self, pod: core_v1.Pod, message: str) -> None:
        """A resize could not be carried out. pod: with what is allocated to it."""
        conditions = self._of(pod.metadata.uid)
        before = conditions.in_progress
        generation = before.observed_generation if before is not None else pod.metadata.generation
        after = self._condition(IN_PROGRESS, ERROR, message, generation)
        if before is not None:
            after.last_transition_time = before.last_transition_time
        conditions.in_progress = after
        if before != after:
            text = resize_text("Pod resize error", pod, generation, message)
            self._events.pod(pod, WARNING, "ResizeError", text)

    def conditions(self, uid: str, *, terminal: bool) -> tuple[core_v1.PodCondition, ...]:
        """The conditions to show of a pod; none any more of one that has ended."""
        if terminal:
            self._conditions.pop(uid, None)
            self._pending.discard(uid)
        known = self._conditions.get(uid) or _Conditions()
        return tuple(msgspec.structs.replace(each) for each in (known.pending, known.in_progress) if each is not None)

    async def close(self) -> None:
        """Return when the records are written."""
        await self._allocated.close()
        await self._actuated.close()

    def retain(self, uids: set[str]) -> None:
        """Forget all other pods."""
        self._allocated.retain(uids)
        self._actuated.retain(uids)
        for uid in self._conditions.keys() - uids:
            del self._conditions[uid]

    def _of(self, uid: str) -> _Conditions:
        return self._conditions.setdefault(uid, _Conditions())

    def _condition(self, kind: str, reason: str, message: str, generation: int) -> core_v1.PodCondition:
        return resize_condition(kind, reason, message, generation, self._clock.now())
