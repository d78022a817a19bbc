"""Topology-aware placement: a whole pod group on the nodes of one domain."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.framework.placements import DomainSums, Placements
from bayplan.scheduler.gangs import gang_cycle
from bayplan.scheduler.gangs.placement_capacity import PlacementCapacity
from bayplan.scheduler.gangs.placement_steps import decision_within
from bayplan.scheduler.library import Planner, typed
from bayplan.scheduler.plugins.topology_placement_generator import TopologyPlacementGenerator
from tests.scheduler.gangs.test_gangs import group, member, messages, outcomes, places
from tests.scheduler.objects import Tree, apart, node, pod
from tests.scheduler.test_core import Setup

GATES = frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING, TOPOLOGY_AWARE))
RACK = "example.com/rack"
ZONE = "topology.kubernetes.io/zone"


class TopologySetup(Setup):
    """A core with the gate on."""

    def __init__(self, gates: frozenset[str] = GATES, config: Tree | None = None) -> None:
        super().__init__()
        self.core = SchedulerCore(load(config, gates), self.clock, random.Random(1))

    def racks(self, **sizes: int) -> None:
        """Nodes of one core each in racks."""
        for rack, size in sizes.items():
            for index in range(size):
                self.see("Node", node(f"{rack}-{index}", cpu="1", labels={RACK: rack}))


def within(name: str, count: int, *keys: str, preferred: str = "") -> Tree:
    tree = group(name, count)
    if keys:
        tree["spec"]["schedulingConstraints"] = {"topology": [{"key": key} for key in keys]}
    if preferred:
        tree["metadata"]["annotations"] = {"bayplan.dev/preferred-topology": preferred}
    return tree


def gang(setup: Setup, tree: Tree, size: int, **fields: Any) -> None:
    name = tree["metadata"]["name"]
    setup.see("PodGroup", tree)
    for index in range(size):
        setup.see("Pod", member(f"{name}{index}", name, **{"cpu": "700m", **fields}))


def racks_of(found: list[Outcome]) -> set[str]:
    return {str(place).rpartition("-")[0] for place in places(found).values() if place is not None}


def group_message(found: list[Outcome]) -> str:
    assert found[0].group is not None
    return found[0].group.message


def test_a_group_runs_within_one_rack() -> None:
    setup = TopologySetup()
    setup.racks(r1=2, r2=3, r3=2)
    gang(setup, within("g", 3, RACK), 3)
    found = outcomes(setup)
    assert racks_of(found) == {"r2"}
    assert found[0].group is not None
    assert found[0].group.scheduled


def test_with_the_gate_off_the_constraint_is_not_looked_at() -> None:
    setup = Setup()
    for index in range(2):
        setup.see("Node", node(f"r{index}-0", cpu="1", labels={RACK: f"r{index}"}))
    gang(setup, within("g", 2, RACK), 2)
    assert racks_of(outcomes(setup)) == {"r0", "r1"}


def test_a_profile_that_names_the_plugin_needs_no_gate() -> None:
    enabled = [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
    setup = TopologySetup(frozenset(), config)
    setup.racks(r1=1, r2=2)
    gang(setup, within("g", 2, RACK), 2)
    assert racks_of(outcomes(setup)) == {"r2"}


def test_of_racks_that_hold_the_group_the_fuller_one_is_taken() -> None:
    setup = TopologySetup()
    setup.racks(r1=4, r2=4, r3=4)
    for index in range(2):
        setup.see("Pod", pod(f"low{index}", cpu="700m", on=f"r2-{index}"))
    gang(setup, within("g", 2, RACK), 2)
    assert racks_of(outcomes(setup)) == {"r2"}


def test_a_rack_that_holds_more_of_the_group_is_better() -> None:
    setup = TopologySetup()
    setup.racks(r1=2, r2=4)
    gang(setup, within("g", 2, RACK), 4)
    found = outcomes(setup)
    assert racks_of(found) == {"r2"}
    assert len([place for place in places(found).values() if place]) == 4


def test_a_full_rack_that_holds_less_can_still_be_better() -> None:
    """Counts are ranked relative to one another: 100 and 90, with 10 and 90 for how full the racks are then."""
    setup = TopologySetup()
    setup.racks(small=9, large=100)
    gang(setup, within("g", 2, RACK), 10)
    assert racks_of(outcomes(setup)) == {"small"}


def test_only_racks_that_can_hold_the_group_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = TopologySetup()
    setup.racks(r1=1, r2=2, r3=3, r4=1)
    tried: list[set[str]] = []

    def spy(cycle: Any, extenders: Any, info: Any, rows: Any) -> Any:
        tried.append({cycle.snapshot.name(int(row)).partition("-")[0] for row in rows})
        return decision_within(cycle, extenders, info, rows)

    monkeypatch.setattr(gang_cycle, "decision_within", spy)
    gang(setup, within("g", 3, RACK), 3)
    outcomes(setup)
    assert tried == [{"r3"}] * 3


def test_a_rack_in_which_the_pods_are_in_each_others_way_is_left_for_the_next() -> None:
    setup = TopologySetup()
    for name, rack in (("a-0", "a"), ("b-0", "b"), ("b-1", "b")):
        setup.see("Node", node(name, cpu="4" if rack == "a" else "8", labels={RACK: rack}))
    rule = apart("kubernetes.io/hostname", {"gang": "g"})
    gang(setup, within("g", 2, RACK), 2, labels={"gang": "g"}, affinity=rule)
    assert racks_of(outcomes(setup)) == {"b"}


def test_a_group_that_no_rack_holds_is_told_which_comes_closest() -> None:
    setup = TopologySetup()
    setup.racks(r1=1, r2=2)
    gang(setup, within("g", 3, RACK), 3)
    found = outcomes(setup)
    assert set(places(found).values()) == {None}
    assert group_message(found) == (
        "0/2 placements are available, first placement status: pod group is unschedulable; "
        "example.com/rack r2 has the most room, for 2 of the 3 pods that are needed"
    )
    assert any(text.startswith("0/2 nodes are available: 2 Insufficient cpu.") for text in messages(found).values())
    assert not setup.core.snapshot.pods
    setup.see("Node", node("r2-9", cpu="1", labels={RACK: "r2"}))
    setup.clock.seconds += 10
    assert racks_of(outcomes(setup)) == {"r2"}


@pytest.mark.parametrize(
    ("keys", "cause"),
    [
        (("example.com/pod",), "no feasible placements found: no node has the label example.com/pod"),
        (
            (RACK, ZONE),
            "no feasible placements found: a pod group has one topology key at most, not example.com/rack, "
            "topology.kubernetes.io/zone",
        ),
    ],
)
def test_a_constraint_that_no_node_can_meet_is_named(keys: tuple[str, ...], cause: str) -> None:
    setup = TopologySetup()
    setup.racks(r1=3)
    gang(setup, within("g", 2, *keys), 2)
    found = outcomes(setup)
    assert group_message(found) == cause
    assert set(messages(found).values()) == {cause}
    setup.see("Pod", pod("other", cpu="700m"))
    assert places(outcomes(setup))["other"] is not None


def test_a_label_that_comes_wakes_the_group() -> None:
    setup = TopologySetup()
    bare = setup.see("Node", node("r1-0", cpu="4"))
    gang(setup, within("g", 2, RACK), 2)
    assert set(places(outcomes(setup)).values()) == {None}
    setup.core.handle("Node", bare, typed("Node", node("r1-0", cpu="4", labels={RACK: "r1"})))
    setup.clock.seconds += 10
    assert racks_of(outcomes(setup)) == {"r1"}


def test_pods_that_run_already_say_which_rack() -> None:
    setup = TopologySetup()
    setup.racks(r1=3, r2=2)
    setup.see("PodGroup", within("g", 2, RACK))
    setup.see("Pod", member("g0", "g", cpu="700m", on="r2-0"))
    setup.see("Pod", member("g1", "g", cpu="700m"))
    assert places(outcomes(setup)) == {"g1": "r2-1"}


@pytest.mark.parametrize(
    ("on", "racks"),
    [((), "rrR"), (("n0",), "r"), (("n2",), "R"), (("n0", "n1"), "r"), (("n0", "n2"), ""), (("bare",), "")],
)
def test_of_preferred_racks_the_one_is_left_that_has_all_pods_which_run_already(
    on: tuple[str, ...], racks: str
) -> None:
    nodes = [node(f"n{index}", labels={RACK: rack}) for index, rack in enumerate("rrR")]
    running = [member(f"g{index}", "g", on=place) for index, place in enumerate(on)]
    planner = Planner([*nodes, node("bare"), *running])
    plugin = next(iter(planner.cycle_for(planner.pod(pod("p"))).profile.plugins.values()))
    generator = TopologyPlacementGenerator(None, plugin.handle)
    placed = [planner.snapshot.pods[f"default/g{index}"] for index in range(len(on))]
    levels = generator.generate_placements(typed("PodGroup", within("g", 1, preferred=RACK)), placed)
    assert isinstance(levels, tuple)
    assert len(levels) == (2 if racks else 1)
    ids = levels[0].domain_of[:3].tolist() if racks else []
    assert "".join(levels[0].names[number] for number in ids if number >= 0) == racks * (1 if racks != "r" else 2)


@pytest.mark.parametrize(
    ("on", "cause"),
    [
        (("r1-0", "r2-0"), "more than 1 domain found for pod group: r1, r2"),
        (("bare",), "no topology domain found for pod default/g0"),
    ],
)
def test_pods_that_run_against_the_constraint_are_an_error(on: tuple[str, ...], cause: str) -> None:
    setup = TopologySetup()
    setup.racks(r1=3, r2=2)
    setup.see("Node", node("bare"))
    setup.see("PodGroup", within("g", 2, RACK))
    for index, place in enumerate(on):
        setup.see("Pod", member(f"g{index}", "g", on=place))
    setup.see("Pod", member("last", "g"))
    found = outcomes(setup)
    assert found[0].group is not None
    assert found[0].group.reason == "SchedulerError"
    assert cause in found[0].group.message


def test_preferred_levels_are_tried_from_the_narrowest_on() -> None:
    def story(sizes: tuple[int, ...], count: int) -> set[str]:
        setup = TopologySetup()
        for number, size in enumerate(sizes):
            for index in range(size):
                labels = {RACK: f"r{number}", ZONE: f"z{number // 2}"}
                setup.see("Node", node(f"r{number}-{index}", cpu="1", labels=labels))
        gang(setup, within("g", count, preferred=f"{RACK}, {ZONE}"), count)
        return racks_of(outcomes(setup))

    assert story((2, 2, 3, 1), 3) == {"r2"}
    assert story((2, 2, 2, 1), 4) == {"r0", "r1"}
    assert story((2, 2, 1, 1), 5) in ({"r0", "r1", "r2"}, {"r0", "r1", "r3"}, {"r0", "r1", "r2", "r3"})
    assert story((2, 2, 1, 1), 7) == set()


@pytest.mark.parametrize(("running", "rack"), [(("r1-0",), {"r1"}), (("r1-0", "r2-0"), {"r0"})])
def test_a_preferred_level_that_holds_the_running_pods_is_kept_to(running: tuple[str, ...], rack: set[str]) -> None:
    setup = TopologySetup()
    setup.racks(r0=3, r1=3, r2=2)
    setup.see("Node", node("r0-full", cpu="1", labels={RACK: "r0"}))
    setup.see("Pod", pod("elsewhere", cpu="1", on="r0-full"))  # so that r0 is the fullest, and the best by that
    setup.see("PodGroup", within("g", 3, preferred=RACK))
    for index, place in enumerate(running):
        setup.see("Pod", member(f"there{index}", "g", cpu="700m", on=place))
    for index in range(3 - len(running)):
        setup.see("Pod", member(f"g{index}", "g", cpu="700m"))
    found = outcomes(setup)
    assert len(places(found)) == 3 - len(running)
    assert racks_of(found) == rack


def test_a_preferred_level_stays_within_the_required_one() -> None:
    setup = TopologySetup()
    for name, rack, zone in (("a-0", "x", "z1"), ("b-0", "x", "z2"), ("c-0", "y", "z2"), ("d-0", "w", "z2")):
        setup.see("Node", node(name, cpu="1", labels={RACK: rack, ZONE: zone}))
    gang(setup, within("g", 2, ZONE, preferred=RACK), 2)
    assert "a" not in racks_of(outcomes(setup))


def test_a_constrained_group_evicts_nobody() -> None:
    setup = TopologySetup()
    setup.racks(r1=2)
    setup.see("Pod", pod("low", cpu="700m", on="r1-0"))
    gang(setup, within("g", 2, RACK), 2, priority=10)
    found = outcomes(setup)
    assert [item.decision.victims for item in found] == [(), ()]
    assert any(
        "preemption: not eligible due to placement-based pod group scheduling limitation" in text
        for text in messages(found).values()
    )


def test_a_group_without_constraints_is_placed_as_ever_with_the_gate_on() -> None:
    setup = TopologySetup()
    setup.racks(r1=1, r2=1)
    gang(setup, within("g", 2), 2)
    assert racks_of(outcomes(setup)) == {"r1", "r2"}


def score(size: int, used: int, count: int, most: int) -> int:
    """How the two plugins rank a rack of one-core nodes with pods of 700m, memory being requested by default only."""
    cpu = min(used + count * 700, size * 1000) * 100 // (size * 1000)
    memory = (used // 700 + count) * (200 << 20) * 100 // (size * (8 << 30))
    return 100 * count // most + (cpu + memory) // 2


@settings(max_examples=60, deadline=None)
@given(
    racks=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=6),
    size=st.integers(1, 6),
    data=st.data(),
)
def test_the_rack_is_the_best_of_those_that_hold_the_group(
    racks: list[tuple[int, int]], size: int, data: st.DataObject
) -> None:
    minimum = data.draw(st.integers(1, size))
    setup = TopologySetup()
    free: dict[str, tuple[int, int, int]] = {}
    for number, (nodes, used) in enumerate(racks):
        setup.racks(**{f"r{number}": nodes})
        used = min(nodes, used)
        for index in range(used):
            setup.see("Pod", pod(f"p{number}-{index}", cpu="700m", on=f"r{number}-{index}"))
        free[f"r{number}"] = (nodes, used * 700, min(nodes - used, size))
    gang(setup, within("g", minimum, RACK), size)
    found = outcomes(setup)
    holding = {name: facts for name, facts in free.items() if facts[2] >= minimum}
    placed = Counter(place for place in racks_of(found))
    if not holding:
        assert not placed
        return
    most = max(count for _, _, count in holding.values())
    scores = {name: score(nodes, used, count, most) for name, (nodes, used, count) in holding.items()}
    (chosen,) = placed
    assert scores[chosen] == max(scores.values())
    assert len([place for place in places(found).values() if place]) == holding[chosen][2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=30), st.integers(1, 4))
def test_sums_per_domain_follow_the_rows(changes: list[tuple[int, int]], domains: int) -> None:
    planner = Planner([node(f"n{index}", labels={RACK: f"r{index % domains}"}) for index in range(6)])
    snapshot = planner.snapshot
    column = snapshot.label_column(RACK)
    placements = Placements(RACK, tuple(column.values), column.ids.copy())
    sums = DomainSums(snapshot, lambda rows: snapshot.pod_count[rows].copy())
    for number, (row, count) in enumerate(changes):
        for index in range(count):
            planner.add("Pod", pod(f"p{number}-{index}", on=f"n{row}"))
        expected = [int(snapshot.pod_count[placements.rows_of(domain)].sum()) for domain in range(domains)]
        assert sums.of(placements).tolist() == expected


def test_names_of_joint_levels_and_their_order() -> None:
    planner = Planner(
        [node(f"n{index}", labels={RACK: f"r{index % 2}", ZONE: f"z{index // 2}"}) for index in range(4)],
        load(None, GATES),
    )
    generator = planner.cycle_for(planner.pod(pod("p"))).profile.plugins["TopologyPlacementGenerator"]
    assert isinstance(generator, TopologyPlacementGenerator)
    levels = generator.generate_placements(typed("PodGroup", within("g", 1, ZONE, preferred=RACK)), ())
    assert isinstance(levels, tuple)
    assert sorted(levels[0].names) == ["z0/r0", "z0/r1", "z1/r0", "z1/r1"]
    assert np.argsort(levels[0].ranks).tolist() == sorted(range(4), key=levels[0].names.__getitem__)
    assert levels[1].label == ZONE


@pytest.mark.parametrize("seed", range(6))
def test_what_sets_hold_is_the_same_for_shapes_that_share_sums(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [node(f"n{index}", labels={RACK: f"r{index % 3}"}, cpu=f"{chance.randint(1, 4)}") for index in range(9)]
    planner = Planner(nodes)
    cycle = planner.cycle_for(planner.pod(pod("any")))
    column = planner.snapshot.label_column(RACK)
    placements = Placements(RACK, tuple(column.values), column.ids.copy())
    for number in range(25):
        fields: dict[str, Any] = {"cpu": chance.choice(("500m", "1")), "labels": {"app": f"a{number % 4}"}}
        if chance.random() < 0.3:
            fields["ports"] = (80,)
        if chance.random() < 0.3:
            fields["nodeSelector"] = {RACK: "r1"}
        asked = pod(f"p{number}", **fields)
        shape = planner.pod(asked).shape
        alone = PlacementCapacity(cycle).of(shape, placements)
        assert cycle.placement_capacity.of(shape, placements).tolist() == alone.tolist()
        if chance.random() < 0.4:
            planner.schedule(asked)
