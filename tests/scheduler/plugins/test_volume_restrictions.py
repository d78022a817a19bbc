"""Claims that only one pod may use at a time."""

from __future__ import annotations

from typing import Any

from bayplan.scheduler import Planner
from tests.scheduler.objects import Tree, node, pod

VOLUME = {
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOncePod"],
        "claimRef": {"name": "c", "namespace": "default", "uid": "uid-c"},
        "hostPath": {"path": "/data"},
    },
    "status": {"phase": "Bound"},
}
CLAIM: dict[str, Any] = {
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "c",
        "namespace": "default",
        "uid": "uid-c",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {
        "accessModes": ["ReadWriteOncePod"],
        "volumeName": "v",
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Bound"},
}


def user(name: str) -> Tree:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])


def test_of_pods_that_are_alike_one_at_a_time_uses_an_exclusive_claim() -> None:
    planner = Planner([*(node(f"n{number}") for number in range(20)), VOLUME, CLAIM])
    assert planner.schedule(user("first")).node == "n0"
    second = planner.schedule(user("second"))
    assert second.node is None
    assert "20 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod" in second.message
    planner.remove("default/first")
    assert planner.schedule(user("third")).node == "n0"
