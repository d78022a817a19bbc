"""The scheduler without its surroundings: events in, decisions out.

The service around it feeds `handle` with what informers see, calls `schedule_one` while there are pods, carries out the
decisions (binds, evicts, writes conditions) and reports back with `bound` or `binding_failed`. No I/O, no waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bayplan.scheduler.cache import Cache
from bayplan.scheduler.changes import node_changes, object_change, pod_changes
from bayplan.scheduler.cycle import Cycle, RandomChoice, RandomSource
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.framework.events import Action, ClusterEvent, EventHint
from bayplan.scheduler.nominator import Nominator
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.queue import Clock, QueuedPod, SchedulingQueue
from bayplan.scheduler.settings import DEFAULT_SCHEDULER_NAME, SchedulerSettings
from bayplan.scheduler.snapshot.catalog import KINDS, object_key
from bayplan.scheduler.snapshot.pods import PodInfo, is_ended, pod_key
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, Pod

DECISIONS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scheduling attempt: the decision, and the pod as it was queued (attempts, first seen).

    If `decision.scheduled`, the pod is assumed on `decision.node`, and the service owes a `bound` or
    `binding_failed`. If `decision.victims`, the service has to evict them; the pod is nominated already and waits in
    the queue.
    """

    decision: Decision
    queued: QueuedPod
    cleared: tuple[PodInfo, ...] = ()
    """Pods that lost their nomination; the service clears `status.nominatedNodeName`."""


class SchedulerCore:
    """Snapshot, queue and profiles of one scheduler. Not thread-safe; meant for one event loop."""

    def __init__(self, settings: SchedulerSettings, clock: Clock, randomness: RandomSource) -> None:
        self.settings = settings
        self.snapshot = Snapshot()
        self.cache = Cache(self.snapshot)
        self.nominator = Nominator()
        choice = RandomChoice(randomness)
        self.cycles = {
            profile.scheduler_name: Cycle(Profile(profile, self.snapshot), self.nominator, choice)
            for profile in settings.profiles
        }
        self.decisions: deque[Decision] = deque(maxlen=DECISIONS_KEPT)
        first = next(iter(self.cycles.values())).profile
        self.queue = SchedulingQueue(
            clock,
            first.queue_sort[0].sort_key,
            self._hints(),
            self._gated_by,
            settings.pod_initial_backoff_seconds,
            settings.pod_max_backoff_seconds,
        )

    def _hints(self) -> dict[str, tuple[EventHint, ...]]:
        return {
            name: plugin.events() for cycle in self.cycles.values() for name, plugin in cycle.profile.plugins.items()
        }

    def _gated_by(self, pod: PodInfo) -> str | None:
        cycle = self._cycle(pod)
        gate = cycle.profile.gate(pod) if cycle is not None else None
        return gate[0] if gate is not None else None

    def _cycle(self, pod: PodInfo) -> Cycle | None:
        return self.cycles.get(pod.pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME)

    # Events

    def handle(self, kind: str, old: Any, new: Any) -> None:
        """An object was added (`old` None), changed or deleted (`new` None). Kinds without bearing are ignored."""
        if kind == "Node":
            self._handle_node(old, new)
        elif kind == "Pod":
            self._handle_pod(old, new)
        elif kind in KINDS:
            if new is not None:
                self.snapshot.put_object(kind, new)
            else:
                self.snapshot.remove_object(kind, object_key(old))
            self.queue.move(object_change(kind, old, new), old, new)

    def _handle_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self.snapshot.remove_node(old.metadata.name)
                self.queue.move(ClusterEvent("Node", Action.DELETE), old, None)
            return
        self.snapshot.put_node(new)
        events = [ClusterEvent("Node", Action.ADD)] if old is None else node_changes(old, new)
        for event in events:
            self.queue.move(event, old, new)

    def _handle_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._pod_gone(old)
        elif is_ended(new):
            self._pod_gone(new)
        elif new.spec.node_name:
            self._pod_on_node(old, new)
        else:
            self._pod_pending(old, new)

    def _pod_on_node(self, old: Pod | None, new: Pod) -> None:
        key = pod_key(new)
        self.nominator.remove(key)
        self.queue.remove(key)
        self.cache.put_pod(new)
        if old is None or not old.spec.node_name:
            self.queue.move(ClusterEvent("Pod", Action.ADD), None, new)
            return
        for event in pod_changes(old, new):
            self.queue.move(event, old, new)

    def _pod_pending(self, old: Pod | None, new: Pod) -> None:
        key = pod_key(new)
        if self.cache.is_assumed(key):
            return
        info = self.snapshot.pod_info(new, pending=True)
        if self._cycle(info) is None:
            return
        if new.status.nominated_node_name and self._gated_by(info) is None:
            self.nominator.add(info, new.status.nominated_node_name)
        if old is None or key not in self.queue:
            self.queue.add(info)
            return
        changes = pod_changes(old, new)
        if changes or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp:
            self.queue.update(info, changes)

    def _pod_gone(self, pod: Pod) -> None:
        key = pod_key(pod)
        self.nominator.remove(key)
        self.queue.remove(key)
        self.cache.remove_pod(pod)
        self.queue.move(ClusterEvent("Pod", Action.DELETE), pod, None)

    # Scheduling

    def schedule_one(self) -> Outcome | None:
        """Decide about the next pod; None if no pod is ready."""
        queued = self.queue.pop()
        if queued is None:
            return None
        pod = queued.pod
        cycle = self._cycle(pod)
        if cycle is None:
            name = pod.pod.spec.scheduler_name
            raise LookupError(f"pod {pod.key} is queued, but no profile has schedulerName {name!r}")
        decision = cycle.decide(pod)
        self.decisions.append(decision)
        if decision.scheduled and decision.node is not None:
            self.nominator.remove(pod.key)
            self.cache.assume(pod, decision.node)
            return Outcome(decision, queued)
        if decision.skipped:
            self.queue.done(pod.key)
            return Outcome(decision, queued)
        return Outcome(decision, queued, self._unplaced(pod, decision))

    def _unplaced(self, pod: PodInfo, decision: Decision) -> tuple[PodInfo, ...]:
        """Put the pod back, with its nomination if preemption makes room."""
        outcome = decision.post_filter
        cleared: tuple[PodInfo, ...] = ()
        if outcome is not None and outcome.nominated is not None:
            cleared = outcome.clears
            for other in cleared:
                self.nominator.remove(other.key)
            self.nominator.add(pod, decision.nominated_node)
        elif outcome is not None and outcome.withdraws:
            self.nominator.remove(pod.key)
        self.queue.reject(pod.key, self._rejectors(decision), error=bool(decision.error))
        return cleared

    def _rejectors(self, decision: Decision) -> Iterable[str]:
        if decision.node_count == 0:
            return ("NodeName",)
        return decision.unschedulable_plugins

    def bound(self, key: str) -> None:
        """The binding was written. The pod stays assumed until its event comes."""
        self.queue.done(key)

    def binding_failed(self, key: str) -> None:
        """The binding was not written: the pod's place is free again, and the pod is tried again after back-off."""
        info = self.snapshot.pods.get(key)
        self.cache.forget(key)
        self.queue.reject(key, (), error=True)
        if info is not None:
            self.queue.move(ClusterEvent("Pod", Action.DELETE), info.pod, None)

    def explain(self, pod: Pod) -> Decision:
        """What would happen to a pod now, with all scores; nothing is changed. LookupError if no profile takes it."""
        info = self.snapshot.pod_info(pod, pending=True)
        cycle = self._cycle(info)
        if cycle is None:
            raise LookupError(f"no profile has schedulerName {pod.spec.scheduler_name!r}")
        return cycle.decide(info, explain=True)
