"""Claims that only one pod may use at a time."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.plugins.volume_restrictions import conflict
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


def disk(name: str, **more: Any) -> Tree:
    return {"gcePersistentDisk": {"pdName": name, **more}}


def store(name: str) -> Tree:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": True}}


def target(name: str, **more: Any) -> Tree:
    return {"iscsi": {"targetPortal": "10.0.0.1", "iqn": name, "lun": 0, **more}}


def image(name: str, *, pool: str = "rbd", monitors: tuple[str, ...] = ("m1", "m2"), **more: Any) -> Tree:
    return {"rbd": {"image": name, "pool": pool, "monitors": list(monitors), **more}}


READ: dict[str, Any] = {"readOnly": True}


@pytest.mark.parametrize(
    ("wanted", "held", "conflicts"),
    [
        (disk("d"), disk("d"), True),
        (disk("d", **READ), disk("d"), True),
        (disk("d"), disk("d", **READ), True),
        (disk("d", **READ), disk("d", **READ), False),
        (disk("d"), disk("e"), False),
        (store("d"), store("d"), True),  # read-only or not
        (store("d"), store("e"), False),
        (target("i"), target("i"), True),
        (target("i", **READ), target("i"), True),
        (target("i"), target("i", **READ), True),
        (target("i", **READ), target("i", **READ), False),
        (target("i"), target("j"), False),
        (image("x"), image("x"), True),
        (image("x"), image("x", monitors=("m2", "m3")), True),
        (image("x"), image("x", monitors=("m3",)), False),
        (image("x"), image("y"), False),
        (image("x"), image("x", pool="other"), False),
        (image("x", **READ), image("x"), True),
        (image("x"), image("x", **READ), True),
        (image("x", **READ), image("x", **READ), False),
        (disk("d"), store("d"), False),
        (target("d"), image("d"), False),
        (store("d"), target("d"), False),
        (image("d"), disk("d"), False),
    ],
)
def test_which_volumes_of_two_pods_exclude_each_other(wanted: Tree, held: Tree, conflicts: bool) -> None:
    volumes = [from_tree(core_v1.Volume, {"name": "v", **one}) for one in (wanted, held)]
    assert conflict(*volumes) is conflicts
    mine, other = (pod(name, volumes=[{"name": "v", **one}]) for name, one in (("mine", wanted), ("other", held)))
    other["spec"]["nodeName"] = "a"
    decision = Planner([node("a"), other]).decide(mine)
    assert (decision.node is None) is conflicts
    assert ("node(s) had no available disk" in decision.message) is conflicts
