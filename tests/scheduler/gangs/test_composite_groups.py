"""Trees of pod groups: as many groups as their composite groups need, or no pod at all."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.feature_gates import (
    COMPOSITE_POD_GROUPS,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_PREEMPTION,
)
from bayplan.api.types import meta_v1
from bayplan.api.types import scheduling_v1alpha2 as scheduling
from bayplan.scheduler import place
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.framework.events import COMPOSITE, Action, ClusterEvent
from bayplan.scheduler.framework.verdicts import PluginError
from bayplan.scheduler.gangs.gang_cycle import GangCycle
from bayplan.scheduler.snapshot.group_trees import CompositeGroup, GroupTrees, NewerPodGroup, TreeError
from tests.scheduler.gangs.test_gangs import member, outcomes, places
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup

GATES = frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING, TOPOLOGY_AWARE))
RACK = "example.com/rack"


def constraints(key: str) -> scheduling.PodGroupSchedulingConstraints | None:
    return scheduling.PodGroupSchedulingConstraints(topology=(scheduling.TopologyConstraint(key=key),)) if key else None


def composite(
    name: str, need: int, *, parent: str = "", key: str = "", priority: int = 0, mode: str = ""
) -> CompositeGroup:
    spec = scheduling.PodGroupSpec(
        scheduling_constraints=constraints(key), priority=priority, disruption_mode=mode or None
    )
    metadata = meta_v1.ObjectMeta(name=name, namespace="default")
    return CompositeGroup(
        scheduling.PodGroup(metadata=metadata, spec=spec), f"default/{parent}" if parent else "", need
    )


def leaf(name: str, need: int, parent: str = "", *, key: str = "", priority: int = 0) -> NewerPodGroup:
    policy = scheduling.PodGroupSchedulingPolicy(gang=scheduling.GangSchedulingPolicy(min_count=need))
    spec = scheduling.PodGroupSpec(scheduling_policy=policy, scheduling_constraints=constraints(key), priority=priority)
    metadata = meta_v1.ObjectMeta(name=name, namespace="default")
    return NewerPodGroup(metadata=metadata, spec=spec, parent=f"default/{parent}" if parent else "")


class Trees(Setup):
    """A core with the gates on, and nodes of one core."""

    def __init__(self, gates: frozenset[str] = GATES) -> None:
        super().__init__()
        self.core = SchedulerCore(load(None, gates), self.clock, random.Random(1))

    def nodes(self, count: int, per_rack: int = 2) -> None:
        for index in range(count):
            self.see("Node", node(f"n{index}", cpu="1", labels={RACK: f"r{index // per_rack}"}))

    def composite(self, name: str, need: int, **fields: Any) -> None:
        made = composite(name, need, **fields)
        self.core.put_composite(made.key, made)

    def group(self, name: str, need: int, parent: str = "", *, pods: int | None = None, **fields: Any) -> None:
        self.core.handle("PodGroup", None, leaf(name, need, parent, **fields))
        for index in range(need if pods is None else pods):
            self.see("Pod", member(f"{name}-{index}", name, cpu="700m", priority=fields.get("priority", 0)))


def groups_placed(found: list[Outcome]) -> list[str]:
    return sorted({name.rpartition("-")[0] for name, place in places(found).items() if place is not None})


def results(found: list[Outcome]) -> dict[str, tuple[bool, str]]:
    told = [one for outcome in found for one in (outcome.group, *outcome.composites) if one is not None]
    return {one.key.removeprefix("default/"): (one.scheduled, one.message) for one in told}


def test_a_tree_is_placed_with_all_its_groups() -> None:
    setup = Trees()
    setup.nodes(4)
    setup.composite("job", 2)
    setup.group("a", 2, "job")
    setup.group("b", 2, "job")
    found = outcomes(setup)
    assert groups_placed(found) == ["a", "b"]
    assert results(found) == {"job": (True, ""), "a": (True, ""), "b": (True, "")}


def test_a_tree_that_does_not_fit_holds_nothing() -> None:
    setup = Trees()
    setup.nodes(3)
    setup.composite("job", 2)
    setup.group("a", 2, "job")
    setup.group("b", 2, "job")
    found = outcomes(setup)
    assert groups_placed(found) == []
    assert results(found) == {
        "job": (False, "pod group is unschedulable; 1 of the 2 groups that are needed fit"),
        "a": (False, "pod group is unschedulable; 1 of the 2 groups that are needed fit"),
        "b": (False, "pod group is unschedulable; 1 of the 2 pods that are needed fit"),
    }
    assert not setup.core.snapshot.pods


def test_a_parent_does_without_groups_that_it_does_not_need() -> None:
    setup = Trees()
    setup.nodes(3)
    setup.composite("job", 1)
    setup.group("a", 2, "job")
    setup.group("b", 2, "job")
    found = outcomes(setup)
    assert groups_placed(found) == ["a"]
    assert results(found)["job"] == (True, "")
    assert not results(found)["b"][0]
    setup.see("Node", node("more", cpu="1"))
    setup.clock.seconds += 10
    assert groups_placed(outcomes(setup)) == ["b"], "what is left of the tree comes when there is room"


def test_the_basic_policy_needs_one_group() -> None:
    setup = Trees()
    setup.nodes(2)
    setup.composite("job", 0)
    setup.group("a", 3, "job")
    setup.group("b", 2, "job")
    assert groups_placed(outcomes(setup)) == ["b"]


def test_a_tree_waits_for_its_groups_and_their_pods() -> None:
    setup = Trees()
    setup.nodes(6)
    setup.group("a", 2, "half")
    assert places(outcomes(setup)) == {}
    assert gate(setup, "a-0") == 'waiting for composite pod group "half" spec to appear'
    setup.composite("half", 1, parent="job")
    assert gate(setup, "a-0") == 'waiting for composite pod group "job" spec to appear'
    setup.composite("job", 2)
    assert gate(setup, "a-0") == 'waiting for composite pod group "job" tree to meet quorum'
    setup.composite("other", 1, parent="job")
    setup.group("b", 2, "other", pods=1)
    assert places(outcomes(setup)) == {}
    setup.see("Pod", member("b-1", "b", cpu="700m"))
    assert groups_placed(outcomes(setup)) == ["a", "b"]


@pytest.mark.parametrize("comes", ["group", "lower minimum", "composite"])
def test_what_completes_a_tree_lets_pods_of_all_its_groups_go(comes: str) -> None:
    setup = Trees()
    setup.nodes(6)
    if comes != "composite":
        setup.composite("job", 2)
    setup.group("a", 2, "job")
    setup.see("Pod", member("b-0", "b", cpu="700m"))
    if comes != "group":
        setup.group("b", 3 if comes == "lower minimum" else 1, "job", pods=0)
    assert places(outcomes(setup)) == {}
    if comes == "group":
        setup.group("b", 1, "job", pods=0)
    elif comes == "composite":
        setup.composite("job", 2)
    else:
        setup.core.handle("PodGroup", leaf("b", 3, "job"), leaf("b", 1, "job"))
    setup.clock.seconds += 10
    assert groups_placed(outcomes(setup)) == ["a", "b"]


def gate(setup: Trees, name: str) -> str:
    queued = setup.core.queue.get(f"default/{name}")
    assert queued is not None
    decision = setup.core.explain(queued.pod.pod)
    return decision.gate[1].reasons[0] if decision.gate is not None else ""


def test_a_tree_of_too_many_levels_is_not_tried() -> None:
    setup = Trees()
    setup.nodes(2)
    for index in range(4):
        setup.composite(f"c{index}", 1, parent=f"c{index + 1}")
    setup.group("a", 1, "c0")
    assert places(outcomes(setup)) == {}
    assert gate(setup, "a-0") == 'composite pod group "c3" is in a tree of more than 4 levels'


def test_a_cycle_of_parents_ends() -> None:
    trees = GroupTrees()
    trees.put(composite("a", 1, parent="b"))
    trees.put(composite("b", 1, parent="a"))
    trees.put_group("default/g", "default/a")
    with pytest.raises(TreeError, match="more than 4 levels"):
        trees.root_of("default/g")
    assert trees.above("default/g")
    assert not trees.is_ready("default/a", lambda key: False)
    assert list(trees.leaves("default/a"))


def test_children_run_within_the_domain_of_their_parent() -> None:
    """Three cores in r0 and r1 together hold the tree, but only r2 does alone."""
    setup = Trees()
    for rack, count in (("r0", 2), ("r1", 2), ("r2", 4)):
        for index in range(count):
            setup.see("Node", node(f"{rack}-{index}", cpu="1", labels={RACK: rack}))
    setup.composite("job", 2, key=RACK)
    setup.group("a", 2, "job")
    setup.group("b", 2, "job")
    found = outcomes(setup)
    assert groups_placed(found) == ["a", "b"]
    assert {str(place).partition("-")[0] for place in places(found).values()} == {"r2"}


def test_each_child_may_have_a_domain_of_its_own_in_that_of_its_parent() -> None:
    zone = "example.com/zone"
    setup = Trees()
    for index in range(8):
        labels = {RACK: f"r{index // 2}", zone: f"z{index // 4}"}
        setup.see("Node", node(f"n{index}", cpu="1", labels=labels))
    setup.see("Pod", pod("busy", cpu="700m", on="n1"))
    setup.composite("job", 2, key=zone)
    setup.group("a", 2, "job", key=RACK)
    setup.group("b", 2, "job", key=RACK)
    found = places(outcomes(setup))
    assert {found["a-0"], found["a-1"]} in ({"n4", "n5"}, {"n6", "n7"})
    assert {found["b-0"], found["b-1"]} in ({"n4", "n5"}, {"n6", "n7"})
    assert len(set(found.values())) == 4


def test_no_domain_holds_the_tree() -> None:
    setup = Trees()
    setup.nodes(6)
    setup.composite("job", 2, key=RACK)
    setup.group("a", 2, "job")
    setup.group("b", 1, "job")
    found = outcomes(setup)
    assert groups_placed(found) == []
    assert (
        results(found)["job"][1] == "0/3 placements are available, first placement status: pod group is unschedulable"
    )
    assert {one.decision.reason for one in found} == {"Unschedulable"}


@pytest.mark.parametrize("mode", ["", "PodGroup"])
def test_room_is_made_for_a_tree_as_a_whole(mode: str) -> None:
    setup = Trees(GATES | {WORKLOAD_PREEMPTION})
    setup.nodes(5)
    setup.composite("low", 1, mode=mode)
    setup.group("l", 4, "low")
    assert groups_placed(settled(setup)) == ["l"]
    setup.composite("job", 2, priority=10)
    setup.group("a", 2, "job", priority=10)
    setup.group("b", 1, "job", priority=10)
    found = outcomes(setup)
    assert groups_placed(found) == []
    told = [one for outcome in found for one in outcome.composites]
    assert told[0].preemption is not None
    assert len(told[0].preemption.victims) == (4 if mode else 2)
    assert set(told[0].preemption.nodes) == {"default/a-0", "default/a-1", "default/b-0"}
    assert {message for _, message in results(found).values()} == {
        "pod group is unschedulable, pod group is waiting for preemption to complete"
    }
    for victim in told[0].preemption.victims:
        setup.gone("Pod", victim.pod)
    for key in told[0].preemption.pods:
        setup.core.queue.release(key)
    setup.clock.seconds += 1
    assert groups_placed(outcomes(setup)) == ["a", "b"]


def settled(setup: Trees) -> list[Outcome]:
    """Attempts, whose pods are bound."""
    found = outcomes(setup)
    for outcome in found:
        if outcome.binding_cycle is not None:
            outcome.binding_cycle.settle()
            setup.core.bound(outcome.queued.pod)
            setup.bound(outcome.queued.pod.pod, outcome.decision.node or "")
    return found


def test_a_tree_with_topology_makes_no_room() -> None:
    setup = Trees(GATES | {WORKLOAD_PREEMPTION})
    setup.nodes(1)
    setup.see("Pod", pod("low", cpu="700m", on="n0"))
    setup.composite("job", 1, priority=10)
    setup.group("a", 1, "job", priority=10, key=RACK)
    found = outcomes(setup)
    assert groups_placed(found) == []
    assert "workload aware preemption is not supported" in results(found)["job"][1]


def test_small_groups_are_tried_first_if_the_first_ones_take_the_room() -> None:
    setup = Trees()
    setup.nodes(5)
    setup.composite("job", 2)
    for name, size in (("a", 4), ("b", 2), ("c", 2)):
        setup.group(name, size, "job")
    assert groups_placed(outcomes(setup)) == ["b", "c"]


@settings(max_examples=60, deadline=None)
@given(
    cores=st.integers(1, 8),
    trees=st.lists(
        st.tuples(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 4), st.integers(1, 5)),
        min_size=1,
        max_size=5,
    ),
)
def test_trees_that_compete_hold_no_parts_and_all_that_fit_are_placed(
    cores: int, trees: list[tuple[list[int], int, int]]
) -> None:
    """A tree: the sizes of its groups, how many of them it needs, and how many seconds its pods run."""
    setup = Trees()
    setup.nodes(cores)
    waiting: set[int] = set()
    for number, (sizes, need, _) in enumerate(trees):
        setup.composite(f"t{number}", need)
        for index, size in enumerate(sizes):
            setup.group(f"t{number}.{index}", size, f"t{number}")
        if len(sizes) >= need and sum(sorted(sizes)[: max(need, 1)]) <= cores:
            waiting.add(number)
    ends: dict[str, float] = {}
    for _ in range(250):
        for key in [key for key, end in ends.items() if end <= setup.clock.seconds]:
            setup.gone("Pod", setup.core.snapshot.pods[key].pod)
            del ends[key]
        for outcome in settled(setup):
            if outcome.decision.node is not None:
                number = int(outcome.decision.pod.removeprefix("default/t").partition(".")[0])
                ends[outcome.decision.pod] = setup.clock.seconds + trees[number][2]
                waiting.discard(number)
        check_trees(setup, trees)
        setup.clock.seconds += 1
        if not waiting:
            return
    raise AssertionError(f"never placed: {waiting}")


def check_trees(setup: Trees, trees: list[tuple[list[int], int, int]]) -> None:
    """No group holds a part of itself; the first groups of a tree came together."""
    for number, (sizes, need, _) in enumerate(trees):
        counts = [setup.core.snapshot.gangs.count_placed(f"default/t{number}.{index}") for index in range(len(sizes))]
        assert all(count in (0, size) for count, size in zip(counts, sizes, strict=True)), (number, counts)
        gone = sum(setup.core.snapshot.gangs.count(f"default/t{number}.{i}") == 0 for i in range(len(sizes)))
        assert sum(map(bool, counts)) in (0, *range(max(need, 1) - gone, len(sizes) + 1)), (number, counts)


def test_a_plugin_that_fails_for_one_group_leaves_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Trees()
    setup.nodes(4)
    setup.composite("job", 2)
    setup.group("a", 2, "job")
    setup.group("b", 2, "job")
    place = GangCycle.place

    def fail(cycle: GangCycle, gang: Any, *others: Any) -> Any:
        if gang[0].pod.key == "default/b-0":
            raise PluginError("Broken", "so it is")
        return place(cycle, gang, *others)

    monkeypatch.setattr(GangCycle, "place", fail)
    first = setup.core.schedule_one()
    assert first is not None
    assert first.decision.error == "so it is"
    assert not setup.core.snapshot.pods
    assert not setup.core.cache
    assert [(one.key, one.reason) for one in first.composites] == [("default/job", "SchedulerError")]
    monkeypatch.undo()
    outcomes(setup)
    setup.clock.seconds += 5
    assert groups_placed(outcomes(setup)) == ["a", "b"]


SCHEDULING = "scheduling.k8s.io"
TREE_GATES = GATES | {COMPOSITE_POD_GROUPS}


def in_1_37(kind: str, version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{SCHEDULING}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("nodes", "gates", "placed"),
    [
        (4, TREE_GATES, ["a-0", "a-1", "b-0", "b-1"]),
        (3, TREE_GATES, []),
        (3, TREE_GATES - {COMPOSITE_POD_GROUPS}, ["a-0", "a-1"]),
    ],
)
@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_trees_in_library_mode(version: str, nodes: int, gates: frozenset[str], placed: list[str]) -> None:
    tree = in_1_37("CompositePodGroup", "v1alpha3", "job", {"schedulingPolicy": {"gang": {"minGroupCount": 2}}})
    leaf_spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "job"}
    groups = [in_1_37("PodGroup", version, name, leaf_spec) for name in ("a", "b")]
    queue = [member(f"{name}-{index}", name, cpu="700m") for index in range(2) for name in ("a", "b")]
    run = place([*(node(f"n{index}", cpu="1") for index in range(nodes)), tree, *groups], queue, load(None, gates))
    assert sorted(one.pod.partition("/")[2] for one in run.attempts if one.decision.scheduled) == placed
    assert len(run.attempts) == len(queue)


@pytest.mark.parametrize(
    ("in_tree", "has_other", "helps"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_change_of_a_tree_helps_the_pods_in_trees_that_are_complete(
    in_tree: bool, has_other: bool, helps: bool
) -> None:
    setup = Trees()
    setup.composite("job", 2)
    setup.group("a", 1, "job" if in_tree else "")
    setup.group("b", 1, "job", pods=1 if has_other else 0)
    queued = setup.core.queue.get("default/a-0")
    assert queued is not None
    plugin = setup.core.cycles["default-scheduler"].profile.plugins["GangScheduling"]
    event = ClusterEvent(COMPOSITE, Action.UPDATE)
    assert any(hint.may_help(event, queued.pod, None, None) for hint in plugin.events()) is helps
