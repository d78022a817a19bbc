"""Decisions as people and programs read them."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner, evaluate, place
from bayplan.scheduler.errors import SchedulerError
from tests.scheduler.objects import node, pod, taint


def test_the_message_is_that_of_kubernetes() -> None:
    cluster = {"nodes": [node("a", cpu="1"), node("b", taints=(taint("gpu"),))]}
    decision = evaluate(cluster, pod("p", cpu="2"))
    assert decision.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert decision.reason == "Unschedulable"
    assert decision.unschedulable_plugins == ["NodeResourcesFit", "TaintToleration"]


def test_every_refusal_can_be_asked_for() -> None:
    decision = evaluate({"nodes": [node("a", cpu="1"), node("b")]}, pod("p", cpu="2"))
    refusal = decision.verdict("a")
    assert refusal is not None
    assert (refusal.plugin, refusal.reasons) == ("NodeResourcesFit", ("Insufficient cpu",))
    assert decision.verdict("b") is None
    with pytest.raises(KeyError):
        decision.verdict("c")


def test_without_nodes_the_message_says_so() -> None:
    assert evaluate({}, pod("p")).message == "no nodes available to schedule pods"


def test_five_thousand_nodes_fit_a_screen() -> None:
    nodes = [
        node(f"node-{i:04}", cpu="1" if i % 2 else "4", taints=() if i % 5 else (taint("x"),)) for i in range(5000)
    ]
    summary = evaluate({"nodes": nodes}, pod("p", cpu="2")).summary()
    lines = summary.splitlines()
    assert len(lines) <= 12
    assert lines[0] == "default/p: runs on node-0002 (one of 2000 equally good nodes)"
    assert lines[1].strip() == (
        "2000 refused: Insufficient cpu (NodeResourcesFit): node-0001, node-0003, node-0007, ... 1997 more"
    )
    assert lines[2].strip().startswith("1000 refused: node(s) had untolerated taint(s) (TaintToleration): node-0000, ")
    assert "TaintToleration 300" in lines[-1]


def test_a_decision_stays_as_it_was_when_the_cluster_changes() -> None:
    planner = Planner({"nodes": [node("a"), node("b")]})
    before = planner.decide(pod("p", cpu="1"))
    first = before.to_dict()
    for number in range(3):
        planner.schedule(pod(f"q{number}", cpu="1"))
        planner.decide(pod("p", cpu="1"))
    assert before.to_dict() == first


def test_a_pod_without_profile_is_an_error_that_names_it() -> None:
    tree = pod("p")
    tree["spec"]["schedulerName"] = "other"
    with pytest.raises(SchedulerError, match="pod default/p: no profile has schedulerName 'other'"):
        evaluate({"nodes": [node("a")]}, tree)


def test_objects_may_come_as_one_flat_list() -> None:
    assert evaluate([node("a"), pod("old", cpu="4", on="a"), node("b")], pod("p", cpu="1")).node == "b"


def test_a_run_places_by_priority_and_preempts() -> None:
    cluster = {"nodes": [node("a", cpu="1")], "pods": [pod("old", cpu="800m", on="a")]}
    run = place(cluster, [pod("low", cpu="500m"), pod("high", cpu="700m", priority=10)])
    assert [(item.pod, item.decision.node, item.decision.victims) for item in run.attempts] == [
        ("default/high", None, ("default/old",)),
        ("default/high", "a", ()),
        ("default/low", None, ()),
    ]


def test_requeue_must_be_known() -> None:
    with pytest.raises(ValueError, match="requeue: 'never' is neither"):
        place({}, [], requeue="never")


def test_finished_pods_take_nothing() -> None:
    done = pod("done", cpu="4", on="a")
    done["status"]["phase"] = "Succeeded"
    assert evaluate({"nodes": [node("a")], "pods": [done]}, pod("p", cpu="4")).node == "a"
