"""Affinity between pods: whom a term means, and which pods keep another one from a node.

The scheduler counts the same in columns (`bayplan.scheduler.plugins.inter_pod_affinity`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.api.selectors.labels import NOTHING, LabelSelector, SelectorError, compile_selector
from bayplan.api.types import core_v1
from bayplan.descheduler.snapshot import PodKey, SnapshotIndex, key_of

Terms = tuple[core_v1.PodAffinityTerm, ...]


def required_anti_affinity(pod: core_v1.Pod) -> Terms:
    """The terms of a pod's required anti-affinity."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()


def required_affinity(pod: core_v1.Pod) -> Terms:
    """The terms of a pod's required affinity to other pods."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()


class Meaning(NamedTuple):
    """Which pods a term means; equal for the terms of equal pods."""

    namespaces: frozenset[str]
    selector: LabelSelector

    def includes(self, pod: core_v1.Pod) -> bool:
        """Whether a pod is meant."""
        return pod.metadata.namespace in self.namespaces and self.selector.matches(pod.metadata.labels)


def meaning_of(term: core_v1.PodAffinityTerm, pod: core_v1.Pod, snapshot: SnapshotIndex) -> Meaning:
    """Whom a term of a pod means. An invalid selector means nobody."""
    try:
        selector = compile_selector(term.label_selector)
        namespaces = frozenset(term.namespaces)
        if term.namespace_selector is not None:
            namespaces |= snapshot.namespaces_matching(compile_selector(term.namespace_selector))
        elif not namespaces:
            namespaces = frozenset((pod.metadata.namespace,))
    except SelectorError:
        return Meaning(frozenset(), NOTHING)
    return Meaning(namespaces, selector)


@dataclass(slots=True)
class _Places:
    """The pods that a term means, by domain and by node."""

    by_value: dict[str, dict[PodKey, core_v1.Pod]] = field(default_factory=dict)
    by_node: dict[str, dict[PodKey, core_v1.Pod]] = field(default_factory=dict)


class AntiAffinityViolations:
    """Which pods are where the required anti-affinity of another one forbids them. Equal terms are looked up once."""

    def __init__(self, pods: Iterable[core_v1.Pod], nodes: Mapping[str, core_v1.Node], snapshot: SnapshotIndex) -> None:
        """pods: those that disturb others, on these nodes."""
        self._by_namespace: dict[str, list[core_v1.Pod]] = {}
        for pod in pods:
            self._by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
        self._nodes = nodes
        self._snapshot = snapshot
        self._places: dict[tuple[Meaning, str], _Places] = {}
        self._gone: set[PodKey] = set()

    def of(self, pod: core_v1.Pod) -> core_v1.Pod | None:
        """A pod that the required anti-affinity of another one forbids where both are now; None if there is none.

        Pods of one node are in one domain even if the node has no such label.
        """
        here = self._nodes[pod.spec.node_name]
        for term in required_anti_affinity(pod):
            places = self._places_of(meaning_of(term, pod, self._snapshot), term.topology_key)
            value = here.metadata.labels.get(term.topology_key)
            around = places.by_value.get(value, {}) if value is not None else {}
            for found in (around, places.by_node.get(here.metadata.name, {})):
                for key, other in found.items():
                    if key != key_of(pod) and key not in self._gone:
                        return other
        return None

    def remove(self, pod: core_v1.Pod) -> None:
        """A pod is gone and disturbs nobody any more."""
        self._gone.add(key_of(pod))

    def _places_of(self, meaning: Meaning, topology_key: str) -> _Places:
        places = self._places.get((meaning, topology_key))
        if places is None:
            places = self._places[meaning, topology_key] = _Places()
            for namespace in sorted(meaning.namespaces):
                for pod in self._by_namespace.get(namespace, ()):
                    if meaning.selector.matches(pod.metadata.labels):
                        node = self._nodes[pod.spec.node_name]
                        value = node.metadata.labels.get(topology_key)
                        places.by_node.setdefault(node.metadata.name, {})[key_of(pod)] = pod
                        if value is not None:
                            places.by_value.setdefault(value, {})[key_of(pod)] = pod
        return places


def forbidden_on(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> bool:
    """Whether a pod's required anti-affinity forbids a node for what runs on that node itself, which is what node fit looks at."""
    terms = [term for term in required_anti_affinity(pod) if term.topology_key in node.metadata.labels]
    if not terms:
        return False
    meanings = [meaning_of(term, pod, snapshot) for term in terms]
    others = (one for one in snapshot.present_on(node.metadata.name) if key_of(one) != key_of(pod))
    return any(meaning.includes(other) for other in others for meaning in meanings)


class AffinityRules:
    """Where the required affinity and anti-affinity of a pod, and the anti-affinity of all others, let it be. In whole topology domains."""

    def __init__(self, pod: core_v1.Pod, snapshot: SnapshotIndex) -> None:
        self._near: list[tuple[str, frozenset[str] | None]] = []
        """Topology keys with the values of which one must be met; None if any will do."""
        self._apart: set[tuple[str, str]] = set()
        """Topology keys with values that are forbidden."""
        for term in required_anti_affinity(pod):
            self._apart |= self._domains(pod, meaning_of(term, pod, snapshot), term.topology_key, snapshot)
        for other in snapshot.pods_with_anti_affinity():
            if key_of(other) != key_of(pod):
                self._keep_apart_from(pod, other, snapshot)
        for term in required_affinity(pod):
            meaning = meaning_of(term, pod, snapshot)
            found = {value for _, value in self._domains(pod, meaning, term.topology_key, snapshot)}
            # A first pod of its kind may go anywhere: it would wait for itself.
            alone = not found and meaning.includes(pod)
            self._near.append((term.topology_key, None if alone else frozenset(found)))

    def allow(self, node: core_v1.Node) -> bool:
        """Whether the pod may be on a node."""
        labels = node.metadata.labels
        if any(labels.get(key) == value for key, value in self._apart):
            return False
        return all(key in labels and (values is None or labels[key] in values) for key, values in self._near)

    def _keep_apart_from(self, pod: core_v1.Pod, other: core_v1.Pod, snapshot: SnapshotIndex) -> None:
        node = snapshot.nodes.get(snapshot.place_of(other))
        for term in required_anti_affinity(other):
            value = node.metadata.labels.get(term.topology_key) if node is not None else None
            if value is not None and meaning_of(term, other, snapshot).includes(pod):
                self._apart.add((term.topology_key, value))

    @staticmethod
    def _is_met(pod: core_v1.Pod, meaning: Meaning, node: str, snapshot: SnapshotIndex) -> bool:
        return any(key_of(one) != key_of(pod) and meaning.includes(one) for one in snapshot.present_on(node))

    def _domains(
        self, pod: core_v1.Pod, meaning: Meaning, topology_key: str, snapshot: SnapshotIndex
    ) -> set[tuple[str, str]]:
        """The domains in which pods are that a term means, as topology key and value."""
        return {
            (topology_key, node.metadata.labels[topology_key])
            for name, node in snapshot.nodes.items()
            if topology_key in node.metadata.labels and self._is_met(pod, meaning, name, snapshot)
        }
