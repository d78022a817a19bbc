"""One node alone is scored as it is among all, by every strategy; and whose end makes room for whom."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.framework.events import Action, ClusterEvent
from bayplan.scheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.scheduler.objects import Tree, node, pod

SHAPE = [{"utilization": 0, "score": 2}, {"utilization": 50, "score": 10}, {"utilization": 100, "score": 0}]


def fit_of(planner: Planner, asked: Any) -> NodeResourcesFit:
    plugin = planner.cycle_for(asked).profile.plugins["NodeResourcesFit"]
    assert isinstance(plugin, NodeResourcesFit)
    return plugin


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
def test_a_node_alone_is_scored_as_among_all(strategy: str) -> None:
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    scoring: Tree = {"type": strategy, "resources": resources}
    if strategy == "RequestedToCapacityRatio":
        scoring["requestedToCapacityRatio"] = {"shape": SHAPE}
    config = {
        "kind": "KubeSchedulerConfiguration",
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]}],
    }
    nodes = [node("a"), node("b", cpu="2"), node("c", memory="1Gi"), node("d", cpu="0")]
    planner = Planner([*nodes, pod("there", cpu="1", memory="3Gi", on="a")], config)
    asked = planner.pod(pod("p", cpu="700m", memory="300Mi"))
    plugin, state = fit_of(planner, asked), planner.cycle_for(asked).evaluation(asked.shape).state
    plugin.pre_score(state, asked.shape, planner.snapshot.all_rows)
    every = plugin.score(state, asked.shape, planner.snapshot.all_rows).tolist()
    assert [plugin.score_row(state, asked.shape, row) for row in range(4)] == every
    assert len(set(every)) > 2


@pytest.mark.parametrize(
    ("running", "gone", "helps"),
    [
        ((), pod("gone", cpu="1", on="a"), True),
        ((pod("stays", cpu="3", on="a"),), pod("gone", cpu="1", on="a"), False),
        ((pod("stays", cpu="2", on="a"),), pod("gone", cpu="1", on="a"), True),
        ((pod("low", cpu="3", on="a", priority=-1),), pod("gone", cpu="1", on="a"), True),  # may be preempted
        ((pod("stays", cpu="2500m", on="a"), pod("low", cpu="1", on="a", priority=-1)), pod("gone", on="a"), False),
        ((pod("one", on="small"),), pod("gone", on="small"), False),  # which has a place for one pod
        ((), pod("gone", on="small"), True),
        ((), pod("gone", on="unknown"), True),
        ((), pod("gone"), False),
    ],
)
def test_the_end_of_a_pod_helps_if_its_node_could_run_the_other_one(
    running: tuple[Tree, ...], gone: Tree, helps: bool
) -> None:
    planner = Planner([node("a"), node("small", pods="1"), *running])
    asked = planner.pod(pod("p", cpu="2"))
    old = from_tree(core_v1.Pod, gone)
    hints = fit_of(planner, asked).events()
    event = ClusterEvent("Pod", Action.DELETE)
    assert any(hint.may_help(event, asked, old, None) for hint in hints) is helps
