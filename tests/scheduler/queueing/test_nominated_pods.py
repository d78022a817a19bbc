"""What a nomination means for the pod itself: its node is looked at first; failures end it."""

from __future__ import annotations

from typing import Any

from bayplan.scheduler import evaluate, place
from tests.scheduler.objects import Tree, node, pod, taint


def nominated(tree: Tree, name: str) -> Tree:
    tree["status"]["nominatedNodeName"] = name
    return tree


def only_on(*names: str) -> Tree:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_the_nominated_node_is_looked_at_even_outside_the_set_of_nodes() -> None:
    new = nominated(pod("p", affinity=only_on("a")), "c")
    nodes = [node("a", pods="0"), node("b"), node("c", taints=(taint("x"),))]
    told = evaluate(nodes, new).to_dict()
    found: Any = {
        name: (item["filter"].get("plugin"), item["filter"]["reasons"]) for name, item in told["nodes"].items()
    }
    assert found == {
        "a": ("NodeResourcesFit", ["Too many pods"]),
        "b": (None, ["node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration]"]),
        "c": ("TaintToleration", ["node(s) had untolerated taint(s)"]),
    }


def test_a_node_outside_the_set_that_would_fit_is_refused_by_the_plugin_that_made_the_set() -> None:
    told = evaluate([node("a", pods="0"), node("b")], nominated(pod("p", affinity=only_on("a")), "b")).to_dict()
    assert told["nodes"]["b"]["filter"]["plugin"] == "NodeAffinity"


def without(*names: str) -> Tree:
    disabled = {"disabled": [{"name": name} for name in names]}
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": {"postFilter": disabled}}]}


def second_place(config: Tree | None, **fields: Any) -> str | None:
    """Where a pod lands that has room only if a failed pod's nomination, to the same node, has ended."""
    failed = nominated(pod("first", cpu="3", priority=5, **fields), "a")
    run = place([node("a")], [failed, pod("second", cpu="3")], config)
    assert run.attempts[0].decision.node is None
    return run.attempts[1].decision.node


def test_a_nomination_ends_with_a_failed_attempt_unless_nobody_looked_whether_evictions_help() -> None:
    selector = {"nodeSelector": {"disk": "ssd"}}
    assert second_place(None, **selector) == "a"
    assert second_place(without("*"), **selector) == "a"
    assert second_place(without("DefaultPreemption"), **selector) is None
    assert second_place(None, preemptionPolicy="Never", **selector) is None
