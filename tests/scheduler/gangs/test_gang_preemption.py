"""Room for whole pod groups: who has to go, and who stays."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.gangs.gang_cycle import GangCycle
from bayplan.scheduler.gangs.gang_preemption import GangPreemption
from bayplan.scheduler.library import place
from tests.scheduler.gangs.test_gangs import group, member, messages, outcomes, places
from tests.scheduler.objects import Tree, apart, node, pod
from tests.scheduler.test_core import Setup

GATES = frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING, WORKLOAD_PREEMPTION))


class PreemptionSetup(Setup):
    """A core with the gate on."""

    def __init__(self, gates: frozenset[str] = GATES) -> None:
        super().__init__()
        self.core = SchedulerCore(load(None, gates), self.clock, random.Random(1))

    def nodes(self, *names: str) -> None:
        for name in names:
            self.see("Node", node(name, cpu="1"))

    def runs(self, name: str, on: str, *, cpu: str = "700m", **fields: Any) -> None:
        made = self.see("Pod", pod(name, cpu=cpu, on=on, **fields))
        self.__dict__.setdefault("made", {})[f"default/{name}"] = made

    def evict(self, victims: set[str]) -> None:
        for key in victims:
            self.gone("Pod", self.__dict__["made"][key])


def ranked(name: str, count: int, priority: int, mode: str = "") -> Tree:
    tree = group(name, count)
    tree["spec"] |= {"priority": priority} | ({"disruptionMode": mode} if mode else {})
    return tree


def gang(setup: Setup, size: int, *, need: int | None = None, priority: int = 10, **fields: Any) -> list[Outcome]:
    setup.see("PodGroup", ranked("g", need if need is not None else size, priority))
    for index in range(size):
        setup.see("Pod", member(f"g{index}", "g", **{"cpu": "700m", "priority": priority, **fields}))
    return outcomes(setup)


def victims_of(found: list[Outcome]) -> set[str]:
    preemption = found[0].group.preemption if found[0].group is not None else None
    return {victim.key.removeprefix("default/") for victim in preemption.victims} if preemption is not None else set()


def counted(setup: Setup) -> set[str]:
    return {key.removeprefix("default/") for key in setup.core.snapshot.pods}


def test_victims_are_chosen_for_the_whole_group_and_no_more_than_needed() -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b", "c")
    for name, priority in (("a", 1), ("b", 3), ("c", 2)):
        setup.runs(f"low-{name}", name, priority=priority)
    found = gang(setup, 2)
    assert victims_of(found) == {"low-a", "low-c"}
    assert {item.decision.nomination for item in found} == {"a", "c"}
    assert counted(setup) == {"low-a", "low-b", "low-c"}, "all that was supposed to be gone is back"
    assert found[0].group is not None
    assert found[0].group.outcome == "waiting_on_preemption"


def test_the_group_waits_until_its_victims_are_gone_and_is_placed_then() -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b")
    setup.runs("low-a", "a")
    setup.runs("low-b", "b")
    gang(setup, 2)
    setup.see("Pod", pod("late", cpu="700m", priority=5))
    assert places(outcomes(setup)) == {"late": None}
    setup.evict({"default/low-a", "default/low-b"})
    assert not {"g0", "g1"} & places(outcomes(setup)).keys()
    for index in range(2):
        setup.core.queue.release(f"default/g{index}")
    setup.clock.seconds += 10
    placed = places(outcomes(setup))
    assert {placed["g0"], placed["g1"]} == {"a", "b"}


def test_lower_pods_do_not_take_the_room_that_is_made() -> None:
    setup = PreemptionSetup()
    setup.nodes("a")
    setup.runs("low-a", "a")
    gang(setup, 1)
    setup.evict({"default/low-a"})
    setup.see("Pod", pod("thief", cpu="700m", priority=9))
    assert places(outcomes(setup)) == {"thief": None}


def test_a_group_that_does_not_fit_with_all_gone_evicts_nobody() -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b")
    setup.runs("low-a", "a")
    setup.runs("high-b", "b", priority=20)
    found = gang(setup, 2)
    assert victims_of(found) == set()
    assert found[0].group is not None
    assert found[0].group.message == (
        "pod group is unschedulable; 0 of the 2 pods that are needed fit, pod group is unschedulable"
    )
    assert counted(setup) == {"low-a", "high-b"}
    assert len(setup.core.nominator) == 0


def test_without_lower_pods_there_are_no_victims() -> None:
    setup = PreemptionSetup()
    setup.nodes("a")
    setup.runs("same", "a", priority=10)
    found = gang(setup, 1)
    assert found[0].group is not None
    assert found[0].group.message.endswith("No preemption victims found for incoming preemptor")
    assert "preemption: not eligible due to workload aware preemption enabled" in messages(found)["g0"]


def test_a_group_that_never_preempts_does_not() -> None:
    setup = PreemptionSetup()
    setup.nodes("a")
    setup.runs("low", "a")
    found = gang(setup, 1, preemptionPolicy="Never")
    assert found[0].group is not None
    assert found[0].group.message.endswith("not eligible due to preemptionPolicy=Never.")


def test_with_the_gate_off_each_pod_makes_room_for_itself() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("low", cpu="700m", on="a"))
    setup.see("PodGroup", ranked("g", 1, 0))
    setup.see("Pod", member("g0", "g", cpu="700m", priority=10))
    (found,) = outcomes(setup)
    assert found.decision.victims == ("default/low",)


@pytest.mark.parametrize(("mode", "victims"), [("PodGroup", {"b0", "b1"}), ("Pod", {"b1"})])
def test_pods_of_a_group_go_together_if_it_says_so(mode: str, victims: set[str]) -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b")
    setup.see("PodGroup", ranked("b", 1, 1, mode))
    for index, name in enumerate("ab"):
        made = member(f"b{index}", "b", cpu="700m", on=name, priority=1)
        made["status"]["startTime"] = f"2026-01-0{index + 1}T00:00:00Z"
        setup.see("Pod", made)
    assert victims_of(gang(setup, 1)) == victims


def test_the_priority_of_a_group_counts_for_pods_that_go_together() -> None:
    setup = PreemptionSetup()
    setup.nodes("a")
    setup.see("PodGroup", ranked("b", 1, 20, "PodGroup"))
    setup.see("Pod", member("b0", "b", cpu="700m", on="a", priority=1))
    assert victims_of(gang(setup, 1)) == set()


def test_of_equal_priority_single_pods_go_before_groups_and_small_groups_before_large_ones() -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b", "c", "d")
    for name, nodes in (("small", "a"), ("large", "bc")):
        setup.see("PodGroup", ranked(name, 1, 1, "PodGroup"))
        for place_name in nodes:
            setup.see("Pod", member(f"{name}-{place_name}", name, cpu="700m", on=place_name, priority=1))
    setup.runs("single", "d", priority=1)
    assert victims_of(gang(setup, 1)) == {"single"}
    other = PreemptionSetup()
    other.nodes("a", "b", "c")
    for name, nodes in (("small", "a"), ("large", "bc")):
        other.see("PodGroup", ranked(name, 1, 1, "PodGroup"))
        for place_name in nodes:
            other.see("Pod", member(f"{name}-{place_name}", name, cpu="700m", on=place_name, priority=1))
    assert victims_of(gang(other, 1)) == {"small-a"}


def test_pods_whose_budget_is_used_up_stay_if_others_can_go() -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b")
    setup.runs("kept", "a", priority=1, labels={"app": "x"})
    setup.runs("free", "b", priority=2)
    setup.see(
        "PodDisruptionBudget",
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "x", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": 0},
        },
    )
    assert victims_of(gang(setup, 1)) == {"free"}


def test_while_victims_terminate_no_others_are_looked_for() -> None:
    setup = PreemptionSetup()
    setup.nodes("a", "b")
    going = pod("going", cpu="700m", on="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    going["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    setup.see("Pod", going)
    setup.runs("other", "b")
    setup.see("PodGroup", ranked("g", 1, 10))
    tree = member("g0", "g", cpu="700m", priority=10)
    tree["status"]["nominatedNodeName"] = "a"
    setup.see("Pod", tree)
    found = outcomes(setup)
    assert victims_of(found) == set()
    assert found[0].decision.nomination == "a"
    assert found[0].group is not None
    assert found[0].group.outcome == "waiting_on_preemption"


def test_a_constrained_group_makes_no_room() -> None:
    setup = PreemptionSetup(GATES | {TOPOLOGY_AWARE})
    setup.see("Node", node("a", cpu="1", labels={"rack": "r"}))
    setup.runs("low", "a")
    tree = ranked("g", 1, 10)
    tree["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    setup.see("PodGroup", tree)
    setup.see("Pod", member("g0", "g", cpu="700m", priority=10))
    found = outcomes(setup)
    assert victims_of(found) == set()
    assert found[0].group is not None
    assert found[0].group.message.endswith(
        "workload aware preemption is not supported for pod groups with scheduling constraints"
    )


def test_pods_that_are_in_each_others_way_are_tried_one_by_one() -> None:
    setup = PreemptionSetup()
    for name in "ab":
        setup.see("Node", node(name, cpu="4"))
        setup.runs(f"low-{name}", name, cpu="3500m")
    rule = apart("kubernetes.io/hostname", {"gang": "g"})
    assert victims_of(gang(setup, 2, labels={"gang": "g"}, affinity=rule)) == {"low-a", "low-b"}


def test_a_plan_takes_the_victims_of_a_group_away() -> None:
    objects = [node("a", cpu="1"), node("b", cpu="1"), ranked("g", 2, 10)]
    objects += [pod(f"low-{name}", cpu="700m", on=name) for name in "ab"]
    run = place(objects, [member(f"g{index}", "g", cpu="700m", priority=10) for index in range(2)], load(None, GATES))
    assert {attempt.decision.node for attempt in run.attempts} == {None, "a", "b"}


def needed_at_least(free: list[int], low: list[tuple[int, int]], size: int) -> int:
    """Over all sets of low pods (node, priority), the fewest that have to go for `size` pods to fit, one to a node."""
    best = len(low) + 1
    for chosen in range(1 << len(low)):
        gone = [low[index][0] for index in range(len(low)) if chosen >> index & 1]
        slots = sum(count + gone.count(index) for index, count in enumerate(free))
        if slots >= size:
            best = min(best, len(gone))
    return best


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=4),
    size=st.integers(1, 5),
    exact=st.booleans(),
)
def test_as_few_equal_pods_go_as_have_to_whichever_way_it_is_told_that_the_group_fits(
    nodes: list[list[int]], size: int, exact: bool
) -> None:
    setup = PreemptionSetup()
    low = []
    for number, pods in enumerate(nodes):
        setup.see("Node", node(f"n{number}", cpu="3"))
        for index, priority in enumerate(pods):
            setup.runs(f"p{number}-{index}", f"n{number}", cpu="1", priority=priority)
            low.append((number, priority))
    free = [3 - len(pods) for pods in nodes]
    found = _decided(setup, size, exact)
    expected = needed_at_least(free, low, size)
    if sum(free) >= size:
        assert all(place_name is not None for place_name in places(found).values())
    elif expected > len(low):
        assert victims_of(found) == set()
    else:
        victims = victims_of(found)
        assert len(victims) == expected
        kept = [priority for number, pods in enumerate(nodes) for index, priority in enumerate(pods)]
        lost = [
            priority
            for number, pods in enumerate(nodes)
            for index, priority in enumerate(pods)
            if f"p{number}-{index}" in victims
        ]
        assert sorted(lost) == sorted(kept)[: len(lost)], "those of the lowest priority go"


def _decided(setup: Setup, size: int, exact: bool) -> list[Outcome]:
    """With `exact` off, the group is placed anew to see whether it fits."""
    if exact:
        return gang(setup, size, cpu="1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GangPreemption, "_is_exact", lambda self: False)
        return gang(setup, size, cpu="1")


def test_an_attempt_that_is_given_up_leaves_no_trace() -> None:
    setup = PreemptionSetup()
    setup.nodes("a")
    setup.runs("low", "a")
    setup.see("PodGroup", ranked("g", 1, 10))
    setup.see("Pod", member("g0", "g", cpu="700m", priority=10))
    queued = setup.core.queue.get("default/g0")
    assert queued is not None
    cycle = setup.core.cycle_for(queued.pod)
    assert cycle is not None
    with pytest.MonkeyPatch.context() as patch:

        def fails(self: GangPreemption) -> Any:
            raise RuntimeError("no")

        patch.setattr(GangPreemption, "_fits", fails)
        with pytest.raises(RuntimeError):
            list(GangCycle(cycle, setup.core.cache).run([queued], 1))
    assert counted(setup) == {"low"}
    assert setup.core.snapshot.requested[0, 0] == 700
