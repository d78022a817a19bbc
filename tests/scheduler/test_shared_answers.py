"""Shapes that share answers are told what each would be told alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.framework import resource_columns, two_resource_scores
from bayplan.scheduler.framework.extension_points import ScorePlugin
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.scoring.evaluation import _OFTEN, Evaluation
from bayplan.scheduler.snapshot.counters import PodCounts
from tests.scheduler.kernels.loaded import use
from tests.scheduler.objects import affinity_term, node, pod, spread, taint

NODES = 24
TOLERATIONS: tuple[list[dict[str, str]], ...] = (
    [],
    [{"key": "soft", "operator": "Exists"}],
    [{"key": "hard", "operator": "Exists"}],
)
SELECTORS: tuple[dict[str, str], ...] = ({}, {"zone": "z1"}, {"zone": "z1", "rack": "r0"})
IMAGES = ("known:1", "unknown:1")


def a_cluster(chance: random.Random) -> list[dict[str, Any]]:
    nodes = []
    for index in range(NODES):
        taints = tuple(
            taint(name, effect)
            for name, effect in (("soft", "PreferNoSchedule"), ("hard", "NoSchedule"))
            if chance.random() < 0.3
        )
        labels = {"zone": f"z{index % 3}", "rack": f"r{index % 4}"}
        one = node(f"n{index:02d}", labels=labels, taints=taints, cpu="4", memory="8Gi")
        if chance.random() < 0.5:
            one["status"]["images"] = [{"names": ["known:1"], "sizeBytes": 700 << 20}]
        if chance.random() < 0.1:
            one["spec"]["unschedulable"] = True
        nodes.append(one)
    return nodes


def a_pod(chance: random.Random, name: str) -> dict[str, Any]:
    one = pod(name, cpu=f"{chance.randint(1, 900)}m", memory=f"{chance.randint(1, 900)}Mi", labels={"app": name})
    spec = one["spec"]
    spec["tolerations"] = chance.choice(TOLERATIONS)
    spec["nodeSelector"] = chance.choice(SELECTORS)
    spec["containers"][0]["image"] = chance.choice(IMAGES)
    if chance.random() < 0.1:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": chance.choice((80, 81))}]
    if chance.random() < 0.2:
        preference = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": preference}]}
        spec["affinity"] = {"nodeAffinity": rules}
    return one


@pytest.mark.parametrize("seed", range(12))
def test_a_shape_that_reads_as_another_did_gets_what_it_would_get_alone(seed: int) -> None:
    chance = random.Random(seed)
    cluster = a_cluster(chance)
    lasting = Planner(cluster)
    shared = 0
    for number in range(40):
        item = a_pod(chance, f"p{number}")
        fresh = Planner(cluster)
        for info in lasting.snapshot.pods.values():
            fresh.snapshot.place(fresh.snapshot.pod_info(info.pod), info.node_name)
        expected = fresh.decide(item, explain=True).to_dict()
        info = lasting.pod(item)
        answers = lasting.cycle_for(info).profile.shared_answers
        shared += answers.verdicts(answers.filter_parts(info.shape)) is not None
        assert lasting.decide(item, explain=True).to_dict() == expected, f"pod {number}"
        lasting.schedule(item)
    assert shared > 10


def test_plugins_after_one_that_rejects_a_pod_have_not_been_asked() -> None:
    """Of pods with volumes all but those for volumes read the same: what these say of one with a claim that is bound is no answer about one that is refused."""

    def asked(planner: Planner, claim: str) -> str:
        one = pod(claim, cpu="100m")
        one["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        return planner.decide(one).message

    planner, fresh = Planner(), Planner()
    for each in (planner, fresh):
        each.add("Node", node("a"))
        each.add(
            "StorageClass",
            {"metadata": {"name": "late"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"},
        )
        for name, kind in (("good", "late"), ("bad", "other")):
            metadata = {"name": name, "namespace": "default"}
            each.add("PersistentVolumeClaim", {"metadata": metadata, "spec": {"storageClassName": kind}})
    assert not asked(planner, "good")
    assert asked(planner, "bad") == asked(fresh, "bad")
    assert "pod has unbound immediate PersistentVolumeClaims. not found" in asked(planner, "bad")


def test_other_nodes_void_what_was_shared() -> None:
    planner = Planner([node("a", labels={"zone": "z1"})])
    assert planner.decide(pod("one", cpu="1", nodeSelector={"zone": "z2"})).row < 0
    planner.add("Node", node("b", labels={"zone": "z2"}))
    assert planner.decide(pod("two", cpu="2", nodeSelector={"zone": "z2"})).node == "b"


def in_whole_numbers(plugin: ScorePlugin, state: CycleState, planner: Planner, info: Any) -> list[int]:
    """What a plugin says row by row, which is without floats for amounts, or as kube-scheduler's floats."""
    return [plugin.score_row(state, info.shape, row) for row in range(planner.snapshot.size)]


@pytest.mark.parametrize("name", ["NodeResourcesFit", "NodeResourcesBalancedAllocation"])
@pytest.mark.parametrize(
    "capacity", [3, 97, 4000, (1 << 35) + 1, resource_columns.EXACT - 1, resource_columns.EXACT + 12345, 1 << 53]
)
def test_scores_in_floats_equal_those_of_single_rows(name: str, capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_resource_scores, "BLOCK", 25)
    chance = random.Random(capacity)
    planner = Planner([node(f"n{number:02d}", cpu="3", memory=str(capacity)) for number in range(64)])
    for number in range(64):
        taken = capacity * number // 63
        planner.snapshot.place(
            planner.pod(pod(f"p{number}", cpu=f"{47 * number}m", memory=str(taken))), f"n{number:02d}"
        )
    plugin = next(one for one in planner.cycle_for(planner.pod(pod("any"))).profile.score if one.name == name)
    for number in range(20):
        info = planner.pod(
            pod(f"new{number}", cpu=f"{chance.randint(1, 4000)}m", memory=str(chance.randint(1, capacity)))
        )
        state = CycleState(planner.snapshot)
        plugin.pre_score(state, info.shape, np.arange(64))  # type: ignore[attr-defined]
        expected = in_whole_numbers(plugin, state, planner, info)
        some = np.array([5, 63, 0], dtype=np.intp)
        for means in ("numpy", "python"):
            use(monkeypatch, means)
            assert plugin.score(state, info.shape, planner.snapshot.all_rows).tolist() == expected
            assert plugin.score(state, info.shape, some).tolist() == [expected[5], expected[63], expected[0]]
        planner.schedule(pod(f"more{number}", cpu="10m", memory="1"))


def test_terms_that_cannot_mean_a_pod_start_nothing_over() -> None:
    planner = Planner([node("a", labels={"zone": "z"})])
    counts: PodCounts = planner.snapshot.counts
    apart = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term("zone", {"app": "x"})]}
    }
    before = (counts.epoch_of({"app": "x"}), counts.epoch_of({"app": "y"}), counts.epoch_of({}))
    planner.schedule(pod("p", labels={"app": "z"}, affinity=apart))
    assert counts.epoch_of({"app": "x"}) > before[0]
    assert counts.epoch_of({"app": "y"}) == before[1]
    assert counts.epoch_of({}) == before[2]


def test_terms_without_a_label_that_must_be_there_mean_anybody() -> None:
    planner = Planner([node("a", labels={"zone": "z"})])
    counts = planner.snapshot.counts
    term = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": "zone"}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    before = counts.epoch_of({"app": "y"})
    planner.schedule(pod("p", labels={"job": "z"}, affinity=rules))
    assert counts.epoch_of({"app": "y"}) > before
    assert [group.pods for group in counts.terms("required-anti", {"app": "y"})] == [1]
    assert not planner.decide(pod("q", labels={"app": "y"})).scheduled


def test_many_changes_among_nominated_pods_cost_one_pass_and_no_look_at_each_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner = Planner([node(f"n{number:02d}", cpu="64", pods="200") for number in range(NODES)])
    planner.nominator.add(planner.pod(pod("nominee", cpu="1", priority=9)), "n00")
    waiting = planner.pod(pod("waiting", cpu="2"))
    planner.decide(waiting)
    looked_at: list[int] = []
    monkeypatch.setattr(Evaluation, "_update_row", lambda self, row: looked_at.append(row))
    planner.snapshot.place(planner.pod(pod("single", cpu="1m")), "n05")
    planner.decide(waiting)
    assert 5 in looked_at
    looked_at.clear()
    for number in range(2 * NODES - 4):
        planner.snapshot.place(planner.pod(pod(f"p{number}", cpu="1m")), f"n{number % NODES:02d}")
    assert planner.decide(waiting).scheduled
    assert looked_at == []


@pytest.mark.parametrize("number_of_nodes", [1, 1_000, 10_000_000])
def test_fewer_answers_are_shared_in_large_clusters(number_of_nodes: int) -> None:
    planner = Planner([node("a")])
    answers = planner.cycle_for(planner.pod(pod("any"))).profile.shared_answers
    planner.snapshot.size = number_of_nodes
    kept = answers._room()
    assert 1 <= kept <= answers.LIMIT
    assert kept == 1 or kept * 24 * number_of_nodes <= answers.BYTES


@pytest.mark.parametrize("seed", range(8))
def test_few_nodes_scored_alone_get_what_they_get_among_all(seed: int) -> None:
    chance = random.Random(seed)
    planner = Planner(a_cluster(chance))
    scored = 0
    for number in range(30):
        one = a_pod(chance, f"p{number}")
        kind = chance.randrange(4)
        if kind == 1:
            one["spec"]["topologySpreadConstraints"] = [spread("zone", {}, when="ScheduleAnyway")]
        elif kind == 2:
            term = {"weight": 7, "podAffinityTerm": affinity_term("rack", {"app": f"p{number // 2}"})}
            one["spec"]["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        info = planner.pod(one)
        cycle = planner.cycle_for(info)
        alone = Evaluation(cycle.profile, info.shape)
        alone.refresh()
        candidates = np.flatnonzero(alone.codes == 0)
        rows = candidates[[chance.random() < 0.4 for _ in candidates]] if alone.rejection is None else candidates[:0]
        if len(rows):
            codes = np.full_like(alone.codes, -1)
            codes[rows] = 0
            every = Evaluation(cycle.profile, info.shape)
            every.refresh()
            every.score(cycle.order())
            expected = every.totals.among(every.state, codes, scored=False)[1]
            few = alone.totals.of_few(alone.state, codes, rows)
            assert few is not None
            assert few.tolist() == expected.tolist()
            assert not alone.totals.is_known
            scored += 1
        planner.schedule(one)
    assert scored > 15


def test_scores_of_all_nodes_are_worked_out_once_few_of_them_were_wanted_often() -> None:
    planner = Planner([node(name, cpu="4") for name in "abc"])
    planner.schedule(pod("first", cpu="1"))
    info = planner.pod(pod("p", cpu="2"))
    cycle = planner.cycle_for(info)
    evaluation = cycle.evaluation(info.shape)
    codes = np.array([0, -1, 0], dtype=np.int32)
    for _ in range(_OFTEN):
        evaluation.score_feasible(codes, cycle.order(), scored=False)
        assert not evaluation.totals.is_known
    found = evaluation.score_feasible(codes, cycle.order(), scored=False)[1]
    assert evaluation.totals.is_known
    assert found.tolist() == evaluation.totals.among(evaluation.state, codes, scored=False)[1].tolist()
