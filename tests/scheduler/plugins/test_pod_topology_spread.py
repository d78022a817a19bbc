"""Spreading by selectors that select every pod."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.scheduler import Planner, evaluate
from bayplan.scheduler.plugins.pod_topology_spread import PodTopologySpread, _round, _whole
from tests.scheduler.objects import Tree, node, pod, spread

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


@pytest.mark.parametrize(
    ("total", "whole"), [(0.0, 0), (0.4999, 0), (0.5, 1), (1.4, 1), (1.5, 2), (2.5, 3), (7.999, 8)]
)
def test_sums_of_costs_are_rounded_half_up_one_by_one_as_all_together(total: float, whole: int) -> None:
    assert _round(total) == whole
    assert _whole(np.array([total, total])).tolist() == [whole, whole]


def test_one_node_is_scored_as_among_all_and_one_without_the_label_not_at_all() -> None:
    zones = {"a": "x", "b": "x", "c": "y", "d": ""}
    nodes = [node(name, labels={"zone": zone} if zone else {}) for name, zone in zones.items()]
    there = [
        pod(f"{on}{number}", on=on, labels={"app": "web"})
        for on, many in (("a", 3), ("c", 1), ("d", 5))
        for number in range(many)
    ]
    planner = Planner([*nodes, *there])
    asked = pod(
        "p", labels={"app": "web"}, topologySpreadConstraints=[spread("zone", {"app": "web"}, when="ScheduleAnyway")]
    )
    info = planner.pod(asked)
    planner.decide(asked, explain=True)
    cycle = planner.cycle_for(info)
    plugin, state = cycle.profile.plugins["PodTopologySpread"], cycle.evaluation(info.shape).state
    assert isinstance(plugin, PodTopologySpread)
    together = plugin.score(state, info.shape, np.arange(4)).tolist()
    # Three pods in x and one in y, each times log(2 domains + 2), and the skew of one less one.
    assert together == [4, 4, 1, 0]
    assert [plugin.score_row(state, info.shape, row) for row in range(4)] == together


@pytest.mark.parametrize("leaving", [("c",), ("c", "d")])
def test_scores_that_are_kept_follow_nodes_that_take_the_pod_no_more(leaving: tuple[str, ...]) -> None:
    zones = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "z"}
    nodes = [node(name, labels={"zone": zone}) for name, zone in zones.items()]
    there = [
        pod(f"{on}-{number}", on=on, labels={"app": "web"})
        for on, many in (("a", 7), ("b", 2), ("e", 5))
        for number in range(many)
    ]
    # A constraint weighs the more, the more domains the nodes have that take the pod.
    constraints = [spread(key, {"app": "web"}, when="ScheduleAnyway") for key in ("zone", HOST)]
    asked = pod("p", cpu="1", labels={"app": "web"}, topologySpreadConstraints=constraints)

    def spreading(planner: Planner) -> dict[str, int]:
        decision = planner.decide(planner.pod(asked))
        return dict(zip(decision.names, decision.scores["PodTopologySpread"].tolist(), strict=True))

    kept = Planner([*nodes, *there])
    first = spreading(kept)
    full = [pod(f"full-{name}", cpu="4", on=name) for name in leaving]
    for one in full:
        kept.add("Pod", one)
    assert spreading(kept) == spreading(Planner([*nodes, *there, *full])) != first


@pytest.mark.parametrize(
    ("affinity", "taints", "fits"),
    [
        ({}, {}, ["a"]),
        ({"nodeAffinityPolicy": "Honor"}, {}, ["a"]),
        ({"nodeAffinityPolicy": "Ignore"}, {}, []),
        ({}, {"nodeTaintsPolicy": "Honor"}, ["a"]),
        ({"nodeAffinityPolicy": "Ignore"}, {"nodeTaintsPolicy": "Ignore"}, []),
        ({"nodeAffinityPolicy": "Ignore"}, {"nodeTaintsPolicy": "Honor"}, ["a"]),
    ],
)
def test_domains_count_whose_nodes_the_policies_let_count(affinity: Tree, taints: Tree, fits: list[str]) -> None:
    """Zone x has one pod more than the empty zone y, whose node is tainted, and not meant by the pod's selector."""
    nodes = [
        node("a", labels={"zone": "x", "pool": "p"}),
        node("b", labels={"zone": "y"}, taints=({"key": "k", "effect": "NoSchedule"},)),
    ]
    there = pod("there", on="a", labels={"app": "web"})
    constraint = spread("zone", {"app": "web"}) | affinity | taints
    labels = {"app": "web"}
    asked = pod("p", labels=labels, nodeSelector={"pool": "p"}, topologySpreadConstraints=[constraint])
    decision = evaluate([*nodes, there], asked)
    assert [name for name in "ab" if decision.verdict(name) is None] == fits


@pytest.mark.parametrize("keys", [("zone",), (HOST,), ("zone", HOST), ("zone", "rack")])
def test_answers_that_are_kept_follow_pods_and_nodes(keys: tuple[str, ...]) -> None:
    """After each change, a planner that knows the pod says the same as one that has never seen it."""
    zones = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "z"}
    nodes = [node(name, labels={"zone": zone, "rack": f"r{zone}"}) for name, zone in zones.items()]
    nodes.append(node("bare", labels={"rack": "r"}))
    soft = [spread(key, {"app": "web"}, when="ScheduleAnyway") for key in keys]
    asked = pod("p", cpu="1", labels={"app": "web"}, topologySpreadConstraints=soft)

    def answers(planner: Planner) -> list[int]:
        return [int(score) for score in planner.decide(planner.pod(asked)).scores["PodTopologySpread"]]

    kept, objects = Planner(nodes), list(nodes)
    seen = [answers(kept)]
    steps = [
        ["c"],
        ["a"],
        ["a", "b", "c", "d", "e", "bare"],
        ["e"],
        ["bare"],
        ["a", "a", "a"],
        ["d", "e", "b", "a", "c", "c"],
    ]
    for number, step in enumerate(steps):
        for index, on in enumerate(step):
            made = pod(f"w{number}-{index}", on=on, cpu="100m", labels={"app": "web"})
            objects.append(made)
            kept.add("Pod", made)
        seen.append(answers(kept))
        assert seen[-1] == answers(Planner(objects))
    full = pod("full", on="c", cpu="3500m")
    kept.add("Pod", full)
    assert answers(kept) == answers(Planner([*objects, full]))
    assert len({tuple(one) for one in seen}) > 3


def test_a_node_without_one_of_the_labels_scores_nothing_and_an_empty_one_as_if_it_had_no_pods() -> None:
    labels = {"app": "web"}
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}), node("bare")]
    there = [pod(f"w{number}", on=on, labels=labels) for number, on in enumerate(("a", "a", "b", "bare", "bare"))]

    def scores(*keys: str) -> tuple[list[int], list[int]]:
        """As things are, and as if no pods were on the nodes."""
        soft = [spread(key, labels, skew=3, when="ScheduleAnyway") for key in keys]
        asked = pod("p", labels=labels, topologySpreadConstraints=soft)
        planner = Planner([*nodes, *there])
        info = planner.pod(asked)
        planner.decide(asked, explain=True)
        cycle = planner.cycle_for(info)
        plugin, state = cycle.profile.plugins["PodTopologySpread"], cycle.evaluation(info.shape).state
        assert isinstance(plugin, PodTopologySpread)
        rows = np.arange(3)
        found = plugin.score(state, info.shape, rows).tolist()
        assert [plugin.score_row(state, info.shape, row) for row in range(3)] == found
        counted = plugin.counted(state, info.shape)
        assert (counted is None) is (keys == (HOST,))
        assert counted is None or counted.tolist() == [True, True, False]
        return found, plugin.score_empty(state, info.shape, rows).tolist()

    # Each constraint counts log(domains + 2) for a pod, and the skew of three less one.
    assert scores("zone", HOST) == ([10, 7, 0], [7, 5, 0])
    assert scores(HOST) == ([5, 4, 5], [2, 2, 2])
