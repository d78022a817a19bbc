"""Making room: victims are told why, deleted, and waited for until they are seen to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bayplan.api.types import core_v1
from bayplan.scheduler.framework.waiting import WaitingPods
from bayplan.scheduler.reporting import Preemptor, Reporter
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.support.clock import Clock

_SEEN_WITHIN_SECONDS: Final = 5.0
"""How long the news that a victim goes may take."""


class Evicted(NamedTuple):
    """How it went."""

    all_gone: bool
    """False if the server would not have all of it."""
    seconds: float
    """How long it took."""


class Evictions:
    """Those of one scheduler. `seen`: a pod (`namespace/name`) as the API shows it; `handle` is told what it shows."""

    def __init__(
        self, reporter: Reporter, clock: Clock, seen: Callable[[str], core_v1.Pod | None], waiting: WaitingPods
    ) -> None:
        self._reporter = reporter
        self._clock = clock
        self._seen = seen
        self._waiting = waiting
        self._expected: dict[str, list[_Departure]] = {}
        """Victim -> who waits until it goes."""
        self._running: set[asyncio.Task[Evicted]] = set()

    def begin(self, victims: Sequence[str], preemptor: Preemptor, node: str) -> asyncio.Task[Evicted]:
        """Evict pods (`namespace/name`) for another, or a group, all at the same time."""
        task = asyncio.create_task(self._evict(victims, preemptor, node))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def close(self) -> None:
        """Give up what is under way."""
        for task in self._running:
            task.cancel()

    async def wait_until_leaving(self, victims: Sequence[str]) -> None:
        """Wait until this scheduler has been told that evicted pods leave: before, the pod would find that it has to make room once more."""
        staying = {victim for victim in victims if self._stays(victim)}
        if staying:
            await self._departed(_Departure(staying))

    async def _evict(self, victims: Sequence[str], preemptor: Preemptor, node: str) -> Evicted:
        begun = self._clock.monotonic()
        present = [victim for victim in map(self._seen, victims) if victim is not None]
        going = [victim for victim in present if not self._is_refused(victim)]
        left = {victim.metadata.uid for victim in await self._reporter.evict(going, preemptor)}
        for victim in present:
            if victim.metadata.uid not in left:
                self._reporter.preempted(victim, preemptor, node)
        return Evicted(not left, self._clock.monotonic() - begun)

    def _is_refused(self, victim: core_v1.Pod) -> bool:
        """A victim that still waits to be bound is not deleted, but refused its node."""
        waiting = self._waiting.get(victim.metadata.uid)
        if waiting is None:
            return False
        waiting.reject("DefaultPreemption", "preempted")
        return True

    async def _departed(self, departure: _Departure) -> None:
        victims = tuple(departure.staying)
        for victim in victims:
            self._expected.setdefault(victim, []).append(departure)
        timer = self._clock.call_later(_SEEN_WITHIN_SECONDS, departure.over.set)
        try:
            await departure.over.wait()
        finally:
            timer.cancel()
            for victim in victims:
                waits = self._expected[victim]
                waits.remove(departure)
                if not waits:
                    del self._expected[victim]

    def handle(self, old: core_v1.Pod | None, new: core_v1.Pod | None) -> None:
        """A pod was added (`old` None), changed or deleted (`new` None)."""
        pod = new if new is not None else old
        if not self._expected or pod is None:
            return
        key = pod_key(pod)
        if key in self._expected and not self._stays(key):
            for departure in self._expected[key]:
                departure.gone(key)

    def _stays(self, key: str) -> bool:
        """Whether the news that a victim goes are still to come. One without time to end is about to be gone for good."""
        victim = self._seen(key)
        if victim is None or not victim.spec.node_name:
            return False
        return victim.metadata.deletion_timestamp is None or not victim.metadata.deletion_grace_period_seconds


class _Departure:
    """The victims of one pod that are not seen to go yet."""

    def __init__(self, staying: set[str]) -> None:
        self.staying = staying
        self.over = asyncio.Event()

    def gone(self, victim: str) -> None:
        """One of them goes."""
        self.staying.discard(victim)
        if not self.staying:
            self.over.set()
