"""What a change is: a function from one supposed state of affairs to another. Nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.simulation.snapshots.planner import NodeShape


@dataclass(frozen=True, slots=True)
class Supposed:
    """A state of affairs: the pod as it would be, and what is different in its cluster."""

    pod: core_v1.Pod
    nodes: Mapping[str, core_v1.Node] = field(default_factory=dict)
    """Nodes that are other than in the copy."""
    evicted: tuple[str, ...] = ()
    added: NodeShape | None = None


Apply = Callable[[Supposed], Supposed]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to do."""

    kind: str
    text: str
    size: int
    detail: dict[str, Any]
    apply: Apply = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": self.kind, "text": self.text, "size": self.size, **self.detail}


@dataclass(frozen=True, slots=True)
class Range:
    """A change of more or less: from `weakest` to `strongest`, both included. What one strength can do, a greater one can."""

    weakest: int
    strongest: int
    at: Callable[[int], Change]


Candidate = Change | Range


@dataclass(frozen=True, slots=True)
class Fix:
    """Changes that together place the pod on `node`."""

    changes: tuple[Change, ...]
    node: str
    patch: dict[str, Any] = field(default_factory=dict, compare=False)
    """Of the pod's spec: a strategic merge patch; empty if the pod stays as it is."""
    commands: tuple[str, ...] = field(default=(), compare=False)
    """What makes the changes, for a shell."""

    @property
    def size(self) -> int:
        """How much they touch; see `fixes_changes`."""
        return sum(change.size for change in self.changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "size": self.size,
            "node": self.node,
            "changes": [change.to_dict() for change in self.changes],
            "patch": self.patch,
            "commands": list(self.commands),
        }


def strongest(candidate: Candidate) -> Change:
    """The form of a change that helps if any does."""
    return candidate.at(candidate.strongest) if isinstance(candidate, Range) else candidate


def of_spec(change: Callable[[core_v1.PodSpec], core_v1.PodSpec]) -> Apply:
    """A change of the pod's spec."""
    return lambda state: replace_pod(state, replace(state.pod, spec=change(state.pod.spec)))


def replace_pod(state: Supposed, pod: core_v1.Pod) -> Supposed:
    """The same with another pod."""
    return Supposed(pod, state.nodes, state.evicted, state.added)


def change_node(state: Supposed, node: core_v1.Node, change: Callable[[core_v1.Node], core_v1.Node]) -> Supposed:
    """The same with one node changed, which may have been changed before."""
    name = node.metadata.name
    changed = change(state.nodes.get(name, node))
    return Supposed(state.pod, {**state.nodes, name: changed}, state.evicted, state.added)
