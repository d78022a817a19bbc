"""Spreading by selectors that select every pod."""

from __future__ import annotations

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod

HOST = "kubernetes.io/hostname"


def spread_over_all(name: str) -> Tree:
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return pod(name, labels={"app": "web"}, topologySpreadConstraints=[constraint])


def reserved(name: str, namespace: str = "default") -> Tree:
    tree = pod(name, priority=100)
    tree["metadata"]["namespace"] = namespace
    tree["status"]["nominatedNodeName"] = "a"
    return tree


def fits_on_a(*others: Tree) -> bool:
    told = evaluate([node("a"), node("b"), *others], spread_over_all("p")).to_dict()["nodes"]["a"]
    return "ok" in told["filter"]


def test_pods_that_run_do_not_count_but_those_that_are_promised_a_node_do() -> None:
    assert fits_on_a(pod("r", on="a"), pod("s", on="a"))
    assert not fits_on_a(reserved("r"))
    assert fits_on_a(reserved("r", namespace="other"))
