"""Which pods make room, and what is said if that cannot be found out."""

from __future__ import annotations

import random
from typing import ClassVar

import numpy as np
import pytest

from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from bayplan.scheduler import Planner, evaluate
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.framework.extension_points import FilterPlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.library import typed
from bayplan.scheduler.plugins.default_preemption import (
    BY_GROUP,
    BY_PLACEMENT,
    NO_GROUP,
    DefaultPreemption,
)
from bayplan.scheduler.snapshot.labels import Rows
from tests.scheduler.devices import attempt
from tests.scheduler.gangs.test_gangs import group, member
from tests.scheduler.installing import install
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.test_core import Setup


def started(tree: Tree, at: str) -> Tree:
    tree["status"]["startTime"] = at
    return tree


def victims(*running: Tree, cpu: str = "4") -> list[str]:
    found = evaluate([node("a"), *running], pod("new", cpu=cpu, priority=10)).to_dict()["postFilter"]["victims"]
    return [name.removeprefix("default/") for name in found]


def test_of_pods_that_have_not_started_the_last_is_the_most_important() -> None:
    assert victims(*(pod(name, on="a", cpu="1") for name in "pqr"), cpu="2") == ["p"]
    assert victims(*(pod(name, on="a", cpu="1") for name in "pqr")) == ["r", "q", "p"]
    assert victims(*(pod(name, on="a", cpu="2") for name in "pq")) == ["q", "p"]


def test_pods_that_have_started_are_more_important_than_those_that_have_not() -> None:
    early = started(pod("q", on="a", cpu="1"), "2026-03-01T10:00:00Z")
    late = started(pod("r", on="a", cpu="1"), "2026-03-01T11:00:00Z")
    assert victims(pod("p", on="a", cpu="1"), late, early, pod("s", on="a", cpu="1")) == ["q", "r", "s", "p"]


def test_pods_that_started_together_keep_their_order() -> None:
    together = [started(pod(name, on="a", cpu="1"), "2026-03-01T10:00:00Z") for name in "pqr"]
    assert victims(*together) == ["p", "q", "r"]


def test_of_nodes_that_cost_the_same_the_one_is_taken_that_chance_picks_by_name() -> None:
    nodes = [node(name, cpu="1") for name in "cab"]
    running = [pod(f"on-{name}", on=name, cpu="1") for name in "cab"]
    found = evaluate([*nodes, *running], pod("new", cpu="1", priority=10)).to_dict()["postFilter"]
    assert (found["nominatedNode"], found["victims"]) == ("a", ["default/on-a"])
    assert found["nominatedNodes"] == ["a", "b", "c"]


def leaving(tree: Tree) -> Tree:
    """A pod that is being preempted."""
    tree["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    tree["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    return tree


def test_a_pod_waits_for_the_victims_on_its_node_unless_that_can_never_run_it() -> None:
    asked = pod("new", cpu="4", priority=10)
    asked["status"]["nominatedNodeName"] = "a"
    running = [leaving(pod("goes", on="a", cpu="4")), pod("other", on="b", cpu="4")]
    waits = evaluate([node("a"), node("b"), *running], asked).to_dict()["postFilter"]
    assert waits["victims"] == []
    assert "terminating pod on the nominated node" in waits["message"]
    cordoned = node("a")
    cordoned["spec"]["unschedulable"] = True
    elsewhere = evaluate([cordoned, node("b"), *running], asked).to_dict()["postFilter"]
    assert (elsewhere["nominatedNode"], elsewhere["victims"]) == ("b", ["default/other"])


@pytest.mark.parametrize(("priority", "waits"), [(9, True), (10, False), (11, False)])
def test_only_pods_of_lower_priority_are_waited_for(priority: int, waits: bool) -> None:
    asked = pod("new", cpu="4", priority=10)
    asked["status"]["nominatedNodeName"] = "a"
    going = leaving(pod("goes", on="a", cpu="1", priority=priority))
    objects = [node("a"), going, pod("low", on="a", cpu="3"), node("b"), pod("other", on="b", cpu="4")]
    found = evaluate(objects, asked).to_dict()["postFilter"]
    assert ("terminating pod on the nominated node" in found["message"]) is waits
    assert bool(found["victims"]) is not waits


def test_a_pod_that_is_refused_before_any_node_is_looked_at_waits_for_its_victims_as_well() -> None:
    asked = pod("new", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}], priority=10)
    asked["status"]["nominatedNodeName"] = "a"
    off = {"postFilter": {"disabled": [{"name": "DynamicResources"}]}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": off}]}
    found = evaluate([node("a"), leaving(pod("goes", on="a"))], asked, config).to_dict()
    assert "terminating pod on the nominated node" in found["postFilter"]["message"]


class Gated(Setup):
    """A core with some gates on."""

    def __init__(self, *gates: str) -> None:
        super().__init__()
        self.core = SchedulerCore(load(None, frozenset(gates)), self.clock, random.Random(1))


@pytest.mark.parametrize(
    ("gates", "constrained", "ineligible"),
    [
        ((), False, ""),
        ((), True, ""),
        ((TOPOLOGY_AWARE,), None, NO_GROUP),
        ((TOPOLOGY_AWARE,), False, ""),
        ((TOPOLOGY_AWARE,), True, BY_PLACEMENT),
        ((WORKLOAD_PREEMPTION,), None, BY_GROUP),
        ((WORKLOAD_PREEMPTION,), False, BY_GROUP),
        ((WORKLOAD_PREEMPTION,), True, BY_GROUP),
        ((TOPOLOGY_AWARE, WORKLOAD_PREEMPTION), True, BY_PLACEMENT),
        ((TOPOLOGY_AWARE, WORKLOAD_PREEMPTION), False, BY_GROUP),
    ],
)
def test_room_is_made_for_groups_as_the_gates_say_and_for_other_pods_in_any_case(
    gates: tuple[str, ...], constrained: bool | None, ineligible: str
) -> None:
    setup = Gated(GENERIC_WORKLOAD, GANG_SCHEDULING, *gates)
    if constrained is not None:
        tree = group("g", 1)
        if constrained:
            tree["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
        setup.see("PodGroup", tree)
    plugin = setup.core.cycles["default-scheduler"].profile.plugins["DefaultPreemption"]
    assert isinstance(plugin, DefaultPreemption)
    of_group = setup.core.snapshot.pod_info(typed("Pod", member("p", "g")), pending=True)
    assert plugin._left_to_group(of_group) == ineligible
    setup.see("Node", node("a"))
    setup.see("Pod", pod("low", on="a", cpu="4"))
    setup.see("Pod", pod("high", cpu="4", priority=10))
    assert list(attempt(setup).decision.victims) == ["default/low"]


def test_a_plan_forgets_what_it_found_on_nodes_that_have_changed() -> None:
    planner = Planner([node("a"), pod("low", on="a", cpu="4")])

    def victims_for(name: str) -> list[str]:
        outcome = planner.decide(pod(name, cpu="4", priority=10)).post_filter
        assert outcome is not None
        assert outcome.nominated is not None
        return [victim.key for victim in outcome.nominated.victims]

    assert victims_for("p") == ["default/low"]
    planner.add("Node", node("b"))
    planner.add("Pod", pod("lower", on="b", cpu="4", priority=-1))
    assert victims_for("p") == ["default/lower"]


class FailsOnEmptyNodes(FilterPlugin):
    """Refuses nodes with pods; when these are supposed to be gone, it fails on those that are named so."""

    name: ClassVar[str] = "FailsOnEmptyNodes"

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        if self.snapshot.pods_on[row]:
            return self.reasons.code(Status.UNSCHEDULABLE, self.name, "not empty")
        name = self.snapshot.name(row)
        return self.failed(f"{name} is empty") if name.startswith("bad") else 0


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["bad1"], 'preemption: running "FailsOnEmptyNodes" filter plugin: bad1 is empty'),
        (
            ["bad1", "bad2"],
            'preemption: [running "FailsOnEmptyNodes" filter plugin: bad1 is empty, '
            'running "FailsOnEmptyNodes" filter plugin: bad2 is empty]',
        ),
        (["bad1", "good"], ""),
    ],
)
def test_failures_are_told_together_if_no_node_can_be_cleared(
    names: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [pod(f"on-{name}", on=name) for name in names]
    planner = Planner([*(node(name) for name in names), *running], install(monkeypatch, [FailsOnEmptyNodes]))
    outcome = planner.decide(pod("new", priority=10)).post_filter
    assert outcome is not None
    assert outcome.reasons == ((told,) if told else ())
    assert (outcome.nominated is None) is bool(told)
