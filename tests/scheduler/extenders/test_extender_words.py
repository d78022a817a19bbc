"""What extenders say of nodes that they were not asked about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.scheduler import evaluate
from bayplan.scheduler.extenders.protocol import Call
from tests.scheduler.objects import Tree, node, pod, taint

CONFIG = {"extenders": [{"urlPrefix": "http://extender", "filterVerb": "filter", "nodeCacheCapable": True}]}


def answering(*names: str, **told: Any) -> Tree:
    def ask(call: Call) -> Any:
        return {"nodeNames": list(names), **told}

    nodes = [node("a"), node("b"), node("c", taints=(taint("x"),))]
    return evaluate(nodes, pod("p"), CONFIG, ask=ask).to_dict()


def test_the_word_of_an_extender_replaces_that_of_a_plugin() -> None:
    told = answering(failedNodes={"a": "busy", "c": "old"}, failedAndUnresolvableNodes={"b": "no"})
    assert told["message"].startswith("0/3 nodes are available: 1 busy, 1 no, 1 old.")
    assert told["unschedulablePlugins"] == ["Extender", "TaintToleration"]
    assert answering("a", failedNodes={"c": "old"})["best"] == ["a"]


def test_the_last_word_on_a_node_counts_that_a_later_extender_refuses_without_one() -> None:
    first = {"nodeNames": ["a", "b"], "failedNodes": {"a": "so so"}}
    answers: Iterator[Tree] = iter((first, {"nodeNames": []}))
    config = {"extenders": CONFIG["extenders"] * 2}
    told = evaluate([node("a"), node("b")], pod("p"), config, ask=lambda call: next(answers)).to_dict()["nodes"]
    assert told["a"]["filter"]["reasons"] == ["so so"]
    assert told["b"]["filter"]["reasons"] == []


def test_nodes_of_which_nothing_is_said_are_refused_without_a_reason() -> None:
    told = answering()
    assert told["message"].startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s). no new claims")
    assert told["unschedulablePlugins"] == ["Extender", "TaintToleration"]
