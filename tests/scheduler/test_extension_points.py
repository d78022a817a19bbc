"""Profiles that enable plugins at some extension points and not at others, and in what order they are asked."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod, spread, taint, together


def profile(**points: Tree) -> Tree:
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": points}]}


def plugins(*names: str) -> list[Tree]:
    return [{"name": name} for name in names]


def refusals(config: Tree, nodes: list[Tree], new: Tree) -> Any:
    return {name: found["filter"] for name, found in evaluate(nodes, new, config).to_dict()["nodes"].items()}


def test_what_is_disabled_at_a_point_and_enabled_again_comes_last() -> None:
    crowded = [node("a", pods="0", taints=(taint("x"),))]
    again = plugins("TaintToleration")
    assert refusals(profile(), crowded, pod("p"))["a"]["plugin"] == "TaintToleration"
    assert refusals(profile(filter={"enabled": again}), crowded, pod("p"))["a"]["plugin"] == "TaintToleration"
    config = profile(filter={"disabled": again, "enabled": again})
    assert refusals(config, crowded, pod("p"))["a"]["plugin"] == "NodeResourcesFit"


APART = spread("kubernetes.io/hostname", {"app": "web"})


@pytest.mark.parametrize(
    ("plugin", "new", "failure"),
    [
        ("NodeResourcesFit", pod("p"), 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'),
        ("NodePorts", pod("p"), 'reading "PreFilterNodePorts" from cycleState: not found'),
        ("DynamicResources", pod("p"), "not found"),
        ("VolumeBinding", pod("p"), "not found"),
        ("VolumeRestrictions", pod("p"), 'cannot read "PreFilterVolumeRestrictions" from cycleState'),
        ("PodTopologySpread", pod("p"), 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
    ],
)
def test_filters_that_need_to_be_prepared_fail_if_they_are_not(plugin: str, new: Tree, failure: str) -> None:
    decision = evaluate([node("a")], new, profile(preFilter={"disabled": plugins(plugin)}))
    assert decision.message == f'running "{plugin}" filter plugin: {failure}'
    assert decision.reason == "SchedulerError"


def test_other_filters_prepare_themselves() -> None:
    wants = pod("p", nodeSelector={"disk": "ssd"})
    config = profile(preFilter={"disabled": plugins("NodeAffinity")})
    found = refusals(config, [node("a"), node("b", labels={"disk": "ssd"})], wants)
    assert found["a"]["reasons"] == ["node(s) didn't match Pod's node affinity/selector"]
    assert found["b"] == {"ok": True}


@pytest.mark.parametrize(
    ("plugin", "failure"),
    [
        ("TaintToleration", 'failed to read "PreScoreTaintToleration" from cycleState: not found'),
        ("InterPodAffinity", 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'),
        ("PodTopologySpread", 'error reading "PreScorePodTopologySpread" from cycleState: not found'),
    ],
)
def test_scores_that_need_to_be_prepared_fail_if_they_are_not(plugin: str, failure: str) -> None:
    decision = evaluate([node("a"), node("b")], pod("p"), profile(preScore={"disabled": plugins(plugin)}))
    assert decision.message == f'running Score plugins: plugin "{plugin}" failed with: {failure}'
    assert evaluate([node("a")], pod("p"), profile(preScore={"disabled": plugins(plugin)})).node == "a"


def test_unprepared_balance_has_nothing_to_say_of_pods_without_requests() -> None:
    config = profile(preScore={"disabled": plugins("NodeResourcesBalancedAllocation")})
    found = evaluate([node("a"), node("b")], pod("p"), config).to_dict()["nodes"]
    assert [found[name]["scores"]["NodeResourcesBalancedAllocation"] for name in "ab"] == [0, 0]
    found = evaluate([node("a"), node("b")], pod("p", cpu="1", memory="2Gi"), config).to_dict()["nodes"]
    assert found["a"]["scores"]["NodeResourcesBalancedAllocation"] == 75


def test_plugins_that_only_prepare_scores_are_asked_all_the_same() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["x"]}]}}]
    fussy = pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    config = profile(score={"disabled": plugins("NodeAffinity")})
    decision = evaluate([node("a"), node("b")], fussy, config)
    assert decision.message.startswith('running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]')


def test_a_plugin_that_fails_on_one_node_ends_the_attempt_whatever_the_others_say() -> None:
    config = profile(preFilter={"disabled": plugins("InterPodAffinity")})
    nodes = [node("a"), node("b", taints=(taint("x"),))]
    decision = evaluate(nodes, pod("p", affinity=together("kubernetes.io/hostname", {"app": "web"})), config)
    told = decision.to_dict()
    failure = (
        'running "InterPodAffinity" filter plugin: error reading "PreFilterInterPodAffinity" from cycleState: not found'
    )
    assert told["errors"] == [failure]
    assert told["unschedulablePlugins"] == ["TaintToleration"]
    assert "postFilter" not in told


def test_devices_that_prefilter_was_not_asked_about_are_an_error_of_postfilter() -> None:
    config = profile(preFilter={"disabled": plugins("DynamicResources")})
    decision = evaluate([node("a", taints=(taint("x"),))], pod("p"), config)
    assert decision.message == "0/1 nodes are available: 1 node(s) had untolerated taint(s). not found"


def test_a_disk_that_is_in_use_is_noticed_without_preparation() -> None:
    def with_disk(name: str, **fields: Any) -> Tree:
        return pod(name, volumes=[{"name": "d", "gcePersistentDisk": {"pdName": "disk"}}], **fields)

    config = profile(preFilter={"disabled": plugins("VolumeRestrictions")})
    told = evaluate([node("a"), node("b"), with_disk("p", on="a")], with_disk("q"), config).to_dict()["nodes"]
    assert told["a"]["filter"]["reasons"] == ["node(s) had no available disk"]
    assert told["b"]["filter"]["code"] == "Error"
