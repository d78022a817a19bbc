"""Which namespaces the terms of a pod mean, and those of the pods that run."""

from __future__ import annotations

import pytest

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod

HOST = "kubernetes.io/hostname"


def namespace(name: str, **labels: str) -> Tree:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def apart_in(selector: Tree) -> Tree:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def placed(name: str, where: str, on: str, **spec: Tree) -> Tree:
    tree = pod(name, on=on, labels={"app": "web"})
    tree["spec"] |= spec
    tree["metadata"]["namespace"] = where
    return tree


def expression(operator: str, *values: str) -> Tree:
    return {"matchExpressions": [{"key": "team", "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(
    ("selector", "refused"),
    [
        ({}, "abc"),
        ({"matchLabels": {"team": "one"}}, "a"),
        (expression("Exists"), "ab"),
        (expression("DoesNotExist"), "abc"),
        (expression("NotIn", "one"), "abc"),
        ({"matchLabels": {"team": "two"}} | expression("NotIn", "one"), "b"),
    ],
)
def test_for_the_pod_itself_a_selector_that_no_labels_at_all_satisfy_takes_all_namespaces(
    selector: Tree, refused: str
) -> None:
    objects = [
        *(node(name) for name in "abcd"),
        namespace("one", team="one"),
        namespace("two", team="two"),
        placed("p", "one", "a"),
        placed("q", "two", "b"),
        placed("r", "unknown", "c"),
    ]
    found = evaluate(objects, pod("new", affinity=apart_in(selector))).to_dict()["nodes"]
    assert "".join(name for name, item in found.items() if "ok" not in item["filter"]) == refused


def test_for_pods_that_run_the_labels_of_the_namespace_count() -> None:
    objects = [
        node("a"),
        namespace("default", team="one"),
        placed("p", "one", "a", affinity=apart_in(expression("DoesNotExist"))),
    ]
    new = pod("new", labels={"app": "web"})
    assert evaluate(objects, new).node == "a"
    assert evaluate([item for item in objects if item["kind"] != "Namespace"], new).node is None
