"""What the operator of replicated storage decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.operators.storage import rules
from examples.operators.storage.rules import Disk, Replica, StorageNode, Volume

NOW, LOST_AFTER = 1000.0, 10.0
GIB = 1 << 30
DISK = "/disk"


def node(name: str, *, silent: float = 0.0, size: int = GIB) -> StorageNode:
    return StorageNode(name, f"{name}.test", NOW - silent, (Disk(DISK, size),))


def nodes(*found: StorageNode) -> dict[str, StorageNode]:
    return {one.name: one for one in found}


def on(*names: str) -> tuple[Replica, ...]:
    return tuple(Replica(name, DISK) for name in names)


def placed(volume: Volume, found: dict[str, StorageNode], *others: Volume) -> list[str]:
    wanted = rules.place(volume, found, (volume, *others), now=NOW, lost_after=LOST_AFTER)
    return [one.node for one in wanted]


NEW = Volume("v", GIB // 4, 2)
USED = replace(NEW, placement=on("a", "b"), epoch=1, holder="a", in_sync=("a", "b"))
ALL = nodes(node("a"), node("b"), node("c"))


def test_replicas_go_to_the_nodes_with_most_room() -> None:
    assert placed(NEW, nodes(node("a"), node("b", size=2 * GIB), node("c", size=3 * GIB))) == ["c", "b"]


def test_what_other_volumes_were_promised_is_not_free() -> None:
    other = replace(NEW, name="w", size=GIB // 2, placement=on("a", "b"))
    assert placed(NEW, ALL, other) == ["c", "a"]
    assert rules.free(ALL["a"], ALL["a"].disks[0], [other]) == int(GIB * 0.9) - GIB // 2
    full = replace(other, size=GIB * 8 // 10)
    assert placed(NEW, ALL, full) == [], "one node has room, two are wanted: all or nothing"


def test_of_a_nodes_disks_the_roomiest_is_taken() -> None:
    many = StorageNode("a", "", NOW, (Disk("/small", GIB), Disk("/large", 2 * GIB)))
    wanted = rules.place(replace(NEW, replicas=1), nodes(many), (), now=NOW, lost_after=LOST_AFTER)
    assert wanted == (Replica("a", "/large"),)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (ALL, ["a", "b"]),
        (nodes(node("b"), node("c")), ["b", "c"]),
        (nodes(node("a", silent=LOST_AFTER + 1), node("b"), node("c")), ["b", "c"]),
        (nodes(node("a", silent=LOST_AFTER), node("b"), node("c")), ["a", "b"]),
        (nodes(node("b")), ["b", "a"]),
        (nodes(node("c")), ["a", "b"]),
    ],
    ids=[
        "all live: nothing moves",
        "a node was deleted: another takes its replica",
        "an agent is silent for too long: the same",
        "an agent is silent, but not too long",
        "no other node has room: the place is kept for when the node comes back",
        "both are lost: no empty replica takes the place of data",
    ],
)
def test_replicas_of_lost_nodes_are_replaced(found: dict[str, StorageNode], wanted: list[str]) -> None:
    assert placed(USED, found) == wanted


def test_last_replica_in_sync_is_not_given_up_for_a_stale_one() -> None:
    stale_lives = replace(USED, in_sync=("a",))
    assert placed(stale_lives, nodes(node("b"), node("c"))) == ["a", "b"]


def test_volume_is_taken_from_a_lost_node_only() -> None:
    def may(volume: Volume, name: str, found: dict[str, StorageNode]) -> bool:
        return rules.may_take(volume, name, found, NOW, LOST_AFTER)

    assert may(replace(USED, holder=""), "b", ALL)
    assert may(USED, "a", ALL)
    assert not may(USED, "b", ALL)
    assert may(USED, "b", nodes(node("b")))
    assert may(USED, "b", nodes(node("a", silent=11), node("b")))


@pytest.mark.parametrize(
    ("volume", "found", "state"),
    [
        (NEW, ALL, "Pending"),
        (replace(USED, in_sync=None), ALL, "Healthy"),
        (USED, ALL, "Healthy"),
        (USED, nodes(node("b"), node("c")), "Degraded"),
        (replace(USED, in_sync=("b",), rebuilding=("c",)), ALL, "Rebuilding"),
        (USED, nodes(node("c")), "Faulted"),
    ],
    ids=["no place", "never used", "whole", "a node is lost", "a replica is rebuilt", "no replica is left"],
)
def test_state_of_a_volume(volume: Volume, found: dict[str, StorageNode], state: str) -> None:
    assert rules.state_of(volume, found, NOW, LOST_AFTER) == state


def test_cluster_says_how_its_volumes_are() -> None:
    found = rules.cluster_status(
        [USED, replace(USED, name="w", placement=on("b", "c"), in_sync=("b", "c"))],
        nodes(node("b"), node("c")),
        NOW,
        LOST_AFTER,
    )
    assert (found["nodes"], found["disks"], found["volumes"]["healthy"], found["volumes"]["degraded"]) == (2, 2, 1, 1)
    conditions = {one["type"]: (one["status"], one["reason"], one["message"]) for one in found["conditions"]}
    assert conditions == {
        "Available": ("True", "DisksFound", "2 disks on 2 nodes"),
        "Healthy": ("False", "ReplicasMissing", "1 of 2 volumes have all replicas"),
    }
    empty = rules.cluster_status([], {}, NOW, LOST_AFTER)
    assert [one["status"] for one in empty["conditions"]] == ["False", "True"]


def test_times_of_conditions_change_with_their_status() -> None:
    before = [
        {"type": "A", "status": "True", "lastTransitionTime": "t1"},
        {"type": "B", "status": "True", "lastTransitionTime": "t1"},
    ]
    now = rules.with_times([{"type": "A", "status": "True"}, {"type": "B", "status": "False"}], before, "t2")
    assert [one["lastTransitionTime"] for one in now] == ["t1", "t2"]
