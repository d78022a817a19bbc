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


def reserved(tree: Tree, to: str) -> Tree:
    """A pending pod that a node has been promised to."""
    tree["status"]["nominatedNodeName"] = to
    tree["spec"]["priority"] = 100
    return tree


def refused(*others: Tree, new: Tree) -> bool:
    return Planner([node("a"), VOLUME, CLAIM, *others]).schedule(new).node is None


def test_a_promised_pod_with_an_exclusive_claim_counts_only_if_something_else_is_to_be_watched() -> None:
    with_disk = user("new")
    with_disk["spec"]["volumes"].append({"name": "disk", "gcePersistentDisk": {"pdName": "d"}})
    assert not refused(reserved(user("rival"), "a"), new=user("new"))
    assert refused(reserved(user("rival"), "a"), new=with_disk)


def test_a_claim_that_a_pod_mounts_twice_is_one_claim() -> None:
    holder = user("holder")
    holder["spec"]["nodeName"] = "a"
    twice = user("new")
    twice["spec"]["volumes"].append({"name": "again", "persistentVolumeClaim": {"claimName": "c"}})
    twice["spec"]["priority"] = 10
    outcome = Planner([node("a"), VOLUME, CLAIM, holder]).decide(twice).post_filter
    assert outcome is not None
    assert outcome.nominated is not None
    assert [pod.key for pod in outcome.nominated.victims] == ["default/holder"]
