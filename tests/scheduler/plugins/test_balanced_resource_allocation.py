"""BalancedResourceAllocation of `Policy` files: the formula of its time."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import Planner
from tests.scheduler.objects import Tree, node, pod

POLICY: Tree = {
    "kind": "Policy",
    "apiVersion": "v1",
    "priorities": [{"name": "BalancedResourceAllocation", "weight": 1}],
}


def scores(cluster: list[Tree], item: Tree, config: Any = POLICY) -> dict[str, int]:
    decision = Planner(cluster, config).decide(item, explain=True)
    values = decision.scores["BalancedResourceAllocation"]
    return {name: int(values[row]) for row, name in enumerate(decision.names) if decision.codes[row] == 0}


@pytest.mark.parametrize(
    ("cpu", "memory", "score"),
    [
        ("1", "2Gi", 100),  # a quarter of both
        ("2", "2Gi", 75),  # half, and a quarter
        ("1", "6Gi", 50),
        ("4", "2Gi", 0),  # full
        ("1", "8Gi", 0),
        ("100m", "1Gi", 90),  # 0.025 and 0.125
    ],
)
def test_the_closer_the_shares_the_higher_the_score(cpu: str, memory: str, score: int) -> None:
    cluster = [node("a"), node("b")]
    assert scores(cluster, pod("p", cpu=cpu, memory=memory)) == {"a": score, "b": score}


def test_what_is_there_already_counts_and_what_says_nothing_counts_with_defaults() -> None:
    cluster = [node("a"), node("b"), pod("there", cpu="2", on="a")]
    # 2.1 of 4 cores, and 400Mi of 8Gi; 0.1 of 4 cores, and 200Mi of 8Gi
    assert scores(cluster, pod("p")) == {"a": int((1 - abs(2100 / 4000 - 400 / 8192)) * 100), "b": 99}


def test_the_successor_compares_with_the_node_without_the_pod() -> None:
    cluster = [node("a"), node("b"), pod("there", cpu="2", on="a")]
    item = pod("p", cpu="500m", memory="4Gi")
    old = Planner(cluster, POLICY).decide(item, explain=True)
    assert old.node == "a", "0.625 and about 0.55, not 0.125 and 0.5"
    modern = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "BalancedResourceAllocation"}]}}}
        ],
    }
    assert scores(cluster, item, modern) == scores(cluster, item)


def test_scores_are_kept_up_to_date_as_pods_come() -> None:
    cluster = [node(f"n{index}") for index in range(12)]
    planner = Planner(cluster, POLICY)
    for index in range(30):
        item = pod(f"p{index}", cpu="300m" if index % 3 else "1", memory="512Mi" if index % 2 else "1Gi")
        placed = [
            pod(info.pod.metadata.name, on=info.node_name) | {"spec": {**_spec(info), "nodeName": info.node_name}}
            for info in planner.snapshot.pods.values()
        ]
        fresh = Planner([*cluster, *placed], POLICY).decide(item, explain=True)
        kept = planner.decide(item, explain=True)
        assert kept.to_dict() == fresh.to_dict(), index
        planner.schedule(item)


def _spec(info: Any) -> Tree:
    containers = [
        {
            "name": one.name,
            "image": one.image,
            "resources": {"requests": {k: str(v) for k, v in one.resources.requests.items()}},
        }
        for one in info.pod.spec.containers
    ]
    return {"containers": containers, "schedulerName": "default-scheduler", "priority": 0}
