"""Which namespaces the terms of a pod mean, and those of the pods that run."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner, evaluate
from bayplan.scheduler.library import typed
from tests.scheduler.objects import Tree, node, pod, together

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


def test_the_first_pod_of_those_that_want_each_other_may_be_anywhere_and_the_next_ones_where_it_is() -> None:
    planner = Planner([node(name, labels={"zone": name}) for name in "abc"])

    def asked(name: str) -> Tree:
        return pod(name, labels={"app": "web"}, affinity=together("zone", {"app": "web"}))

    def fits(name: str) -> list[str]:
        decision = planner.decide(asked(name))
        return [one for one in "abc" if decision.verdict(one) is None]

    assert fits("p") == ["a", "b", "c"]
    for item in (
        asked("p"),
        pod("p", labels={"app": "web"}),
    ):  # which brings an affinity term with it, and which does not
        first = planner.schedule(item).node
        assert fits("q") == [first]
        planner.remove("default/p")
        assert fits("q") == ["a", "b", "c"]


def test_scores_that_are_kept_follow_pods_that_come_into_a_domain() -> None:
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": near}]}
    nodes = [node(f"n{number}", cpu="9", labels={"zone": f"z{number // 2}"}) for number in range(6)]
    planner = Planner({"nodes": [*nodes, node("outside", cpu="9")]})
    asked = pod("asked", affinity={"podAffinity": wish})
    for zone in range(3):
        for number in range(1 + 2 * zone):
            planner.add("Pod", typed("Pod", pod(f"web-{zone}-{number}", on=f"n{2 * zone}", labels={"app": "web"})))
        decision = planner.decide(planner.pod(asked))
        scores = decision.scores["InterPodAffinity"]
        best = {name for name, score in zip(decision.names, scores.tolist(), strict=True) if score == scores.max()}
        assert best == {f"n{2 * zone}", f"n{2 * zone + 1}"}
