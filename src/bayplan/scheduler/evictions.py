"""Making room: victims are told why, deleted, and waited for until they are seen to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bayplan.api.types import core_v1
from bayplan.scheduler.framework.waiting import WaitingPods
from bayplan.scheduler.reporting import Reporter
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.support.clock import Clock

_SEEN_WITHIN_SECONDS: Final = 5.0
"""How long the news that a victim goes may take."""


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
        self._running: set[asyncio.Task[bool]] = set()

    def begin(self, victims: Sequence[str], pod: core_v1.Pod, node: str) -> Eviction:
        """Evict pods (`namespace/name`) for another."""
        tasks = [asyncio.create_task(self._evict(victim, pod, node)) for victim in victims]
        self._running.update(tasks)
        for task in tasks:
            task.add_done_callback(self._running.discard)
        return Eviction(tasks, self._clock)

    def close(self) -> None:
        """Give up what is under way."""
        for task in self._running:
            task.cancel()

    async def seen_to_go(self, victims: Sequence[str]) -> None:
        """Wait until evicted pods are seen to go: before, the pod would find that it has to make room once more."""
        staying = {victim for victim in victims if self._stays(victim)}
        if staying:
            await self._departed(_Departure(staying))

    async def _evict(self, key: str, pod: core_v1.Pod, node: str) -> bool:
        """False if the server would not. A victim that still waits to be bound is not deleted, but refused its node."""
        victim = self._seen(key)
        if victim is None:
            return True
        waiting = self._waiting.get(victim.metadata.uid)
        if waiting is not None:
            waiting.reject("DefaultPreemption", "preempted")
        elif not await self._reporter.evict(victim, pod):
            return False
        self._reporter.preempted(victim, pod, node)
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


class Eviction:
    """The victims of one pod are being evicted, all at the same time."""

    def __init__(self, tasks: Sequence[asyncio.Task[bool]], clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._begun = clock.monotonic()
        self.seconds = 0.0
        """How long it took; known when it is done."""
        self._running = len(tasks)
        for task in tasks:
            task.add_done_callback(self._one_done)

    def _one_done(self, _: asyncio.Task[bool]) -> None:
        self._running -= 1
        if not self._running:
            self.seconds = self._clock.monotonic() - self._begun

    async def done(self) -> bool:
        """Wait for the end; False if the server would not have all of it. Raises what an eviction raised."""
        return all([await task for task in self._tasks])


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
