"""Which changes of a pod itself, and which ends and changes of others, may help it: the plugins' own word, case by case."""

from __future__ import annotations

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler.framework.events import Action, ClusterEvent
from tests.scheduler.devices import attempt
from tests.scheduler.objects import Tree, apart, node, pod, spread, together
from tests.scheduler.plugins.test_hints import helps
from tests.scheduler.test_core import Setup

GONE = ClusterEvent("Pod", Action.DELETE)


def typed_pod(tree: Tree) -> core_v1.Pod:
    return from_tree(core_v1.Pod, tree)


def promised(tree: Tree, node_name: str = "n") -> Tree:
    """A pod that waits for a node which preemption cleared for it."""
    tree["status"]["nominatedNodeName"] = node_name
    return tree


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("plugin", "action", "fields"),
    [
        ("SchedulingGates", Action.POD_GATES, {}),
        ("NodeResourcesFit", Action.POD_SCALE_DOWN, {}),
        ("InterPodAffinity", Action.POD_LABEL, {}),
        ("DynamicResources", Action.POD_CLAIMS, {}),
        (
            "PodTopologySpread",
            Action.POD_TOLERATIONS,
            {"topologySpreadConstraints": [spread("zone", {}) | {"nodeTaintsPolicy": "Honor"}]},
        ),
    ],
)
def test_a_change_of_the_pod_itself_helps_it(plugin: str, action: Action, fields: Tree, same: bool) -> None:
    asked = pod("p", **fields)
    changed = typed_pod(asked if same else pod("q", **fields))
    assert helps(plugin, ClusterEvent("Pod", action), asked, changed, changed) is same


@pytest.mark.parametrize(
    "constraint",
    [
        spread("zone", {}),
        spread("zone", {}) | {"nodeTaintsPolicy": "Ignore"},
        spread("zone", {}, when="ScheduleAnyway") | {"nodeTaintsPolicy": "Honor"},
    ],
)
def test_a_toleration_does_not_help_a_pod_that_counts_nodes_whatever_their_taints(constraint: Tree) -> None:
    asked = pod("p", topologySpreadConstraints=[constraint])
    changed = typed_pod(asked)
    assert not helps("PodTopologySpread", ClusterEvent("Pod", Action.POD_TOLERATIONS), asked, changed, changed)


def test_a_pod_that_others_keep_off_is_tried_again_when_its_own_labels_change() -> None:
    setup = Setup()
    setup.see("Node", node("n"))
    setup.see("Pod", pod("there", on="n", affinity=apart("kubernetes.io/hostname", {"app": "web"})))
    before = setup.see("Pod", pod("p", labels={"app": "web"}))
    assert attempt(setup).decision.node is None
    setup.clock.seconds += 60
    setup.core.handle("Pod", before, typed_pod(pod("p", labels={"app": "db"})))
    assert attempt(setup).decision.node == "n"


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (pod("q", on="n", ports=(80,)), True),
        (promised(pod("q", ports=(80,))), True),
        (pod("q", ports=(80,)), False),
        (pod("q", on="n", ports=(81,)), False),
        (pod("q", on="n"), False),
    ],
)
def test_the_end_of_a_pod_helps_if_it_had_a_port_that_the_other_one_wants(gone: Tree, expected: bool) -> None:
    assert helps("NodePorts", GONE, pod("p", ports=(443, 80)), typed_pod(gone), None) is expected
    assert not helps("NodePorts", GONE, pod("p"), typed_pod(gone), None)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"protocol": "UDP"}, False),
        ({"hostIP": "10.0.0.1"}, True),
        ({"hostIP": "0.0.0.0"}, True),
        ({"hostIP": "10.0.0.2"}, False),
    ],
)
def test_ports_of_other_protocols_and_addresses_are_others(changed: Tree, expected: bool) -> None:
    asked, gone = pod("p", ports=(80,)), pod("q", on="n", ports=(80,))
    asked["spec"]["containers"][0]["ports"][0]["hostIP"] = "10.0.0.1"
    gone["spec"]["containers"][0]["ports"][0] |= changed
    assert helps("NodePorts", GONE, asked, typed_pod(gone), None) is expected


CLAIMED: Tree = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
MADE: Tree = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
DISK: Tree = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}
SCRATCH: Tree = {"name": "v", "emptyDir": {}}


@pytest.mark.parametrize(
    ("volumes", "attached"),
    [([], False), ([SCRATCH], False), ([CLAIMED], True), ([MADE], True), ([DISK], True), ([SCRATCH, CLAIMED], True)],
)
def test_the_end_of_a_pod_with_volumes_helps_others_with_volumes(volumes: list[Tree], attached: bool) -> None:
    asked = pod("p", volumes=[CLAIMED])
    for gone, had_node in (
        (pod("q", on="n", volumes=volumes), True),
        (promised(pod("q", volumes=volumes)), True),
        (pod("q", volumes=volumes), False),
    ):
        assert helps("NodeVolumeLimits", GONE, asked, typed_pod(gone), None) is (had_node and attached)
        assert helps("VolumeRestrictions", GONE, asked, typed_pod(gone), None) is (had_node and bool(volumes))


@pytest.mark.parametrize(
    ("labels", "affinity", "expected"),
    [
        ({"app": "web"}, {}, True),
        ({"app": "db"}, {}, False),
        ({"app": "db"}, apart("zone", {"app": "p"}), True),
        ({"app": "db"}, together("zone", {"app": "p"}), False),
    ],
)
def test_pods_help_that_the_terms_of_a_pod_mean_and_the_end_of_those_that_keep_others_off(
    labels: dict[str, str], affinity: Tree, expected: bool
) -> None:
    asked = pod("p", affinity=together("zone", {"app": "web"}))
    other = typed_pod(pod("q", on="n", labels=labels, affinity=affinity))
    assert helps("InterPodAffinity", GONE, asked, other, None) is expected
    meant = labels["app"] == "web"
    assert helps("InterPodAffinity", ClusterEvent("Pod", Action.ADD), asked, None, other) is meant
    other_labels = typed_pod(pod("q", on="n", labels={"app": "db"}, affinity=affinity))
    relabelled = ClusterEvent("Pod", Action.POD_LABEL)
    assert helps("InterPodAffinity", relabelled, asked, other, other_labels) is meant
    assert helps("InterPodAffinity", relabelled, asked, other_labels, other) is meant


@pytest.mark.parametrize(
    ("asks", "on", "expected"),
    [("p", "", True), ("p", "n", True), ("q", "", False), ("q", "n", True)],
)
def test_a_pod_that_takes_less_helps_itself_and_if_it_is_on_a_node_others(asks: str, on: str, expected: bool) -> None:
    smaller = typed_pod(pod(asks, on=on))
    event = ClusterEvent("Pod", Action.POD_SCALE_DOWN)
    assert helps("NodeResourcesFit", event, pod("p", cpu="2"), smaller, smaller) is expected
