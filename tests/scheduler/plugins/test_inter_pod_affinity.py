"""Which namespaces the terms of a pod mean, and those of the pods that run."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner, evaluate
from bayplan.scheduler.library import typed
from tests.scheduler.objects import Tree, apart, node, pod, together

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


WISH: Tree = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}}
    ]
}


@pytest.mark.parametrize(
    "affinity",
    [
        apart("zone", {"app": "web"}),
        apart(HOST, {"app": "web"}),
        together("zone", {"app": "web"}),
        together("zone", {"app": "p"}),
        {"podAffinity": WISH},
        {"podAntiAffinity": WISH},
        {"podAffinity": WISH} | apart(HOST, {"app": "db"}),
        {},
    ],
)
def test_answers_that_are_kept_follow_pods_that_come_and_go(affinity: Tree) -> None:
    """After each change, a planner that knows the pod says the same as one that has never seen it."""
    zones = {name: f"z{index // 2}" for index, name in enumerate("abcdefgh")}
    nodes = [*(node(name, labels={"zone": zone}) for name, zone in zones.items()), node("outside")]
    asked = pod("p", labels={"app": "p"}, affinity=affinity)

    def answers(planner: Planner) -> list[object]:
        decision = planner.decide(planner.pod(asked), explain=True)
        verdicts = [decision.verdict(one["metadata"]["name"]) for one in nodes]
        scores = decision.scores.get("InterPodAffinity")
        return [*(one.reasons if one else None for one in verdicts), scores.tolist() if scores is not None else None]

    kept, there = Planner(nodes), dict[str, Tree]()
    seen = [answers(kept)]

    def now(*came: Tree, gone: tuple[str, ...] = ()) -> None:
        for tree in came:
            there[f"default/{tree['metadata']['name']}"] = tree
            kept.add("Pod", typed("Pod", tree))
        for key in gone:
            del there[key]
            kept.remove(key)
        seen.append(answers(kept))
        assert seen[-1] == answers(Planner([*nodes, *there.values()]))

    web = {"app": "web"}
    now(pod("one", on="a", labels=web))
    now(*(pod(f"on-{name}", on=name, labels=web) for name in "bcdef"))
    now(pod("also", on="outside", labels=web), pod("db", on="h", labels={"app": "db"}))
    now(gone=("default/one", "default/on-b"))
    now(gone=(*(f"default/on-{name}" for name in "cdef"), "default/also", "default/db"))
    now(pod("keeps-off", on="c", labels=web, affinity=apart("zone", {"app": "p"})))
    now(pod("likes", on="e", labels=web, affinity=together("zone", {"app": "p"})))
    now(*(pod(f"off-{name}", on=name, affinity=apart(HOST, {"app": "p"})) for name in "abdgh"))
    now(gone=("default/keeps-off", "default/likes"))
    now(gone=tuple(f"default/off-{name}" for name in "abdgh"))
    assert seen[-1] == seen[0]
    assert len({str(one) for one in seen}) > 3


@pytest.mark.parametrize(
    ("affinity", "kept_off"),
    [({}, False), (apart(HOST, {"app": "none"}), True), (together(HOST, {"app": "p"}), True)],
)
def test_a_pod_that_is_promised_a_node_keeps_others_off_if_there_is_more_to_look_at(
    affinity: Tree, kept_off: bool
) -> None:
    """As in kube-scheduler, which passes the plugin over for pods without terms while no pod that runs has one."""
    rival = pod("rival", priority=100, affinity=apart(HOST, {"app": "p"}))
    rival["status"]["nominatedNodeName"] = "a"
    decision = evaluate([node("a"), node("b"), rival], pod("p", labels={"app": "p"}, affinity=affinity))
    verdict = decision.verdict("a")
    reasons = ("node(s) didn't satisfy existing pods anti-affinity rules",)
    assert (verdict.reasons if verdict is not None else None) == (reasons if kept_off else None)
    assert decision.verdict("b") is None
