"""Volumes that are usable in their zone only. Labels of nodes under the old names count before those under today's."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner
from tests.scheduler.objects import Tree, node, pod

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def _bound(name: str, labels: dict[str, str]) -> list[Tree]:
    """A claim, and the volume that it has."""
    return [
        {
            "kind": "PersistentVolume",
            "metadata": {"name": f"v-{name}", "labels": labels},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "hostPath": {"path": "/data"},
            },
            "status": {"phase": "Bound"},
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeName": f"v-{name}",
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        },
    ]


def _decide(node_labels: dict[str, str], *volume_labels: dict[str, str]) -> str:
    """Why a pod with such volumes does not come to the node; "" if it does."""
    claims = [f"c{number}" for number in range(len(volume_labels))]
    objects = [each for name, labels in zip(claims, volume_labels, strict=True) for each in _bound(name, labels)]
    user = pod("p", volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims])
    decision = Planner([node("n", labels=node_labels), *objects]).schedule(user)
    return "" if decision.node == "n" else decision.message


@pytest.mark.parametrize(
    ("node_labels", "volume_labels", "passes"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "b"}, {ZONE: "a"}, False),
        ({ZONE: "b"}, {ZONE: "a__b"}, True),
        ({ZONE: "c"}, {ZONE: "a__b"}, False),
        ({}, {ZONE: "a"}, True),
        ({REGION: "r"}, {ZONE: "a"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "other"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a"}, True),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, True),
        ({ZONE: "b"}, {OLD_ZONE: "a"}, False),
        ({OLD_ZONE: "a", ZONE: "b"}, {OLD_ZONE: "a"}, True),
        ({OLD_ZONE: "b", ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, False),
        ({ZONE: "b"}, {"other": "a"}, True),
    ],
)
def test_a_node_has_to_be_in_the_zone_of_a_volume(
    node_labels: dict[str, str], volume_labels: dict[str, str], passes: bool
) -> None:
    told = _decide(node_labels, volume_labels)
    assert told == "" if passes else "1 node(s) had no available volume zone" in told


def test_a_node_has_to_be_in_the_zones_of_all_volumes() -> None:
    assert _decide({ZONE: "a"}, {ZONE: "a"}, {ZONE: "a__b"}) == ""
    assert "had no available volume zone" in _decide({ZONE: "a"}, {ZONE: "a"}, {ZONE: "b"})
