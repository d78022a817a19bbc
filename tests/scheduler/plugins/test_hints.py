"""Which events may help a pod that a plugin refused: the plugins' own word, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, resource_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.framework.events import Action, ClusterEvent
from tests.scheduler.devices import claim, user
from tests.scheduler.objects import Tree, node, pod, spread

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


def own_claim(name: str, namespace: str = "default", *, allocated: bool = False) -> resource_v1.ResourceClaim:
    status: Tree = {"status": {"allocation": {}}} if allocated else {}
    tree = claim(name) | status
    tree["metadata"] = {**tree["metadata"], "namespace": namespace}
    return from_tree(resource_v1.ResourceClaim, tree)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, own_claim("c"), True),
        (None, own_claim("d"), False),
        (None, own_claim("c", "other"), False),
        (own_claim("c"), own_claim("c", allocated=True), True),
        (own_claim("d"), own_claim("d", allocated=True), False),
        (own_claim("c"), None, True),
        (own_claim("c", "other"), None, False),
        (own_claim("d", "other", allocated=True), own_claim("d", "other"), True),
        (own_claim("d", "other", allocated=True), None, True),
        (own_claim("d", "other", allocated=True), own_claim("d", "other", allocated=True), False),
    ],
)
def test_claims_of_the_pod_help_it_and_others_when_they_give_devices_up(
    old: resource_v1.ResourceClaim | None, new: resource_v1.ResourceClaim | None, expected: bool
) -> None:
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    assert helps("DynamicResources", ClusterEvent("ResourceClaim", action), user("p", "c"), old, new) is expected


NEAR: Tree = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
WITH_TERM: Tree = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}


@pytest.mark.parametrize(
    ("affinity", "old", "new", "expected"),
    [
        ({}, None, BARE, True),
        ({}, BARE, ZONED, True),
        ({}, ZONED, BARE, True),
        (WITH_TERM, None, BARE, False),
        (WITH_TERM, None, ZONED, True),
        (WITH_TERM, BARE, ZONED, True),
        (WITH_TERM, ZONED, BARE, True),
        (WITH_TERM, ZONED, POOLED, False),
    ],
)
def test_nodes_help_in_whose_domains_a_pods_terms_look_and_any_help_pods_that_others_keep_off(
    affinity: Tree, old: Tree | None, new: Tree, expected: bool
) -> None:
    event = ClusterEvent("Node", Action.NODE_LABEL if old is not None else Action.ADD)
    asked = pod("p", affinity=affinity)
    assert helps("InterPodAffinity", event, asked, typed_node(old), typed_node(new)) is expected


@pytest.mark.parametrize(
    ("namespace", "app", "expected"),
    [("default", "web", True), ("default", "db", False), ("other", "web", False), ("other", "db", False)],
)
def test_a_pod_that_spreads_looks_at_pods_that_it_counts(namespace: str, app: str, expected: bool) -> None:
    asked = pod("p", labels={"app": "web"}, topologySpreadConstraints=[spread("zone", {"app": "web"})])
    other = pod("o", on="n", labels={"app": app})
    other["metadata"]["namespace"] = namespace
    gone = from_tree(core_v1.Pod, other)
    assert helps("PodTopologySpread", ClusterEvent("Pod", Action.DELETE), asked, gone, None) is expected
    assert helps("PodTopologySpread", ClusterEvent("Pod", Action.ADD), asked, None, gone) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, ZONED, True),
        (None, POOLED, True),
        (None, BARE, False),
        (ZONED, None, True),
        (BARE, None, False),
        (BARE, ZONED, True),
        (ZONED, BARE, True),
    ],
)
def test_nodes_help_a_pod_that_spreads_which_have_or_had_all_its_keys(
    old: Tree | None, new: Tree | None, expected: bool
) -> None:
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.NODE_LABEL
    event = ClusterEvent("Node", action)
    asked = pod("p", topologySpreadConstraints=[spread("zone", {}), spread("kubernetes.io/hostname", {})])
    assert helps("PodTopologySpread", event, asked, typed_node(old), typed_node(new)) is expected


def volume_claim(name: str, namespace: str = "default") -> core_v1.PersistentVolumeClaim:
    return from_tree(core_v1.PersistentVolumeClaim, {"metadata": {"name": name, "namespace": namespace}})


@pytest.mark.parametrize(
    ("plugin", "own"),
    [("VolumeBinding", {"c", "p-made"}), ("VolumeRestrictions", {"c"}), ("VolumeZone", {"c"})],
)
@pytest.mark.parametrize("action", [Action.ADD, Action.UPDATE])
def test_claims_help_the_pod_that_mounts_them(plugin: str, own: set[str], action: Action) -> None:
    made: Tree = {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    mounted: Tree = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    asked, event = pod("p", volumes=[mounted, made]), ClusterEvent("PersistentVolumeClaim", action)
    for name in ("c", "p-made", "d"):
        assert helps(plugin, event, asked, None, volume_claim(name)) is (name in own)
        assert not helps(plugin, event, asked, None, volume_claim(name, "other"))
    assert not helps(plugin, event, pod("p", volumes=[{"name": "tmp", "emptyDir": {}}]), None, volume_claim("c"))
