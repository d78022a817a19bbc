"""One node alone is scored as it is among all, by every strategy; and whose end makes room for whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.framework.arguments import ShapePoint
from bayplan.scheduler.framework.events import Action, ClusterEvent
from bayplan.scheduler.framework.verdicts import Status
from bayplan.scheduler.plugins.node_resources_fit import NodeResourcesFit, utilization_curve
from tests.scheduler.devices import device, device_class, slice_of
from tests.scheduler.objects import Tree, node, pod

SHAPE = [{"utilization": 0, "score": 2}, {"utilization": 50, "score": 10}, {"utilization": 100, "score": 0}]


def fit_of(planner: Planner, asked: Any) -> NodeResourcesFit:
    plugin = planner.cycle_for(asked).profile.plugins["NodeResourcesFit"]
    assert isinstance(plugin, NodeResourcesFit)
    return plugin


def check_scores_of_each_alone(planner: Planner, asked: Any) -> None:
    """Each node scores alone what it scores among all, and not all score alike."""
    plugin, state = fit_of(planner, asked), planner.cycle_for(asked).evaluation(asked.shape).state
    plugin.pre_score(state, asked.shape, planner.snapshot.all_rows)
    every = plugin.score(state, asked.shape, planner.snapshot.all_rows).tolist()
    assert [plugin.score_row(state, asked.shape, row) for row in range(len(every))] == every
    assert len(set(every)) > 2


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
    check_scores_of_each_alone(planner, asked)


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


GPU = "example.com/gpu"


def asking(tree: Tree, **requests: str) -> Tree:
    """The pod with further requests; `gpu` is an extended resource."""
    named = {GPU if key == "gpu" else key.replace("_", "-"): amount for key, amount in requests.items()}
    tree["spec"]["containers"][0]["resources"].setdefault("requests", {}).update(named)
    return tree


def having(name: str, gpus: str, **allocatable: Any) -> Tree:
    tree = node(name, **allocatable)
    tree["status"]["allocatable"][GPU] = gpus
    return tree


def verdicts(plugin: NodeResourcesFit, planner: Planner, asked: Tree) -> list[tuple[Status | None, tuple[str, ...]]]:
    """What Filter says of each node; it says the same of one alone, and of one as it is in preemption."""
    info = planner.pod(asked)
    state, rows = planner.cycle_for(info).evaluation(info.shape).state, range(planner.snapshot.size)
    plugin.pre_filter(state, info.shape)
    codes = plugin.filter(state, info.shape, planner.snapshot.all_rows).tolist()
    assert plugin.filter(state, info.shape, np.array(rows)).tolist() == codes
    assert [plugin.filter_row(state, info.shape, row) for row in rows] == codes
    what_ifs = [plugin.row_what_if(state, info.shape, row) for row in rows]
    assert [found.verdict() for found in what_ifs if found is not None] == codes
    return [(plugin.reasons[code].status, plugin.reasons[code].reasons) if code else (None, ()) for code in codes]


CURABLE, NEVER = Status.UNSCHEDULABLE, Status.UNRESOLVABLE


@pytest.mark.parametrize(
    ("requests", "empty", "used"),
    [
        ({"cpu": "1"}, None, None),
        ({"cpu": "1001m"}, None, CURABLE),
        ({"cpu": "4"}, None, CURABLE),
        ({"cpu": "4001m"}, NEVER, NEVER),
        ({"memory": "8Gi"}, None, CURABLE),
        ({"memory": "8193Mi"}, NEVER, NEVER),
        ({"cpu": "4", "memory": "9Gi"}, NEVER, NEVER),
        ({"gpu": "1"}, None, None),
        ({"gpu": "2"}, None, CURABLE),
        ({"gpu": "3"}, NEVER, NEVER),
        (
            dict.fromkeys(["cpu", "memory", "ephemeral_storage", "gpu", "example.com/a", "example.com/b"], "1"),
            NEVER,
            NEVER,
        ),
    ],
)
def test_evictions_make_room_for_what_an_empty_node_has(
    requests: dict[str, str], empty: Status | None, used: Status | None
) -> None:
    there = asking(pod("there", cpu="3", memory="1Mi", on="used"), gpu="1")
    planner = Planner([having("empty", "2"), having("used", "2"), there])
    plugin = fit_of(planner, planner.pod(pod("p")))
    found = verdicts(plugin, planner, asking(pod("p"), **requests))
    assert [status for status, _ in found] == [empty, used]


def test_a_node_has_so_many_places_and_no_more() -> None:
    planner = Planner([node("one", pods="1"), node("two", pods="2"), pod("there", on="one"), pod("too", on="two")])
    plugin = fit_of(planner, planner.pod(pod("p")))
    for asked in (pod("p"), pod("p", cpu="1")):
        assert verdicts(plugin, planner, asked) == [(CURABLE, ("Too many pods",)), (None, ())]


@pytest.mark.parametrize("stands_for", [GPU, "example.com/other"])
def test_a_resource_that_a_node_does_not_have_may_come_from_devices(stands_for: str) -> None:
    there = asking(pod("there", on="used"), gpu="1")
    objects = [node("lacks"), having("none", "0"), having("used", "1"), there]
    planner = Planner([*objects, device_class("gpu", extendedResourceName=stands_for)])
    plugin = fit_of(planner, planner.pod(pod("p")))
    lacks = (None, ()) if stands_for == GPU else (NEVER, (f"Insufficient {GPU}",))
    assert verdicts(plugin, planner, asking(pod("p"), gpu="1")) == [lacks, lacks, (CURABLE, (f"Insufficient {GPU}",))]


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
@pytest.mark.parametrize(
    "names", [("cpu", GPU), (GPU, "cpu"), ("cpu", "memory", GPU), ("cpu", "memory", "ephemeral-storage")]
)
def test_a_node_alone_is_scored_as_among_all_also_by_devices_and_disks(strategy: str, names: tuple[str, ...]) -> None:
    scoring: Tree = {"type": strategy, "resources": [{"name": name, "weight": 1} for name in names]}
    config = {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]}]}
    nodes = [node(name, ephemeral_storage="10Gi") for name in "abc"] + [having("d", "2", ephemeral_storage="1Gi")]
    there = [asking(pod(f"on-{name}", on=name), ephemeral_storage="1Gi") for name in "bcd"]
    slices = [slice_of("b", device("one"), device("two")), slice_of("c", *(device(f"d{n}") for n in range(5)))]
    planner = Planner([*nodes, *there, *slices, device_class("gpu", extendedResourceName=GPU)], config)
    asked = planner.pod(asking(pod("p", cpu="1", memory="1Gi"), gpu="1", ephemeral_storage="2Gi"))
    check_scores_of_each_alone(planner, asked)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (((0, 0), (100, 10)), {0: 0, 1: 1, 50: 50, 100: 100}),
        (((0, 10), (100, 0)), {0: 100, 1: 99, 99: 1, 100: 0}),
        (
            ((20, 3), (50, 10), (80, 10), (90, 0)),
            {0: 30, 20: 30, 21: 32, 49: 97, 50: 100, 65: 100, 80: 100, 81: 90, 100: 0},
        ),
    ],
)
def test_between_the_points_of_a_shape_scores_are_linear_and_outside_constant(
    points: tuple[tuple[int, int], ...], expected: dict[int, int]
) -> None:
    curve = utilization_curve(tuple(ShapePoint(utilization, score) for utilization, score in points))
    assert {utilization: curve.item(utilization) for utilization in expected} == expected


def test_a_resource_for_which_a_shape_gives_no_points_does_not_count() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 0}, {"utilization": 100, "score": 10}]
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    scoring = {"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": {"shape": shape}}
    config = {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]}]}
    planner = Planner([node("a"), node("b", memory="2Gi")], config)
    # Three of four CPUs are 50 points; an eighth of the memory is none and does not count, all of two GiB are 100.
    scores = planner.decide(planner.pod(pod("p", cpu="3", memory="1Gi"))).scores["NodeResourcesFit"]
    assert scores.tolist() == [50, 50]
    assert planner.decide(planner.pod(pod("p", cpu="3", memory="2Gi"))).scores["NodeResourcesFit"].tolist() == [50, 75]


@pytest.mark.parametrize(
    ("cpu", "free", "removable", "helps"),
    [("2", "2", "0", True), ("2", "1", "1", True), ("2001m", "1", "1", False), ("2001m", "2", "0", False)],
)
def test_what_is_free_and_what_can_be_evicted_count_together(cpu: str, free: str, removable: str, helps: bool) -> None:
    stays = str(4 - int(free) - int(removable))
    running = [pod("stays", cpu=stays, on="a", priority=9), pod("low", cpu=removable, on="a", priority=-1)]
    planner = Planner([node("a"), *running])
    asked, gone = planner.pod(pod("p", cpu=cpu)), from_tree(core_v1.Pod, pod("gone", on="a"))
    event = ClusterEvent("Pod", Action.DELETE)
    assert any(hint.may_help(event, asked, gone, None) for hint in fit_of(planner, asked).events()) is helps


@pytest.mark.parametrize("count", [5, 6, 14, 15, 16, 17, 29])
def test_a_pod_may_request_many_resources(count: int) -> None:
    """Each takes two bits of the verdict; the last is lacking on one node, and there by half on another."""
    names = [f"example.com/r{number:02}" for number in range(count)]
    nodes = [node(name) for name in ("all", "half", "none")]
    for tree, last in zip(nodes, ("2", "2", "0"), strict=True):
        tree["status"]["allocatable"] |= dict.fromkeys(names, "2") | {names[-1]: last}
    there = asking(pod("there", on="half"), **{names[-1]: "1"})
    planner = Planner([*nodes, there])
    plugin = fit_of(planner, planner.pod(pod("p")))
    reasons = (f"Insufficient {names[-1]}",)
    found = verdicts(plugin, planner, asking(pod("p"), **dict.fromkeys(names, "2")))
    assert found == [(None, ()), (CURABLE, reasons), (NEVER, reasons)]
