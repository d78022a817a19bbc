"""Gangs that compete: at no moment does one hold a part of what it needs, and each that fits is placed in the end."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.gangs.gang_cycle import GangCycle
from tests.scheduler.gangs.test_gangs import group, member
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup

ALL = frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING, WORKLOAD_PREEMPTION, TOPOLOGY_AWARE))
MOST_SECONDS = 280
"""Less than the five minutes after which all that waits is tried again, whatever happened."""


@dataclass
class Gang:
    size: int
    need: int
    cpu: int
    priority: int = 0
    constrained: bool = False
    seconds: int = 5
    """How long it runs once it is placed."""
    ends_at: float | None = None


@dataclass
class Cluster:
    """A core whose decisions are carried out at once: bound pods run, victims go and come back pending."""

    gates: frozenset[str]
    sizes: list[int]
    gangs: dict[str, Gang] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.setup = Setup()
        self.setup.core = SchedulerCore(load(None, self.gates), self.setup.clock, random.Random(1))
        self.core = self.setup.core
        self.pods: dict[str, Pod] = {}
        for index, cores in enumerate(self.sizes):
            self.setup.see("Node", node(f"n{index}", cpu=str(cores), labels={"rack": f"r{index // 2}"}))

    def submit(self, name: str, gang: Gang) -> None:
        self.gangs[name] = gang
        tree = group(name, gang.need)
        tree["spec"] |= {"priority": gang.priority, "disruptionMode": "PodGroup"}
        if gang.constrained:
            tree["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
        self.setup.see("PodGroup", tree)
        for index in range(gang.size):
            self._create(f"{name}.{index}", name)

    def _create(self, name: str, gang: str) -> None:
        facts = self.gangs[gang]
        tree = member(name, gang, cpu=str(facts.cpu), priority=facts.priority)
        self.pods[f"default/{name}"] = self.setup.see("Pod", tree)

    def step(self, seconds: float) -> None:
        self.setup.clock.seconds += seconds
        self._end_what_is_done()
        while (outcome := self.core.schedule_one()) is not None:
            batch = [outcome]
            while self.core._decided_already:
                following = self.core.schedule_one()
                assert following is not None
                batch.append(following)
            self._carry_out(batch)
            self._check()

    def _carry_out(self, batch: list[Outcome]) -> None:
        for outcome in batch:
            key, decision = outcome.queued.pod.key, outcome.decision
            if outcome.binding_cycle is not None:
                outcome.binding_cycle.settle()
                self.core.bound(outcome.queued.pod)
                self.pods[key] = self.setup.bound(self.pods[key], decision.node or "")
                gang = self.gangs[key.removeprefix("default/").partition(".")[0]]
                gang.ends_at = self.setup.clock.seconds + gang.seconds
        result = batch[0].group
        preemption = result.preemption if result is not None else None
        if preemption is not None and preemption.victims:
            for victim in preemption.victims:
                self.setup.gone("Pod", self.pods.pop(victim.key))
            for outcome in batch:
                self.core.queue.release(outcome.queued.pod.key)
            for victim in preemption.victims:
                name = victim.key.removeprefix("default/")
                self._create(name, name.partition(".")[0])

    def _end_what_is_done(self) -> None:
        for name, gang in self.gangs.items():
            running = [key for key, one in self.pods.items() if self._is_of(key, name) and one.spec.node_name]
            if running and gang.ends_at is not None and gang.ends_at <= self.setup.clock.seconds:
                self.finished.add(name)
                for key in [key for key in self.pods if self._is_of(key, name)]:
                    self.setup.gone("Pod", self.pods.pop(key))

    @staticmethod
    def _is_of(key: str, gang: str) -> bool:
        return key.removeprefix("default/").partition(".")[0] == gang

    def _check(self) -> None:
        placed: dict[str, set[str]] = defaultdict(set)
        for key, info in self.core.snapshot.pods.items():
            placed[key.removeprefix("default/").partition(".")[0]].add(info.node_name)
        counts = {name: sum(self._is_of(key, name) for key in self.core.snapshot.pods) for name in placed}
        for name, count in counts.items():
            if name in self.gangs and self.gangs[name].need:
                assert self.core.snapshot.gangs.count_placed(f"default/{name}") == count
            gang = self.gangs[name]
            assert count >= gang.need, f"{name} holds {count} of the {gang.need} places that it needs"
            if gang.constrained:
                assert len({int(place.removeprefix("n")) // 2 for place in placed[name]}) == 1
        assert len(self.core.waiting) == 0
        assert (self.core.snapshot.places[: self.core.snapshot.size] >= 0).all()
        assert (self.core.snapshot.free[0, : self.core.snapshot.size] >= 0).all()

    def fits_alone(self, gang: Gang) -> bool:
        slots = [cores // gang.cpu for cores in self.sizes]
        if not gang.constrained:
            return sum(slots) >= gang.need
        return max(sum(slots[start : start + 2]) for start in range(0, len(slots), 2)) >= gang.need

    def run(self) -> None:
        """Until all that fits alone has run, or the time is over."""
        wanted = {name for name, gang in self.gangs.items() if self.fits_alone(gang)}
        started = self.setup.clock.seconds
        while self.finished != wanted:
            assert self.setup.clock.seconds < started + MOST_SECONDS, f"never placed: {sorted(wanted - self.finished)}"
            self.step(1)


@st.composite
def gang(draw: st.DrawFn, *, priorities: int) -> Gang:
    size = draw(st.integers(1, 6))
    return Gang(
        size,
        draw(st.integers(1, size)),
        draw(st.integers(1, 3)),
        draw(st.integers(0, priorities)),
        draw(st.booleans()),
        draw(st.integers(1, 15)),
    )


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    gangs=st.lists(st.tuples(gang(priorities=3), st.integers(0, 5)), min_size=1, max_size=7),
)
def test_gangs_of_several_priorities_make_progress(sizes: list[int], gangs: list[tuple[Gang, int]]) -> None:
    cluster = Cluster(ALL, sizes)
    for number, (one, wait) in enumerate(gangs):
        cluster.submit(f"g{number}", one)
        cluster.step(wait)
    cluster.run()


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    gangs=st.lists(st.tuples(gang(priorities=0), st.integers(0, 5)), min_size=1, max_size=7),
)
def test_gangs_make_progress_without_any_gate(sizes: list[int], gangs: list[tuple[Gang, int]]) -> None:
    cluster = Cluster(frozenset(), sizes)
    for number, (one, wait) in enumerate(gangs):
        one.constrained = False
        cluster.submit(f"g{number}", one)
        cluster.step(wait)
    cluster.run()


def test_the_check_finds_a_gang_that_keeps_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GangCycle, "_take_back", lambda cycle, members: members)
    cluster = Cluster(frozenset(), [2])
    cluster.submit("g", Gang(3, 3, 1))
    with pytest.raises(AssertionError, match="g holds 2 of the 3 places"):
        cluster.step(1)


def test_single_pods_are_tried_beside_gangs_that_wait() -> None:
    cluster = Cluster(ALL, [2])
    cluster.submit("g", Gang(3, 3, 1))
    cluster.step(1)
    cluster.gangs["single"] = Gang(1, 0, 1)
    cluster.pods["default/single"] = cluster.setup.see("Pod", pod("single", cpu="1"))
    outcome = cluster.core.schedule_one()
    assert outcome is not None
    assert outcome.decision.node == "n0"


def test_pods_nominated_to_one_node_do_not_count_there_twice() -> None:
    """Two pods of a gang have room made for them on one node: each counts as nominated, and once placed as a pod there."""
    cluster = Cluster(ALL, [2])
    cluster.submit("low", Gang(2, 2, 1, seconds=100))
    cluster.step(1)
    cluster.submit("high", Gang(2, 2, 1, priority=1))
    cluster.step(1)
    assert {key for key, one in cluster.pods.items() if one.spec.node_name} == {"default/high.0", "default/high.1"}
