"""The balance of a node is the same whether it is asked for alone or with all others."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tests.scheduler.devices import device, device_class, slice_of
from tests.scheduler.objects import node, pod

NAME = "NodeResourcesBalancedAllocation"


@pytest.mark.parametrize(
    "resources", [("cpu", "memory"), ("cpu", "example.com/gpu"), ("cpu", "memory", "example.com/gpu")]
)
def test_nodes_that_lack_a_resource_are_scored_by_the_others(resources: tuple[str, ...]) -> None:
    args = {"resources": [{"name": name, "weight": 1} for name in resources]}
    config = {
        "kind": "KubeSchedulerConfiguration",
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "profiles": [{"pluginConfig": [{"name": NAME, "args": args}]}],
    }
    full = node("full")
    full["status"]["allocatable"]["example.com/gpu"] = "2"
    planner = Planner(
        [full, node("lacks"), node("none", cpu="0", memory="0"), pod("there", cpu="2", on="lacks")], config
    )
    asked = pod("p", cpu="1", memory="1Gi")
    asked["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    info = planner.pod(asked)
    profile = planner.cycle_for(info).profile
    plugin = profile.plugins[NAME]
    assert isinstance(plugin, NodeResourcesBalancedAllocation)
    evaluation = planner.cycle_for(info).evaluation(info.shape)
    plugin.pre_score(evaluation.state, info.shape, planner.snapshot.all_rows)
    every = plugin.score(evaluation.state, info.shape, planner.snapshot.all_rows).tolist()
    assert [plugin.score_row(evaluation.state, info.shape, row) for row in range(3)] == every
    assert len(set(every)) > 1


@pytest.mark.parametrize(
    ("resources", "score"),
    # cpu from 2/4 to 3/4 and memory from 0 to 1/8: the deviation goes from 1/4 to 5/16. A resource that the node lacks takes no part.
    [
        (("cpu", "memory"), 71),
        (("cpu", "memory", "example.com/gpu"), 71),
        (("cpu", "example.com/gpu"), 75),
    ],
)
def test_two_resources_count_by_half_of_their_difference_and_one_alone_is_balanced(
    resources: tuple[str, ...], score: int
) -> None:
    args = {"resources": [{"name": name, "weight": 1} for name in resources]}
    planner = Planner(
        [node("a"), pod("there", cpu="2", on="a")],
        {
            "kind": "KubeSchedulerConfiguration",
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "profiles": [{"pluginConfig": [{"name": NAME, "args": args}]}],
        },
    )
    asked = pod("p", cpu="1", memory="1Gi")
    asked["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    info = planner.pod(asked)
    plugin = planner.cycle_for(info).profile.plugins[NAME]
    assert isinstance(plugin, NodeResourcesBalancedAllocation)
    state = planner.cycle_for(info).evaluation(info.shape).state
    plugin.pre_score(state, info.shape, planner.snapshot.all_rows)
    assert plugin.score(state, info.shape, planner.snapshot.all_rows).tolist() == [score]
    assert plugin.score_row(state, info.shape, 0) == score


@pytest.mark.parametrize("names", [("cpu", "example.com/gpu"), ("example.com/gpu", "cpu")])
def test_a_node_alone_is_scored_as_among_all_also_by_devices(names: tuple[str, ...]) -> None:
    args = {"resources": [{"name": name, "weight": 1} for name in names]}
    planner = Planner(
        [
            *(node(name) for name in "ab"),
            pod("there", cpu="3", on="b"),
            slice_of("b", device("one"), device("two")),
            device_class("gpu", extendedResourceName="example.com/gpu"),
        ],
        {"profiles": [{"pluginConfig": [{"name": NAME, "args": args}]}]},
    )
    asked = pod("p", cpu="1")
    asked["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    info = planner.pod(asked)
    plugin, state = planner.cycle_for(info).profile.plugins[NAME], planner.cycle_for(info).evaluation(info.shape).state
    assert isinstance(plugin, NodeResourcesBalancedAllocation)
    plugin.pre_score(state, info.shape, planner.snapshot.all_rows)
    # On b, 3 of 4 CPUs and no device become 4 and one of two: the deviation goes from 3/8 to 1/4.
    assert plugin.score(state, info.shape, planner.snapshot.all_rows).tolist() == [75, 81]
    assert [plugin.score_row(state, info.shape, row) for row in range(2)] == [75, 81]
