"""A workload over time, placed by the scheduler itself: pods arrive, wait, run for as long as they last, and go.

Nothing but placing takes place here (no API, no controllers), so that months of a large cluster pass in seconds. A pod is
tried when it arrives, and again when something went that may have made room; pods that preempt take their victims' place, and
the victims come back and start anew, as their owners would have it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.types.core_v1 import Node, Pod
from bayplan.scheduler.cycle import RandomChoice
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.library import Config, Planner
from bayplan.scheduler.planning.relocation import use_of_nodes
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.simulation.replay.figures import fragmentation, looks_of, shares, split, unevenness, usual_pod
from bayplan.simulation.replay.gpu_fragmentation import gpu_fragmentation, wants_of
from bayplan.simulation.replay.gpu_shares import share_gpus
from bayplan.simulation.replay.result import Moment, Replay
from bayplan.support.randomness import SeededRandomness

SAMPLES: Final = 400
"""Moments at which the cluster is looked at."""
_LOOKS_AT_ROOM: Final = 40
"""Of them, those at which fragmentation is measured, which costs more."""

Told = Callable[[int], object]
"""Told how many pods have arrived."""
Schedule = Callable[[Planner, PodInfo, str], Decision]
"""Decides about a pod, and counts it on its node if one was found, as `Planner.schedule` does. The text is the pod's name in the records."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that comes at some time (seconds) and either ends at a certain time or lasts so long from its placement on."""

    at: float
    pod: Pod
    ends: float | None = None
    lasts: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Workload:
    """Nodes, and the pods that come to them."""

    nodes: tuple[Node, ...]
    arrivals: tuple[Arrival, ...]
    others: tuple[Any, ...] = ()
    """Further objects that bear on scheduling: priority classes, volumes, ..."""

    def __repr__(self) -> str:
        return f"<Workload: {len(self.arrivals):,} pods come to {len(self.nodes):,} nodes>"


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod that a player asks about."""

    info: PodInfo
    name: str
    """Its name in the records."""
    at: float
    """The time, in seconds of the workload."""


@dataclass(slots=True)
class _Waiting:
    arrival: Arrival
    order: int
    shape: int
    info: PodInfo | None = None
    waited: bool = False
    """Whether its wait has been counted: it was placed before."""
    message: str = ""
    foreign: bool = False
    """Whether no profile schedules it."""


def replay(
    workload: Workload,
    config: Config = None,
    *,
    seed: int | None = None,
    samples: int = SAMPLES,
    told: Told | None = None,
    schedule: Schedule = lambda planner, pod, _: planner.schedule(pod),
) -> Replay:
    """Play a workload. seed: decides between equally good nodes; None takes the first by name.

    A pod that no profile schedules is never placed. Raises SettingsError.
    """
    player = Player(workload, config, seed, samples, told)
    steps = player.steps()
    try:
        asked = next(steps)
        while True:
            asked = steps.send(schedule(player.planner, asked.info, asked.name))
    except StopIteration as end:
        result: Replay = end.value
        return result


class Player:
    """Plays one workload: `steps` asks about pod after pod, and is sent decisions that are settled in the planner."""

    def __init__(
        self,
        workload: Workload,
        config: Config = None,
        seed: int | None = None,
        samples: int = SAMPLES,
        told: Told | None = None,
    ) -> None:
        choice = RandomChoice(SeededRandomness(f"replay {seed}")) if seed is not None else None
        self.planner = Planner([*workload.nodes, *workload.others], config, choice)
        self.gpus = share_gpus(self.planner)
        self.workload = workload
        self.told = told
        self.result = Replay(pods=len(workload.arrivals), nodes=len(workload.nodes))
        self.pending: list[_Waiting] = []
        """By priority, then arrival."""
        self.running: dict[str, _Waiting] = {}
        self.on_node: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        """Node -> pods on it."""
        self.used_since: dict[str, float] = {}
        self.events: list[tuple[float, int, str, Any]] = []
        self.order = 0
        self.shapes: dict[int, str] = {}
        """Shapes that find no room until some is made, and what the scheduler said."""
        looks = looks_of(one.pod for one in workload.arrivals if not self.planner.why_not_ours(one.pod))
        self.usual = usual_pod(looks)
        self.wants = wants_of(self.planner, looks) if self.gpus is not None else []
        self.samples = samples

    def steps(self) -> Generator[Asked, Decision, Replay]:
        """Play: yields each pod to be decided about, is sent the decision (of a pod that has a node, one that is settled), and returns
        what became of the workload."""
        arrivals = sorted(self.workload.arrivals, key=lambda one: one.at)
        if not arrivals:
            return self.result
        began = arrivals[0].at
        last = max(max(one.at, one.ends or one.at + (one.lasts or 0.0)) for one in arrivals)
        for arrival in arrivals:
            self._push(arrival.at, "come", _Waiting(arrival, 0, 0))
            if arrival.ends is not None:
                self._push(max(arrival.ends, math.nextafter(arrival.at, math.inf)), "over", arrival)
        step = (last - began) / max(self.samples, 1) or 1.0
        next_look, looks, now = began, 0, began
        while self.events:
            now = self.events[0][0]
            while next_look < now:
                if looks == 2 * max(self.samples, 1):
                    looks, step = looks // 2, 2 * step
                    self._thin_out()
                self._look(next_look, looks)
                next_look, looks = next_look + step, looks + 1
            freed = self._take_in(now)
            yield from self._place(now, freed)
            self.result.most_running = max(self.result.most_running, len(self.running))
            self.result.most_pending = max(self.result.most_pending, len(self.pending))
        self._look(now, 0)
        for name, since in self.used_since.items():
            self._count_node(name, now - since)
        self.result.seconds = now - began
        self._end(now)
        return self.result

    def _end(self, now: float) -> None:
        """What still runs or waits does so up to here."""
        for key in self.running:
            self.result.records.stop(key, now)
        for one in self.pending:
            assert one.info is not None
            self.result.records.give_up(one.info.key, now, one.message)
            if not one.waited:
                self.result.never.append((one.info.key, one.message))

    def _push(self, at: float, what: str, payload: Any) -> None:
        self.order += 1
        heapq.heappush(self.events, (at, self.order, what, payload))

    def _take_in(self, now: float) -> bool:
        """Everything that happens now. Returns whether room was made."""
        freed = False
        while self.events and self.events[0][0] == now:
            _, order, what, payload = heapq.heappop(self.events)
            if what == "come":
                payload.order = order
                self._queue(payload)
                self.result.records.arrive(payload.info.key, now)
            elif what == "over":
                freed |= self._is_over(payload, now)
            elif self.running.get(payload[0]) is payload[1]:
                self._free(payload[0], now)
                freed = True
        return freed

    def _is_over(self, arrival: Arrival, now: float) -> bool:
        """A pod's time has come, wherever it is. Returns whether it made room."""
        key = f"{arrival.pod.metadata.namespace}/{arrival.pod.metadata.name}"
        if key in self.running:
            self._free(key, now)
            return True
        for one in self.pending:
            if one.arrival is arrival:
                self.pending.remove(one)
                self.result.records.give_up(key, now, one.message)
                if not one.waited:
                    self.result.never.append((key, one.message))
                break
        return False

    def _queue(self, waiting: _Waiting) -> None:
        pod = waiting.arrival.pod
        waiting.info = self.planner.pod(pod)
        waiting.shape = id(waiting.info.shape)
        waiting.message = self.planner.why_not_ours(pod)
        waiting.foreign = bool(waiting.message)
        position = (-(pod.spec.priority or 0), waiting.order)
        index = len(self.pending)
        while (
            index
            and (-(self.pending[index - 1].arrival.pod.spec.priority or 0), self.pending[index - 1].order) > position
        ):
            index -= 1
        self.pending.insert(index, waiting)

    def _place(self, now: float, freed: bool) -> Generator[Asked, Decision, None]:
        """Try who waits, by priority; a shape that finds no room need not be tried again until some is made."""
        if freed:
            self.shapes.clear()
        again = True
        while again:
            again = False
            left: list[_Waiting] = []
            pending, self.pending = self.pending, []
            for position, one in enumerate(pending):
                if one.foreign:
                    left.append(one)
                    continue
                assert one.info is not None
                if one.shape in self.shapes:
                    one.message = self.shapes[one.shape]
                    self.result.records.refuse(one.info.key, one.message)
                    left.append(one)
                    continue
                self.result.decisions += 1
                decision = yield Asked(one.info, self.result.records.current_name(one.info.key), now)
                if decision.scheduled:
                    self._start(one, decision, now)
                    continue
                one.message = decision.message or _held_back(decision)
                self.result.records.refuse(decision.pod, one.message)
                left.append(one)
                if decision.victims:
                    self.pending = left + pending[position + 1 :]
                    self._preempt(decision, now)
                    left, again = [], True
                    break
                self.shapes[one.shape] = one.message
            if not again:
                self.pending = left

    def _start(self, one: _Waiting, decision: Decision, now: float) -> None:
        arrival = one.arrival
        assert one.info is not None
        key, node = one.info.key, decision.node or ""
        if not one.waited:
            one.waited = True
            self.result.placed += 1
            self.result.waits.append(now - arrival.at)
            if self.told is not None:
                self.told(self.result.placed)
        self.running[key] = one
        self.on_node[key] = node
        self.counts[node] = self.counts.get(node, 0) + 1
        self.used_since.setdefault(node, now)
        self.result.records.place(key, node, now)
        if arrival.lasts is not None:
            self._push(now + arrival.lasts, "end", (key, one))

    def _free(self, key: str, now: float, by: str = "") -> None:
        """by: the pod that takes its place."""
        del self.running[key]
        self.result.records.stop(key, now, by)
        node = self.on_node.pop(key)
        self.planner.remove(key)
        self.counts[node] -= 1
        if not self.counts[node]:
            self._count_node(node, now - self.used_since.pop(node))

    def _count_node(self, name: str, seconds: float) -> None:
        self.result.node_seconds[name] = self.result.node_seconds.get(name, 0.0) + seconds

    def _preempt(self, decision: Decision, now: float) -> None:
        for key in decision.victims:
            victim = self.running[key]
            self._free(key, now, decision.pod)
            self.result.preemptions += 1
            self._queue(_Waiting(victim.arrival, victim.order, 0, waited=True))
        self.shapes.clear()

    def _look(self, at: float, number: int) -> None:
        uses = use_of_nodes(self.planner)
        moment = Moment(at, len(self.running), len(self.pending), shares(uses), unevenness(uses), split(uses))
        self.result.moments.append(moment)
        if number % max(self.samples // _LOOKS_AT_ROOM, 1) != 0:
            return
        if self.usual is not None:
            self.result.fragmentation.append((at, fragmentation(self.planner, uses, self.usual, self.gpus)))
        if self.gpus is not None and self.wants:
            self.result.gpu_fragmentation.append((at, gpu_fragmentation(self.planner, self.gpus, self.wants)))

    def _thin_out(self) -> None:
        """It takes longer than was known (pods wait, or last from when they are placed): forget every other look."""
        del self.result.moments[1::2]
        del self.result.fragmentation[1::2]
        del self.result.gpu_fragmentation[1::2]


def _held_back(decision: Decision) -> str:
    """What a pod waits for that is not even tried."""
    return f"{', '.join(decision.gate[1].reasons)} ({decision.gate[0]})" if decision.gate is not None else ""


def stretched(workload: Workload, factor: float) -> Workload:
    """The same arrivals, each of which lasts so many times longer."""
    if factor == 1.0:
        return workload
    arrivals = tuple(
        Arrival(
            one.at,
            one.pod,
            None if one.ends is None else one.at + (one.ends - one.at) * factor,
            None if one.lasts is None else one.lasts * factor,
        )
        for one in workload.arrivals
    )
    return Workload(workload.nodes, arrivals, workload.others)
