"""SelectorSpreadPriority and ServiceSpreadingPriority of `Policy` files: the formula of their time."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import Planner
from tests.scheduler.objects import Tree, node, pod, spread

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
WEB = {"app": "web"}


def policy(name: str = "SelectorSpreadPriority") -> Tree:
    return {"kind": "Policy", "apiVersion": "v1", "priorities": [{"name": name, "weight": 1}]}


def service(name: str = "web", selector: dict[str, str] | None = None, namespace: str = "default") -> Tree:
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector if selector is not None else WEB},
    }


def web(name: str, on: str = "", **fields: Any) -> Tree:
    return pod(name, on=on, labels=WEB, **fields)


def scores(cluster: list[Tree], item: Tree, name: str = "SelectorSpreadPriority") -> dict[str, int]:
    decision = Planner(cluster, policy(name)).decide(item, explain=True)
    values = decision.scores.get(name)
    if values is None:
        return {}
    return {one: int(values[row]) for row, one in enumerate(decision.names) if decision.codes[row] == 0}


def test_nodes_with_few_pods_of_the_service_are_preferred() -> None:
    cluster = [service(), *(node(name) for name in "abc"), web("1", "a"), web("2", "a"), web("3", "b")]
    assert scores(cluster, web("new")) == {"a": 0, "b": 50, "c": 100}


def test_pods_without_service_and_controller_score_alike_everywhere() -> None:
    cluster = [node("a"), node("b"), web("1", "a")]
    assert scores(cluster, web("new")) == {"a": 100, "b": 100}


def test_pods_of_other_namespaces_and_those_that_terminate_do_not_count() -> None:
    other = web("1", "a")
    other["metadata"]["namespace"] = "other"
    ending = web("2", "b")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = [service(), node("a"), node("b"), node("c"), other, ending, web("3", "c")]
    assert scores(cluster, web("new")) == {"a": 100, "b": 100, "c": 0}


def test_zones_count_for_two_thirds() -> None:
    def zoned(name: str, zone: str) -> Tree:
        return node(name, labels={ZONE: zone, REGION: "r"})

    cluster = [
        service(),
        zoned("a", "x"),
        zoned("b", "x"),
        zoned("c", "y"),
        web("1", "a"),
        web("2", "a"),
        web("3", "c"),
    ]
    third = 2.0 / 3.0
    expected = {
        "a": int(0.0 * (1 - third) + third * 0.0),
        "b": int(100.0 * (1 - third) + third * 0.0),
        "c": int(50.0 * (1 - third) + third * 50.0),
    }
    assert scores(cluster, web("new")) == expected
    unzoned = [*cluster, node("d")]
    assert scores(unzoned, web("new"))["d"] == 100, "a node without a zone is judged for itself"


def test_labels_of_old_name_zones_too() -> None:
    old = node("a", labels={"failure-domain.beta.kubernetes.io/zone": "x"})
    cluster = [service(), old, node("b", labels={ZONE: "x"}), web("1", "a")]
    assert scores(cluster, web("new")) == {"a": 0, "b": 33}


def test_the_controller_counts_and_for_services_alone_it_does_not() -> None:
    replica_set = {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": WEB}},
    }
    item = web("new")
    item["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    ]
    cluster = [replica_set, node("a"), node("b"), web("1", "a")]
    assert scores(cluster, item) == {"a": 0, "b": 100}
    assert scores(cluster, item, "ServiceSpreadingPriority") == {"a": 100, "b": 100}
    assert scores([service(), *cluster], item, "ServiceSpreadingPriority") == {"a": 0, "b": 100}


def test_pods_with_constraints_of_their_own_are_left_to_these() -> None:
    cluster = [service(), node("a"), node("b"), web("1", "a")]
    item = web("new", topologySpreadConstraints=[spread(ZONE, WEB, when="ScheduleAnyway")])
    assert not any(scores(cluster, item).values())


@pytest.mark.parametrize("name", ["SelectorSpreadPriority", "ServiceSpreadingPriority"])
def test_scores_follow_pods_that_come(name: str) -> None:
    planner = Planner(
        [service(), *(node(f"n{index}", labels={ZONE: f"z{index % 3}"}) for index in range(9))], policy(name)
    )
    used = [planner.schedule(web(f"p{index}", cpu="10m")).node for index in range(18)]
    assert sorted(used.count(f"n{index}") for index in range(9)) == [2] * 9
