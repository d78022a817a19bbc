"""What is kept between decisions equals what a fresh scheduler works out, on clusters by chance.

The clusters are large enough for changes of a whole zone to take the way of the arrays, and small enough for nodes to
fill up. `BAYPLAN_UPKEEP_RUNS=1000` makes it that many clusters.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.framework import resource_columns, spreading
from bayplan.scheduler.plugins import inter_pod_affinity
from bayplan.scheduler.scoring import cross_node_scores, evaluation, totals
from bayplan.scheduler.snapshot import snapshot
from tests.scheduler.kernels.loaded import use
from tests.scheduler.objects import affinity_term, node, pod, spread, taint

RUNS = int(os.environ.get("BAYPLAN_UPKEEP_RUNS", "24"))
STEPS = 20
HOSTNAME = "kubernetes.io/hostname"
KEYS = ("zone", "zone", HOSTNAME, "rack")
APPS = ("web", "db", "cache")


def a_cluster(chance: random.Random) -> list[dict[str, Any]]:
    zones = chance.choice((1, 2, 3))
    nodes = []
    for index in range(chance.randint(36, 80)):
        labels = {}
        if chance.random() < 0.95:
            labels["zone"] = f"z{index % zones}"
        if chance.random() < 0.5:
            labels["rack"] = f"r{index // 4}"
        taints = (taint("soft", "PreferNoSchedule"),) if chance.random() < 0.2 else ()
        limit = str(chance.choice((2, 3, 110)))
        nodes.append(node(f"n{index * 7 % 100:02}", labels=labels, taints=taints, cpu="1", memory="2Gi", pods=limit))
    return nodes


def terms(chance: random.Random, *, preferred: bool) -> list[dict[str, Any]]:
    made = []
    for _ in range(chance.randint(1, 2)):
        term = affinity_term(chance.choice(KEYS), {"app": chance.choice(APPS)})
        made.append({"weight": chance.randint(1, 100), "podAffinityTerm": term} if preferred else term)
    return made


def a_form(chance: random.Random) -> dict[str, Any]:
    """What pods of one kind have in common."""
    affinity: dict[str, Any] = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules: dict[str, Any] = {}
        if chance.random() < 0.25:
            rules["requiredDuringSchedulingIgnoredDuringExecution"] = terms(chance, preferred=False)
        if chance.random() < 0.3:
            rules["preferredDuringSchedulingIgnoredDuringExecution"] = terms(chance, preferred=True)
        if rules:
            affinity[kind] = rules
    spec: dict[str, Any] = {"affinity": affinity} if affinity else {}
    if chance.random() < 0.5:
        constraints = []
        for key in dict.fromkeys(chance.choices(KEYS, k=2)):
            when = chance.choice(("DoNotSchedule", "ScheduleAnyway"))
            one = spread(key, {"app": chance.choice(APPS)}, when=when)
            one["maxSkew"] = chance.choice((1, 1, 2, 5))
            if when == "DoNotSchedule" and chance.random() < 0.3:
                one["minDomains"] = chance.choice((2, 4))
            constraints.append(one)
        spec["topologySpreadConstraints"] = constraints
    return {
        "cpu": chance.choice(("100m", "400m", "600m")),
        "labels": {"app": chance.choice(APPS)},
        "priority": chance.choice((0, 0, 0, 5)),
        **spec,
    }


def judged_afresh(cluster: list[Any], lasting: Planner, item: dict[str, Any], nominated: list[tuple[Any, str]]) -> Any:
    fresh = Planner(cluster)
    for info in lasting.snapshot.pods.values():
        fresh.snapshot.place(fresh.snapshot.pod_info(info.pod), info.node_name)
    for nominee, node_name in nominated:
        fresh.nominator.add(fresh.pod(nominee), node_name)
    return fresh.decide(item, explain=True).to_dict()


@pytest.mark.parametrize("seed", range(RUNS))
def test_answers_about_many_rows_at_once_equal_those_of_a_fresh_scheduler(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (evaluation, totals, cross_node_scores, spreading, inter_pod_affinity, resource_columns):
        monkeypatch.setattr(module, "_FEW", 0)
    use(monkeypatch, "numpy" if seed % 2 else "python")
    monkeypatch.setattr(snapshot, "_LISTED", 0)
    monkeypatch.setattr(snapshot, "_WIDTH_OF_LISTING", 1 << 20)
    expect_answers_of_a_fresh_scheduler(1000 + seed)


@pytest.mark.parametrize("seed", range(RUNS))
def test_kept_answers_equal_those_of_a_fresh_scheduler(seed: int) -> None:
    expect_answers_of_a_fresh_scheduler(seed)


def expect_answers_of_a_fresh_scheduler(seed: int) -> None:
    """Let pods come and go, and compare each decision with one that knows nothing from before."""
    chance = random.Random(seed)
    service = {
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    cluster = [*a_cluster(chance), service]
    lasting = Planner(cluster)
    forms = [a_form(chance) for _ in range(chance.randint(1, 3))]
    nominated: list[tuple[Any, str]] = []
    for step in range(STEPS):
        item = pod(f"p{step}", **chance.choice(forms))
        for _ in range(chance.choice((0, 0, 1, 3))):
            placed = sorted(lasting.snapshot.pods)
            if placed:
                lasting.remove(chance.choice(placed))
        for nominee, _ in nominated:
            expected = judged_afresh(cluster, lasting, nominee, nominated)
            assert lasting.decide(lasting.pod(nominee), explain=True).to_dict() == expected, f"nominee, step {step}"
        expected = judged_afresh(cluster, lasting, item, nominated)
        assert lasting.decide(item, explain=True).to_dict() == expected, f"step {step}"
        if chance.random() < 0.15:
            nominee = pod(f"nominated{step}", **{**chance.choice(forms), "priority": chance.choice((0, 5))})
            nominated.append((nominee, chance.choice(cluster[:-1])["metadata"]["name"]))
            lasting.nominator.add(lasting.pod(nominee), nominated[-1][1])
        elif nominated and chance.random() < 0.2:
            lasting.nominator.remove(f"default/{nominated.pop(0)[0]['metadata']['name']}")
        if chance.random() < 0.3:
            node_name = chance.choice(cluster[:-1])["metadata"]["name"]
            lasting.snapshot.place(lasting.snapshot.pod_info(lasting.pod(item).pod), node_name)
        else:
            lasting.schedule(item)
