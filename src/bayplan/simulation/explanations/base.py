"""What an explanation is, and the facts of a copy that all explanations look up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from bayplan.api.codec import with_metadata
from bayplan.api.types import core_v1
from bayplan.controllers.base import controller_of
from bayplan.controllers.nodes.affinity_eviction_index import ExecutionIndex
from bayplan.simulation.snapshots.snapshot import KINDS, ClusterSnapshot


@dataclass(slots=True)
class Explanation:
    """An answer about one object."""

    kind: str
    name: str
    """`namespace/name`, or the name alone if the kind has no namespaces."""
    answer: str
    """One clause that follows the name, such as `runs on node-1`."""
    good: bool = True
    """Whether all is as it should be."""
    because: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    """What to do."""

    @property
    def headline(self) -> str:
        """The first line."""
        return f"{self.kind.lower()} {self.name} {self.answer}"

    def text(self) -> str:
        """The answer, why, and what to do: a line each."""
        lines = [
            self.headline,
            *(f"  because {one}" for one in self.because),
            *(f"  to do: {one}" for one in self.advice),
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "answer": self.answer,
            "good": self.good,
            "because": list(self.because),
            "advice": list(self.advice),
        }


def is_namespaced(kind: str) -> bool:
    """Whether objects of a kind are in namespaces."""
    return KINDS.named(kind).namespaced


def home_of(kind: str, obj: Any) -> str:
    """The namespace of an object; "" if its kind has none."""
    return (obj.metadata.namespace or "default") if is_namespaced(kind) else ""


def key_of(obj: Any) -> str:
    """`namespace/name`."""
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"


class Facts:
    """A copy with the indexes that explanations need."""

    def __init__(self, copy: ClusterSnapshot) -> None:
        self.copy = copy
        self._by_name: dict[str, dict[tuple[str, str], Any]] = {}

    @cached_property
    def nodes(self) -> dict[str, core_v1.Node]:
        """Nodes by name."""
        return {node.metadata.name: node for node in self.copy.of("Node")}

    @cached_property
    def pods_of_nodes(self) -> dict[str, list[core_v1.Pod]]:
        """Pods by the names of their nodes; those without a node are under ""."""
        found: dict[str, list[core_v1.Pod]] = {}
        for pod in self.copy.of("Pod"):
            found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    @cached_property
    def execution(self) -> ExecutionIndex:
        """The rules of running pods that hold during execution."""
        found = ExecutionIndex()
        for namespace in self.copy.of("Namespace"):
            found.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for node in self.copy.of("Node"):
            found.set_node(node.metadata.name, node.metadata.labels)
        for pod in self.copy.of("Pod"):
            found.set_pod(with_metadata(pod, replace(pod.metadata, namespace=home_of("Pod", pod))))
        return found

    @cached_property
    def _events(self) -> dict[tuple[str, str, str], list[core_v1.Event]]:
        found: dict[tuple[str, str, str], list[core_v1.Event]] = {}
        for event in self.copy.of("Event"):
            about = event.involved_object
            found.setdefault((about.kind, about.namespace or event.metadata.namespace, about.name), []).append(event)
        return found

    def events(self, kind: str, obj: Any, reasons: Iterable[str] = ()) -> list[core_v1.Event]:
        """Events about an object, the latest first; only those with one of the reasons, if any is given."""
        namespace = home_of(kind, obj)
        names = (namespace,) if namespace else ("", "default")
        wanted = frozenset(reasons)
        found = [
            event
            for home in names
            for event in self._events.get((kind, home, obj.metadata.name), ())
            if (not wanted or event.reason in wanted)
            and event.involved_object.uid in ("", obj.metadata.uid, obj.metadata.name)
        ]
        return sorted(found, key=_moment, reverse=True)

    def last_message(self, kind: str, obj: Any, reasons: Iterable[str]) -> str:
        """The message of the latest event with one of the reasons; empty if there is none."""
        found = self.events(kind, obj, reasons)
        return found[0].message if found else ""

    @cached_property
    def _owned(self) -> dict[tuple[str, str], list[Any]]:
        found: dict[tuple[str, str], list[Any]] = {}
        for kind in ("Pod", "ReplicaSet", "Job"):
            for obj in self.copy.of(kind):
                owner = controller_of(obj)
                if owner is not None:
                    found.setdefault((kind, owner.uid), []).append(obj)
        return found

    def owned(self, kind: str, owner: Any) -> list[Any]:
        """The pods, replica sets or jobs whose controller an object is, by name."""
        found = self._owned.get((kind, owner.metadata.uid), ()) if owner.metadata.uid else ()
        return sorted(found, key=lambda one: (len(one.metadata.name), one.metadata.name))

    def named(self, kind: str, namespace: str, name: str) -> Any | None:
        """The object of a kind with this name. namespace: of no account for a kind that has none."""
        if kind not in self._by_name:
            self._by_name[kind] = {(home_of(kind, obj), obj.metadata.name): obj for obj in self.copy.of(kind)}
        return self._by_name[kind].get((namespace if is_namespaced(kind) else "", name))


def _moment(event: core_v1.Event) -> tuple[str, str]:
    series = event.series.last_observed_time if event.series is not None else None
    time = series or event.last_timestamp or event.event_time or event.first_timestamp or ""
    return str(time)[:19], event.metadata.name


def condition(obj: Any, type_: str) -> Any | None:
    """The condition of a type in an object's status."""
    return next((one for one in obj.status.conditions if one.type == type_), None)


def said(reason: str, message: str) -> str:
    """`reason: message`, or the one of them that there is."""
    return ": ".join(part for part in (reason, message.strip()) if part)
