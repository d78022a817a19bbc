"""What is decided about volumes: where replicas go, who may serve a volume, when a replica is replaced, how healthy things are. Pure.

A volume's `status.inSync` names the nodes whose replicas have every acknowledged write. It is changed only under the API server's optimistic locking, and only by
the head of the current epoch, so that it is right whoever else has died: a replica that is not in it is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

HEALTHY, DEGRADED, REBUILDING, PENDING, FAULTED = "Healthy", "Degraded", "Rebuilding", "Pending", "Faulted"
_USABLE_SHARE: Final = 0.9
"""Of a disk: the file system on it takes the rest."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that was discovered. size: bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class StorageNode:
    """A node with disks. heartbeat: when its agent reported last, seconds since 1970; 0 for never."""

    name: str
    address: str = ""
    heartbeat: float = 0.0
    disks: tuple[Disk, ...] = ()


@dataclass(frozen=True, slots=True)
class Replica:
    """Where one replica is."""

    node: str
    disk: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A replicated volume: what is wanted of it, and what its head says.

    in_sync: None until the replicas were made. epoch: counts heads; replicas refuse a head with a lower one than they have seen. holder: the node of the head.
    """

    name: str
    size: int
    replicas: int
    min_in_sync: int = 1
    placement: tuple[Replica, ...] = ()
    epoch: int = 0
    holder: str = ""
    in_sync: tuple[str, ...] | None = None
    rebuilding: tuple[str, ...] = ()


def is_lost(node: str, nodes: Mapping[str, StorageNode], now: float, lost_after: float) -> bool:
    """Whether a node does not serve any more: it was deleted from the cluster, or its agent has been silent for `lost_after` seconds."""
    known = nodes.get(node)
    return known is None or now - known.heartbeat > lost_after


def may_take(volume: Volume, node: str, nodes: Mapping[str, StorageNode], now: float, lost_after: float) -> bool:
    """Whether a node's agent may become the head. A wrong yes costs the old head its volume, but no data: its epoch has passed."""
    return volume.holder in ("", node) or is_lost(volume.holder, nodes, now, lost_after)


def place(
    volume: Volume,
    nodes: Mapping[str, StorageNode],
    volumes: Iterable[Volume],
    *,
    now: float,
    lost_after: float,
) -> tuple[Replica, ...]:
    """Where the replicas ought to be: as they are, with those on lost nodes replaced as far as other nodes have room.

    A replica that is in sync is given up only while another one is in sync on a node that lives. A volume gets its first replicas all at once or not at all.
    """
    others = [one for one in volumes if one.name != volume.name]
    alive = [name for name in nodes if not is_lost(name, nodes, now, lost_after)]
    if not volume.placement:
        chosen = _spare(volume, alive, nodes, others, taken=())[: volume.replicas]
        return tuple(chosen) if len(chosen) == volume.replicas else ()
    living = [one for one in volume.placement if one.node in alive]
    if not any(one.node in (volume.in_sync or ()) for one in living):
        return volume.placement
    missing = max(0, volume.replicas - len(living))
    taken = [one.node for one in volume.placement]
    spare = _spare(volume, alive, nodes, others, taken)[:missing]
    lost = [one for one in volume.placement if one.node not in alive]
    return (*living, *spare, *lost[: missing - len(spare)])


def _spare(
    volume: Volume,
    alive: Sequence[str],
    nodes: Mapping[str, StorageNode],
    others: Sequence[Volume],
    taken: Sequence[str],
) -> list[Replica]:
    """The best disk of each node that has none of the volume's replicas, roomiest first."""
    best: list[tuple[int, Replica]] = []
    for name in alive:
        rooms = [(free(nodes[name], disk, others), Replica(name, disk.path)) for disk in nodes[name].disks]
        fitting = [each for each in rooms if each[0] >= volume.size]
        if name not in taken and fitting:
            best.append(max(fitting, key=lambda each: each[0]))
    return [replica for _, replica in sorted(best, key=lambda each: (-each[0], each[1].node))]


def free(node: StorageNode, disk: Disk, volumes: Iterable[Volume]) -> int:
    """Bytes of a disk that no volume has been promised."""
    promised = sum(one.size for one in volumes if Replica(node.name, disk.path) in one.placement)
    return int(disk.size * _USABLE_SHARE) - promised


def state_of(volume: Volume, nodes: Mapping[str, StorageNode], now: float, lost_after: float) -> str:
    """The volume in a word, by the replicas that are in sync on nodes that live."""
    if not volume.placement:
        return PENDING
    if volume.in_sync is None:
        return HEALTHY  # nothing was written yet, so nothing can be missing
    good = [one for one in volume.in_sync if not is_lost(one, nodes, now, lost_after)]
    if not good:
        return FAULTED
    if len(good) >= volume.replicas:
        return HEALTHY
    return REBUILDING if volume.rebuilding else DEGRADED


def cluster_status(
    volumes: Sequence[Volume], nodes: Mapping[str, StorageNode], now: float, lost_after: float
) -> dict[str, Any]:
    """What a StorageCluster's status says of its parts: counts, and the conditions without their times."""
    states = [state_of(one, nodes, now, lost_after) for one in volumes]
    counts = {state.lower(): states.count(state) for state in (HEALTHY, DEGRADED, REBUILDING, PENDING, FAULTED)}
    alive = sorted(name for name in nodes if not is_lost(name, nodes, now, lost_after))
    disks = sum(len(nodes[name].disks) for name in alive)
    bad = len(states) - counts["healthy"]
    return {
        "nodes": len(alive),
        "disks": disks,
        "volumes": counts,
        "conditions": [
            _condition(
                "Available", bool(disks), "DisksFound" if disks else "NoDisks", f"{disks} disks on {len(alive)} nodes"
            ),
            _condition(
                "Healthy",
                not bad,
                "AllReplicasInSync" if not bad else "ReplicasMissing",
                f"{counts['healthy']} of {len(states)} volumes have all replicas",
            ),
        ],
    }


def _condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def with_times(conditions: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]], now: str) -> list[Any]:
    """The conditions with the times of their last changes."""
    known = {(one.get("type"), one.get("status")): one.get("lastTransitionTime", now) for one in before}
    return [{**one, "lastTransitionTime": known.get((one["type"], one["status"]), now)} for one in conditions]
