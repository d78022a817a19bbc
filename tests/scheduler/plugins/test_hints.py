"""Which events may help a pod that a plugin refused: the plugins' own word, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.framework.events import Action, ClusterEvent
from tests.scheduler.objects import Tree, node, pod

ADDED: Tree = {
    "kind": "KubeSchedulerConfiguration",
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["p"]}]}
                                ]
                            }
                        }
                    },
                }
            ]
        }
    ],
}
BARE = node("n")
ZONED = node("n", labels={"zone": "z"})
POOLED = node("n", labels={"zone": "z", "pool": "p"})


def helps(plugin: str, event: ClusterEvent, asked: Tree, old: Any, new: Any, config: Tree | None = None) -> bool:
    """Whether one of the plugin's hints about such events says that the pod may find a node now."""
    planner = Planner({"nodes": []}, config)
    info = planner.pod(asked)
    hints = planner.cycle_for(info).profile.plugins[plugin].events()
    return any(hint.may_help(event, info, old, new) for hint in hints)


def typed_node(tree: Tree | None) -> core_v1.Node | None:
    return from_tree(core_v1.Node, tree) if tree is not None else None


@pytest.mark.parametrize(
    ("old", "new", "config", "expected"),
    [
        (None, ZONED, None, True),
        (None, BARE, None, False),
        (BARE, ZONED, None, True),
        (ZONED, BARE, None, False),
        (ZONED, POOLED, None, False),  # which matched before
        (None, ZONED, ADDED, False),
        (None, POOLED, ADDED, True),
        (ZONED, POOLED, ADDED, True),
    ],
)
def test_a_node_helps_once_its_labels_match(old: Tree | None, new: Tree, config: Tree | None, expected: bool) -> None:
    action = Action.NODE_LABEL if old is not None else Action.ADD
    asked = pod("p", nodeSelector={"zone": "z"})
    assert (
        helps("NodeAffinity", ClusterEvent("Node", action), asked, typed_node(old), typed_node(new), config) is expected
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node("n", cpu="2"), True),
        (None, node("n", cpu="1999m"), False),
        (None, node("n", pods="1"), True),
        (None, node("n", pods="0"), False),
        (node("n", cpu="1"), node("n", cpu="2"), True),
        (node("n", cpu="2"), node("n", cpu="2", memory="9Gi"), False),  # more of what the pod does not ask for
        (node("n", cpu="3"), node("n", cpu="2"), False),
        (node("n", pods="1"), node("n", pods="2"), True),
    ],
)
def test_a_node_helps_that_has_room_if_it_were_empty_and_more_than_before(
    old: Tree | None, new: Tree, expected: bool
) -> None:
    action = Action.NODE_ALLOCATABLE if old is not None else Action.ADD
    event = ClusterEvent("Node", action)
    assert helps("NodeResourcesFit", event, pod("p", cpu="2"), typed_node(old), typed_node(new)) is expected


@pytest.mark.parametrize(("name", "expected"), [("p", True), ("q", False)])
def test_claims_that_come_into_a_pods_status_help_that_pod(name: str, expected: bool) -> None:
    changed = from_tree(core_v1.Pod, pod(name))
    event = ClusterEvent("Pod", Action.POD_CLAIMS)
    assert helps("DynamicResources", event, pod("p"), changed, changed) is expected
