"""Which pods make room, and what is said if that cannot be found out."""

from __future__ import annotations

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod


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
