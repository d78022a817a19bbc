"""Keeps what is written to a virtual cluster: each write with its time, its component, what it changed, and what a picture needs of the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from bayplan.simulation.lessons.tree_difference import FieldChange, tree_difference
from bayplan.simulation.trace import Write

_UNSHOWN_KINDS: Final = frozenset({"Lease", "EndpointSlice", "Endpoints", "ControllerRevision", "PodDisruptionBudget"})
"""Kinds whose writes no scenario tells of."""
_ZONE: Final = "topology.kubernetes.io/zone"


class Change(msgspec.Struct):
    """One write. `state` is what a picture shows of the object after it; None if it is gone."""

    at: float
    """Virtual seconds since the scenario began."""
    revision: int
    actor: str
    verb: str
    kind: str
    namespace: str
    name: str
    difference: list[FieldChange]
    state: dict[str, Any] | None


class Recorder:
    """Takes the writes of one cluster (`Trace.listeners`). What comes before `begin` makes the state at the beginning."""

    def __init__(self) -> None:
        self.initial: list[Change] = []
        self.changes: list[Change] = []
        self._now: dict[str, Change] = {}
        self._start: float | None = None

    def begin(self, at: float) -> None:
        """From now on writes are changes. at: the present second of the trace."""
        self._start = at
        self.initial = list(self._now.values())

    def take(self, write: Write) -> None:
        """One write."""
        after = None if write.value is None else msgspec.json.decode(write.value)
        before = None if write.previous is None else msgspec.json.decode(write.previous)
        tree = after or before or {}
        kind = tree.get("kind", "")
        if kind in _UNSHOWN_KINDS or (kind == "Event" and write.verb != "create"):
            return
        metadata = tree["metadata"]
        change = Change(
            at=round(write.at - (self._start or 0.0), 6),
            revision=write.revision,
            actor=write.actor,
            verb=write.verb,
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            difference=[] if kind == "Event" or after is None else tree_difference(before, after),
            state=None if after is None else state_of(after),
        )
        if after is None:
            self._now.pop(write.key, None)
        elif kind in _STATES and kind != "Event":
            self._now[write.key] = msgspec.structs.replace(change, at=0.0, difference=[])
        if self._start is not None:
            self.changes.append(change)

    def first_named(self, kind: str, pattern: str) -> str | None:
        """The name of an object that there is now, by a pattern as of files; the first in the order of names."""
        names = sorted(one.name for one in self._now.values() if one.kind == kind)
        return next((name for name in names if fnmatchcase(name, pattern)), None)


def state_of(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What a picture shows of an object; nothing for kinds without a picture."""
    make = _STATES.get(tree.get("kind", ""))
    return make(tree, tree.get("spec") or {}, tree.get("status") or {}) if make is not None else {}


Tree = Mapping[str, Any]


def _pod(tree: Tree, spec: Tree, status: Tree) -> dict[str, Any]:
    metadata = tree["metadata"]
    return {
        "node": spec.get("nodeName", ""),
        "place": pod_place(tree, spec, status),
        "app": (metadata.get("labels") or {}).get("app", ""),
        "image": (spec.get("containers") or [{}])[0].get("image", ""),
        "nominated": status.get("nominatedNodeName", ""),
    }


def pod_place(tree: Tree, spec: Tree, status: Tree) -> str:
    """Where a pod is on its way: waiting, starting, running, ready, leaving or ended."""
    if tree["metadata"].get("deletionTimestamp"):
        return "leaving"
    if status.get("phase") in ("Succeeded", "Failed"):
        return "ended"
    if not spec.get("nodeName"):
        return "waiting"
    if status.get("phase") != "Running":
        return "starting"
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return "ready" if conditions.get("Ready") == "True" else "running"


def _node(tree: Tree, spec: Tree, status: Tree) -> dict[str, Any]:
    metadata = tree["metadata"]
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return {
        "ready": conditions.get("Ready") == "True",
        "cordoned": bool(spec.get("unschedulable")),
        "taints": [f"{one['key']}:{one['effect']}" for one in spec.get("taints") or ()],
        "zone": (metadata.get("labels") or {}).get(_ZONE, ""),
        "cpu": str((status.get("allocatable") or {}).get("cpu", "")),
    }


def _replicas(tree: Tree, spec: Tree, status: Tree) -> dict[str, Any]:
    return {
        "wanted": spec.get("replicas", 1),
        "ready": status.get("readyReplicas", 0),
        "made": status.get("replicas", 0),
    }


def _event(tree: Tree, spec: Tree, status: Tree) -> dict[str, Any]:
    about = tree.get("involvedObject") or {}
    return {
        "reason": tree.get("reason", ""),
        "message": tree.get("message", ""),
        "type": tree.get("type", "Normal"),
        "about": f"{about.get('kind', '')} {about.get('name', '')}",
    }


_STATES: Final[Mapping[str, Callable[[Tree, Tree, Tree], dict[str, Any]]]] = {
    "Pod": _pod,
    "Node": _node,
    "Deployment": _replicas,
    "ReplicaSet": _replicas,
    "Event": _event,
}
