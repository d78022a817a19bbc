"""Decisions as people and programs read them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import Planner, evaluate, place
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.explanation import amount_text
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
    assert (
        lines[0] == "default/p: placed on node-0002 because it is one of 2000 equally good nodes of the 2000 that fit"
    )
    assert lines[1].strip() == (
        "2000 refused: Insufficient cpu (NodeResourcesFit): node-0001, node-0003, node-0007, ... 1997 more"
    )
    assert lines[2].strip() == (
        "asks for cpu 2; most free: cpu 1 on node-0001; even empty they have no more than cpu 1"
    )
    assert lines[3].strip().startswith("1000 refused: node(s) had untolerated taint(s) (TaintToleration): node-0000, ")
    assert lines[4].strip() == "not tolerated: x:NoSchedule on 1000 nodes (node-0000, ...)"
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


def summary_of(cluster: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The lines of a summary, without indentation."""
    return [line.strip() for line in evaluate(cluster, wanted).summary().splitlines()]


def test_refusals_for_room_name_what_is_asked_for_and_what_is_free() -> None:
    nodes = [node("a", cpu="4", memory="8Gi"), node("b", cpu="8", memory="4Gi")]
    lines = summary_of({"nodes": nodes, "pods": [pod("old", cpu="4250m", on="b")]}, pod("p", cpu="6", memory="5Gi"))
    assert lines[0] == (
        "default/p: pending because none of 2 nodes fits: 1 Insufficient cpu, 1 Insufficient cpu, Insufficient memory"
    )
    assert lines[1] == "1 refused: Insufficient cpu (NodeResourcesFit): a"
    assert lines[2] == (
        "asks for cpu 6, memory 5Gi; most free: cpu 4 on a, memory 8Gi on a; even empty they have no more than cpu 4"
    )
    assert lines[4] == (
        "asks for cpu 6, memory 5Gi; most free: cpu 3750m on b, memory 4Gi on b; "
        "even empty they have no more than memory 4Gi"
    )


def test_refusals_for_taints_name_the_taints_and_their_nodes() -> None:
    nodes = [
        node("a", taints=(taint("gpu", value="yes"),)),
        node("b", taints=(taint("gpu", value="yes"), taint("old", "NoExecute"), taint("soft", "PreferNoSchedule"))),
    ]
    lines = summary_of({"nodes": nodes}, pod("p"))
    assert lines[2] == "not tolerated: gpu=yes:NoSchedule on a, b, old:NoExecute on b"


def test_refusals_for_labels_name_what_is_asked_for_and_what_nodes_have() -> None:
    nodes = [node("a", labels={"disk": "hdd"}), node("b", labels={"disk": "hdd"}), node("c")]
    lines = summary_of({"nodes": nodes}, pod("p", nodeSelector={"disk": "ssd"}))
    assert lines[2] == "asks for disk=ssd; these nodes have disk=hdd (2 nodes), no disk (1 node)"


def test_refusals_for_affinity_spell_out_its_terms() -> None:
    expressions = [{"key": "zone", "operator": "In", "values": ["x", "y"]}, {"key": "gpu", "operator": "Exists"}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    lines = summary_of({"nodes": [node("a", labels={"zone": "z"})]}, pod("p", affinity=affinity))
    assert lines[0].startswith("default/p: pending because the only node does not fit: 1 node(s) didn't match")
    assert lines[2] == "asks for zone in (x, y) and gpu exists; these nodes have zone=z (1 node); no gpu (1 node)"


def test_the_first_line_says_why_the_pod_is_where_it_is() -> None:
    first = summary_of({"nodes": [node("a"), node("b", cpu="1")]}, pod("p", cpu="2"))[0]
    assert first == "default/p: placed on a because it is the only one of 2 nodes that fits"
    first = summary_of({"nodes": [node("a"), node("b", cpu="16")]}, pod("p", cpu="2"))[0]
    assert first == "default/p: placed on b because it has the highest score of the 2 that fit"
    assert summary_of({}, pod("p")) == ["default/p: pending because the cluster has no nodes"]


def test_a_pod_that_evicts_others_waits_for_their_room() -> None:
    cluster = {"nodes": [node("a", cpu="1")], "pods": [pod("old", cpu="800m", on="a")]}
    first = summary_of(cluster, pod("p", cpu="700m", priority=10))[0]
    assert first == "default/p: pending because it waits for room on a, where it evicts default/old"


def test_a_gated_pod_is_held_back() -> None:
    first = summary_of({"nodes": [node("a")]}, pod("p", schedulingGates=[{"name": "example.com/wait"}]))[0]
    assert first.startswith("default/p: pending because it is held back: ")


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 3750, "3750m"),
        ("cpu", 6000, "6"),
        ("memory", 8 << 30, "8Gi"),
        ("memory", (31 << 30) + 123_456_789, "31.1Gi"),
        ("memory", 1000, "1000"),
        ("example.com/gpu", 2, "2"),
    ],
)
def test_amounts_are_short(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text
