"""The scheduling queue: which pod is next, which wait, and for what. Pure data, driven by the clock that is passed in.

Four places for a pod:

- *active*: to be scheduled, in the order of the profile's queue sort (priority, then arrival);
- *back-off*: was tried and may be tried again when its back-off is over (1 s doubling to 10 s), or as soon as no pod is
  active, as in kube-scheduler since 1.33 (KEP-5142), unless an error had sent it there. It sits its back-off out as
  well if an event brought it of which nobody knows whether it helps, or a pod of its shape has been rejected since;
  kube-scheduler would try it in vain;
- *unschedulable*: was rejected; waits for an event that its rejecting plugins say may help, or five minutes;
- *gated*: a pre-enqueue plugin keeps it out; waits for a change of the pod or a hinted event.

Who waits for which event is in `waiting`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bayplan.scheduler.framework.events import ClusterEvent, EventHint
from bayplan.scheduler.queueing.active_pods import ActivePods, Groups
from bayplan.scheduler.queueing.in_flight import InFlight
from bayplan.scheduler.queueing.queued_pod import ACTIVE, BACKOFF, GATED, IN_FLIGHT, UNSCHEDULABLE, Clock, QueuedPod
from bayplan.scheduler.queueing.waiting_pods import Partition, Waiting
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape

INITIAL_BACKOFF: Final = 1.0
MAX_BACKOFF: Final = 10.0
FLUSH_AFTER: Final = 300.0
"""Seconds after which an unschedulable pod is tried again, whatever happened."""

_SHORTEST: Final = 0.001
"""Seconds between two looks at a gate, at least: clocks are not exact."""
_MOST_HOPELESS: Final = 4096
"""Shapes remembered as hopeless; forgetting one costs an attempt."""

ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
"""The event, in metrics, by which a pod comes back to the queue."""


Incoming = Callable[[str, str], None]
"""(place, event)"""
Gate = Callable[[PodInfo], str | None]
"""The name of the plugin that keeps a pod out; None if it may enter."""


class SchedulingQueue:
    """See the module. `hints`: plugin -> the events that may help what it rejected; without hints any may."""

    def __init__(
        self,
        clock: Clock,
        sort_key: Callable[[PodInfo, float], tuple[float, ...]],
        hints: Mapping[str, Iterable[EventHint]],
        gate: Gate,
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
        *,
        groups: Groups | None = None,
        partitions: Mapping[str, Partition] | None = None,
        asked_again: Callable[[PodInfo, str], float | None] = lambda pod, plugin: None,
    ) -> None:
        """groups: how active pods are grouped, if they are. partitions: see `Waiting`.

        asked_again: seconds until a gate (by its plugin) may open by itself; None if only events open it.
        """
        self.incoming: Incoming | None = None
        """Told when a pod comes to a place because of an event; None if nobody wants to know."""
        self._clock = clock
        self._sort_key = sort_key
        self.waiting = Waiting(clock, hints, partitions)
        self._gate = gate
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._active = ActivePods(groups)
        self._is_grouped = groups is not None
        self._asked_again = asked_again
        self._gated: list[tuple[float, int, str]] = []
        """Gated pods that are looked at again at a certain time."""
        self._backoff: list[tuple[float, int, str]] = []
        self._early = ActivePods(groups)
        """Pods in back-off that may be tried as soon as no pod is active: by the second in which it ends, then in order."""
        self._hopeless: set[PodShape] = set()
        """Shapes of which a pod was rejected since the last event that might help them."""
        self._flush: list[tuple[float, int, str]] = []
        self.in_flight = InFlight()
        self._counts = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, GATED: 0, IN_FLIGHT: 0}
        self._stamps = itertools.count(1)

    def rejected_by(self, plugin: str, scheduler_name: str) -> int:
        """How many unschedulable pods of a scheduler a plugin has rejected."""
        return sum(
            (queued.pod.pod.spec.scheduler_name or scheduler_name) == scheduler_name
            for queued in self.waiting.rejected_by(plugin)
        )

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def get(self, key: str) -> QueuedPod | None:
        """A queued pod by `namespace/name`, pods being scheduled included."""
        return self._pods.get(key)

    def pods(self) -> Iterable[QueuedPod]:
        """All queued pods, pods being scheduled included, the first that came first."""
        return self._pods.values()

    def sizes(self) -> dict[str, int]:
        """Number of pods per place: active, backoff, unschedulable, gated, in-flight."""
        self._advance()
        return dict(self._counts)

    def next_wake(self) -> float | None:
        """When (monotonic seconds) the next back-off, flush or gate is due; None if nothing is."""
        times = [heap[0][0] for heap in (self._backoff, self._flush, self._gated) if heap]
        return min(times) if times else None

    # Pods come and go

    def add(self, pod: PodInfo) -> None:
        """Queue a new pod; one that is queued already is updated."""
        if pod.key in self._pods:
            self.update(pod)
            return
        now = self._clock.monotonic()
        queued = QueuedPod(pod, self._sort_key(pod, now), now)
        self._pods[pod.key] = queued
        self._enter(queued, now)
        self._tell(queued, "PodAdd")

    def update(self, pod: PodInfo, events: Iterable[ClusterEvent] = ()) -> None:
        """Take over a pod's new state. `events` say what of it changed; a waiting pod moves if a hint says it may help.

        Without events any change is taken to matter.
        """
        queued = self._pods.get(pod.key)
        if queued is None:
            self.add(pod)
            return
        old, queued.pod = queued.pod, pod
        now = self._clock.monotonic()
        queued.sort_key = self._sort_key(pod, queued.first_seen)
        changes = tuple(events)
        if queued.place == GATED:
            self._leave(queued)
            self._enter(queued, now)
        elif queued.place == ACTIVE:
            self._leave(queued)
            self._put_active(queued, now)
        elif queued.place == IN_FLIGHT:
            for event in changes if pod.key in self.in_flight else ():
                self.in_flight.note(event, old.pod, pod.pod, only=pod.key)
        elif queued.place == UNSCHEDULABLE and (
            not changes or any(self.waiting.helps(queued, event, old.pod, pod.pod) for event in changes)
        ):
            self._help(queued, now, changes[0].label if changes else "PodUpdate")

    def refresh(self, pod: PodInfo) -> None:
        """Take over a pod's new state, of which nothing that matters for its place in the queue is new: a status, say."""
        queued = self._pods.get(pod.key)
        if queued is not None:
            queued.pod = pod

    def remove(self, key: str) -> None:
        """Forget a pod: it was deleted or is bound."""
        queued = self._pods.pop(key, None)
        if queued is None:
            return
        self._leave(queued)

    def pop(self) -> QueuedPod | None:
        """The next pod to schedule, None if none is ready. It is in flight until `done` or `reject`."""
        self._advance()
        while self._early.precedes(self._active):
            if (early := self._next_early()) is not None:
                return early
        while (entry := self._active.pop()) is not None:
            stamp, key = entry
            queued = self._pods.get(key)
            if queued is None or queued.stamp != stamp or queued.place != ACTIVE:
                continue
            return self._take(queued)
        return self._pop_early()

    def _pop_early(self) -> QueuedPod | None:
        """A pod whose back-off is not over, since there is nothing else to do."""
        while self._early:
            if (queued := self._next_early()) is not None:
                return queued
        return None

    def _next_early(self) -> QueuedPod | None:
        """The next pod in back-off that may be tried; None if it may not be tried now."""
        stamp, key = self._early.pop() or (0, "")
        queued = self._pods.get(key)
        if queued is None or queued.stamp != stamp or queued.place != BACKOFF:
            return None
        if queued.pod.shape in self._hopeless:
            if self._is_grouped:  # the next event helps it as it helps those of other groups
                self._leave(queued)
                self._put_unschedulable(queued, self._clock.monotonic())
            return None
        if self._gate(queued.pod) is None:
            return self._take(queued)
        self._leave(queued)
        self._enter(queued, self._clock.monotonic())
        return None

    def release(self, key: str, *, again: bool = False) -> None:
        """All has been done to make room for a held pod; what has happened meanwhile counts now.

        `again`: not all could be done, so the pod is tried once more after its back-off even if nothing has happened.
        """
        queued = self._pods.get(key)
        if queued is None or not queued.held:
            return
        queued.held = False
        if queued.helped:
            self._help(queued, self._clock.monotonic(), queued.helped)
        elif again:
            self._leave(queued)
            self._requeue(queued, self._clock.monotonic(), early=False)
            self._tell(queued, ATTEMPT_FAILED)

    def take(self, key: str) -> QueuedPod | None:
        """A particular pod, wherever it waits; None if it is not here, gated, held, or in flight already."""
        queued = self._pods.get(key)
        if queued is None or queued.held or queued.place in (GATED, IN_FLIGHT):
            return None
        return self._take(queued)

    def _take(self, queued: QueuedPod) -> QueuedPod:
        self._leave(queued)
        self._move(queued, IN_FLIGHT, self._clock.monotonic())
        queued.attempts += 1
        self.in_flight.take(queued.pod.key)
        return queued

    def placed(self, key: str) -> None:
        """The pod in flight has its node for good: events in the meantime do not matter any more."""
        self.in_flight.end(key)

    def done(self, key: str) -> None:
        """The pod in flight found its place."""
        self.remove(key)

    def reject(self, key: str, plugins: Iterable[str], *, error: bool = False, held: bool = False) -> None:
        """The pod in flight found no place: `plugins` rejected it. After an `error` it is just tried again later.

        `held`: room is being made for it, so it is not tried again before `release`, whatever happens.
        """
        queued = self._pods.get(key)
        if queued is None or queued.place != IN_FLIGHT:
            return
        now = self._clock.monotonic()
        missed = self.in_flight.missed(key)
        queued.flushed = False
        queued.rejected_by = tuple(sorted(set(plugins)))
        queued.ready_at = now + self.backoff(queued.attempts)
        self._leave(queued)
        helped = any(self.waiting.helps(queued, event, old, new) for event, old, new in missed)
        if held:
            self._put_unschedulable(queued, now)
            queued.held, queued.helped = True, ATTEMPT_FAILED if helped else ""
        elif error or not queued.rejected_by or helped:
            self._requeue(queued, now, early=not error)
        else:
            if len(self._hopeless) >= _MOST_HOPELESS:
                self._hopeless.clear()
            self._hopeless.add(queued.pod.shape)
            self._put_unschedulable(queued, now)
        self._tell(queued, ATTEMPT_FAILED)

    def _tell(self, queued: QueuedPod, event: str) -> None:
        if self.incoming is not None:
            self.incoming(queued.place, event)

    def activate(self, keys: Iterable[str]) -> None:
        """Make waiting pods active at once, whatever rejected them; gated pods stay."""
        now = self._clock.monotonic()
        for key in keys:
            queued = self._pods.get(key)
            if queued is not None and queued.place in (BACKOFF, UNSCHEDULABLE):
                self._leave(queued)
                self._enter(queued, now)
                self._tell(queued, "ForceActivate")

    # Events

    def move(self, event: ClusterEvent, old: Any, new: Any, *, without: str = "") -> int:
        """An event happened: move the waiting pods that it may help, all but `without`. Returns how many were moved."""
        self.in_flight.note(event, old, new)
        now = self._clock.monotonic()
        moved = 0
        asked: set[str] = {without}
        for queued, is_known_to_help in self.waiting.helped(event, old, new):
            if queued.pod.key not in asked:
                asked.add(queued.pod.key)
                moved += self._help(queued, now, event.label, early=is_known_to_help)
        return moved

    def _help(self, queued: QueuedPod, now: float, event: str, *, early: bool = True) -> bool:
        """An event may help a waiting pod: let it be tried again. False if that has to wait, since the pod is held."""
        self._hopeless.discard(queued.pod.shape)
        if queued.held:
            queued.helped = queued.helped or event
            self.waiting.discard(queued)  # no further event says more
            return False
        self._leave(queued)
        self._requeue(queued, now, early=early)
        self._tell(queued, event)
        return True

    # Places

    def backoff(self, attempts: int) -> float:
        """Seconds to wait after so many attempts."""
        if attempts <= 0:
            return 0.0
        return float(min(self._initial_backoff * 2.0 ** min(attempts - 1, 60), self._max_backoff))

    def _enter(self, queued: QueuedPod, now: float) -> None:
        """Into the active queue, unless a plugin keeps the pod out."""
        plugin = self._gate(queued.pod)
        if plugin is None:
            self._put_active(queued, now)
            return
        self._move(queued, GATED, now)
        queued.rejected_by = (plugin,)
        self.waiting.add(queued)
        seconds = self._asked_again(queued.pod, plugin)
        if seconds is not None:
            heapq.heappush(self._gated, (now + max(seconds, _SHORTEST), queued.stamp, queued.pod.key))

    def _requeue(self, queued: QueuedPod, now: float, *, early: bool = True) -> None:
        """To back-off if that is not over, else on to the active queue. `early`: it need not sit out its back-off."""
        if queued.ready_at > now:
            self._move(queued, BACKOFF, now)
            if early:
                self._early.push((int(queued.ready_at), *queued.sort_key), queued.stamp, queued.pod)
            heapq.heappush(self._backoff, (queued.ready_at, queued.stamp, queued.pod.key))
        else:
            self._enter(queued, now)

    def _put_active(self, queued: QueuedPod, now: float) -> None:
        self._move(queued, ACTIVE, now)
        queued.rejected_by = ()
        self._active.push(queued.sort_key, queued.stamp, queued.pod)

    def _put_unschedulable(self, queued: QueuedPod, now: float) -> None:
        self._move(queued, UNSCHEDULABLE, now)
        self.waiting.add(queued)
        heapq.heappush(self._flush, (now + FLUSH_AFTER, queued.stamp, queued.pod.key))

    def _move(self, queued: QueuedPod, place: str, now: float) -> None:
        queued.place = place
        queued.since = now
        queued.stamp = next(self._stamps)
        queued.held, queued.helped = False, ""
        self._counts[place] += 1

    def _leave(self, queued: QueuedPod) -> None:
        """Out of the present place; heap entries go stale by their stamp."""
        self._counts[queued.place] -= 1
        if queued.place in (UNSCHEDULABLE, GATED):
            self.waiting.discard(queued)
        elif queued.place == IN_FLIGHT:
            self.in_flight.end(queued.pod.key)
        queued.stamp = 0

    def _advance(self) -> None:
        """Let back-offs and waits that are over end."""
        now = self._clock.monotonic()
        due = (
            (self._backoff, BACKOFF, "BackoffComplete"),
            (self._flush, UNSCHEDULABLE, "UnschedulableTimeout"),
            (self._gated, GATED, "GateTimeout"),
        )
        for heap, place, event in due:
            while heap and heap[0][0] <= now:
                _, stamp, key = heapq.heappop(heap)
                queued = self._pods.get(key)
                if queued is None or queued.stamp != stamp or queued.place != place:
                    continue
                self._leave(queued)
                queued.flushed = place == UNSCHEDULABLE
                self._enter(queued, now)
                self._tell(queued, event)
