"""Preemption's columns say what a look at one node after the other says."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import numpy as np
import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.framework.extension_points import FilterPlugin
from bayplan.scheduler.framework.post_filter import Candidate
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes, PluginError, Status
from bayplan.scheduler.scoring.evaluation import Evaluation, amounts_in
from bayplan.scheduler.snapshot.labels import Rows
from tests.scheduler.installing import install
from tests.scheduler.objects import affinity_term, node, pod, spread


def a_full_cluster(chance: random.Random) -> list[dict[str, Any]]:
    nodes = [node(f"n{index}", labels={"zone": f"z{index % 2}"}, cpu="2", pods="6") for index in range(8)]
    pods = []
    for index in range(40):
        one = pod(
            f"old{index}",
            cpu=chance.choice(("200m", "500m", "900m")),
            on=f"n{chance.randrange(8) if index >= 8 else index}",
            labels={"app": chance.choice(("web", "db"))},
            priority=chance.choice((0, 1, 1, 5, 20)),
        )
        one["status"]["startTime"] = f"2026-01-0{chance.randint(1, 9)}T00:00:00Z"
        pods.append(one)
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": chance.randint(0, 2)},
    }
    return [*nodes, *pods, budget]


def a_queue(chance: random.Random) -> list[dict[str, Any]]:
    term = affinity_term("zone", {"app": "rare"})
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    forms: list[dict[str, Any]] = [
        {"cpu": "1500m", "priority": 10},
        {"cpu": "1", "priority": 3, "labels": {"app": "rare"}, "affinity": apart},
        {"cpu": "700m", "priority": 10, "ports": (80,)},
        {"cpu": "1200m", "priority": 0},
    ]
    return [pod(f"new{index}", **chance.choice(forms)) for index in range(12)]


def played(planner: Planner, queue: list[dict[str, Any]]) -> list[Any]:
    """Each pod's decision; victims go, and the pod stays nominated for the others to see."""
    answers = []
    for item in queue:
        decision = planner.schedule(planner.pod(item), full=True)
        answers.append(decision.to_dict())
        if decision.victims:
            planner.nominator.add(planner.pod(item), decision.nominated_node)
            for victim in decision.victims[:1]:
                planner.remove(victim)
    return answers


@pytest.mark.parametrize("seed", range(20))
def test_victims_are_the_same_with_the_snapshot_changed_and_with_figures_aside(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    cluster, queue = a_full_cluster(chance), a_queue(chance)
    aside = played(Planner(cluster), queue)
    monkeypatch.setattr(Evaluation, "what_if", lambda self, row: None)
    assert played(Planner(cluster), queue) == aside
    assert any(answer["postFilter"]["victims"] for answer in aside if "postFilter" in answer)


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_candidate_has_the_least_cost_and_then_the_latest_start(seed: int) -> None:
    chance = random.Random(seed)
    planner = Planner(a_full_cluster(chance))
    decision = planner.decide(pod("new", cpu="2", priority=30))
    outcome = decision.post_filter
    assert outcome is not None
    assert outcome.candidates

    def badness(candidate: Candidate) -> tuple[Any, ...]:
        return candidate.cost, [-ord(letter) for letter in candidate.top_start]

    least = min(badness(candidate) for candidate in outcome.candidates)
    assert {item.row for item in outcome.tied} == {item.row for item in outcome.candidates if badness(item) == least}
    assert outcome.nominated in outcome.tied


class Sullen(FilterPlugin):
    """Refuses a node with two pods, takes one with none, and fails when it is asked about one with one."""

    name: ClassVar[str] = "Sullen"

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        refused = self.reasons.code(Status.UNSCHEDULABLE, self.name, "no")
        counts = [len(self.snapshot.pods_on[row]) for row in self.snapshot.rows_of(rows)]
        if 1 in counts:
            raise PluginError(self.name, "where did the other go?")
        return np.array([refused if count else 0 for count in counts], dtype=np.int32)


def test_a_plugin_that_fails_while_pods_are_supposed_gone_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    lows = [pod(name, on="a", cpu="1") for name in ("low", "lower")]
    planner = Planner([node("a"), *lows], install(monkeypatch, [Sullen]))
    before = planner.snapshot.requested.tolist()
    for _ in range(2):
        assert planner.decide(pod("high", cpu="1", priority=10)).error == "where did the other go?"
        assert list(planner.snapshot.pods_on[0]) == ["default/low", "default/lower"]
        assert planner.snapshot.requested.tolist() == before


class Fraction:
    """Chooses the same among equals whoever asks."""

    def __init__(self) -> None:
        self.value = 0.0

    def index(self, count: int) -> int:
        return int(self.value * count)


FEW_CANDIDATES = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "DefaultPreemption",
                    "args": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 2},
                }
            ],
        }
    ]
}


def a_fresh_planner(cluster: list[dict[str, Any]], lasting: Planner, fraction: Fraction) -> Planner:
    """A planner that comes to know now what another one has seen happen."""
    others = [item for item in cluster if item.get("kind") != "Pod"]
    fresh = Planner(others, FEW_CANDIDATES, fraction)
    for info in lasting.snapshot.pods.values():
        fresh.snapshot.place(fresh.snapshot.pod_info(info.pod), info.node_name)
    for name in lasting.nominator.nodes():
        for info in lasting.nominator.on(name):
            fresh.nominator.add(fresh.snapshot.pod_info(info.pod, pending=True), name)
    return fresh


@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_before_makes_no_difference(seed: int) -> None:
    chance, fraction = random.Random(seed), Fraction()
    cluster = a_full_cluster(chance)
    lasting = Planner(cluster, FEW_CANDIDATES, fraction)
    waiting: dict[str, Any] = {}
    preempted = 0
    for number in range(3):
        for index, item in enumerate(a_queue(chance)):
            item["metadata"]["name"] = f"new{number}-{index}"
            fraction.value = chance.random()
            fresh = a_fresh_planner(cluster, lasting, fraction)
            expected = fresh.decide(item).to_dict()
            decision = lasting.schedule(lasting.pod(item), full=True)
            assert decision.to_dict() == expected
            if decision.victims:
                preempted += 1
                lasting.nominator.add(lasting.pod(item), decision.nominated_node)
                item["status"]["nominatedNodeName"] = decision.nominated_node
                waiting[item["metadata"]["name"]] = item, decision.victims
            if waiting and chance.random() < 0.6:
                again, victims = waiting.pop(chance.choice(sorted(waiting)))
                for victim in victims[: chance.randint(0, len(victims))]:
                    lasting.remove(victim)
                fresh = a_fresh_planner(cluster, lasting, fraction)
                expected = fresh.decide(again).to_dict()
                assert lasting.schedule(lasting.pod(again), full=True).to_dict() == expected
    assert preempted


@pytest.mark.parametrize("spec", [{}, {"topologySpreadConstraints": [spread("zone", {"app": "web"})]}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_refusals_are_counted_as_they_come_and_go(seed: int, spec: dict[str, Any]) -> None:
    chance = random.Random(seed)
    planner = Planner([node(f"n{index}", labels={"zone": f"z{index % 2}"}, cpu="1", pods="3") for index in range(80)])
    info = planner.pod(pod("new", cpu="600m", labels={"app": "web"}, **spec))
    evaluation = planner.cycle_for(info).evaluation(info.shape)
    for index in range(100):
        if index > 15 and chance.random() < 0.5:
            planner.remove(chance.choice(sorted(planner.snapshot.pods)))
        else:
            cpu, name = chance.choice(("100m", "500m")), f"n{chance.randrange(3)}"
            planner.add("Pod", pod(f"old{index}", cpu=cpu, on=name, labels={"app": "web"}))
        evaluation.refresh()
        assert evaluation.amounts() == amounts_in(evaluation.codes)
