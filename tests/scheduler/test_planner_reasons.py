"""All that stands in the way of a pod, node by node."""

from __future__ import annotations

from bayplan.scheduler import Planner
from bayplan.scheduler.planning.reasons import every_refusal, limits_in
from bayplan.testing.builders import node, pod, taint


def _asked() -> object:
    return pod("p", cpu="3", node_selector={"disk": "ssd"})


def test_a_node_names_every_plugin_that_refuses_the_pod() -> None:
    planner = Planner(
        [node("a", cpu="2", taints=(taint("only", "NoSchedule"),), unschedulable=True), node("b", cpu="1")]
    )
    refusals = every_refusal(planner, _asked())
    assert [one.plugin for one in refusals["a"]] == [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
    ]
    assert [one.plugin for one in refusals["b"]] == ["NodeAffinity", "NodeResourcesFit"]


def test_a_node_that_fits_has_no_reason() -> None:
    fits = node("a", meta={"labels": {"disk": "ssd"}})
    assert every_refusal(Planner([fits]), _asked()) == {"a": ()}


def test_a_pod_that_is_refused_before_any_node_is_looked_at_is_still_held_against_the_nodes() -> None:
    from bayplan.api.types import core_v1

    source = core_v1.PersistentVolumeClaimVolumeSource(claim_name="gone")
    asked = pod("p", cpu="9", volumes=(core_v1.Volume(name="v", persistent_volume_claim=source),))
    plugins = {one.plugin for one in every_refusal(Planner([node("a", cpu="2")]), asked)["a"]}
    assert {"NodeResourcesFit", "VolumeBinding"} <= plugins


def test_refusals_are_grouped_by_reason() -> None:
    planner = Planner([node("a", cpu="2"), node("b", cpu="1"), node("c", meta={"labels": {"disk": "ssd"}}, cpu="1")])
    limits = limits_in(every_refusal(planner, _asked()))
    assert [(one.plugin, one.nodes) for one in limits] == [
        ("NodeResourcesFit", ("a", "b", "c")),
        ("NodeAffinity", ("a", "b")),
    ]
