"""Affinity between pods, pod by pod: whom a term means, and which pods keep another one from a node.

The scheduler counts the same in columns (`bayplan.scheduler.plugins.inter_pod_affinity`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.api.selectors import SelectorError, compile_selector
from bayplan.api.types import core_v1
from bayplan.descheduler.snapshot import SnapshotIndex, key_of

Terms = tuple[core_v1.PodAffinityTerm, ...]


def required_anti_affinity(pod: core_v1.Pod) -> Terms:
    """The terms of a pod's required anti-affinity."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()


def required_affinity(pod: core_v1.Pod) -> Terms:
    """The terms of a pod's required affinity to other pods."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()


def means(pod: core_v1.Pod, term: core_v1.PodAffinityTerm, other: core_v1.Pod, snapshot: SnapshotIndex) -> bool:
    """Whether a term of a pod selects another pod by namespace and labels. An invalid selector selects nothing."""
    try:
        selector = compile_selector(term.label_selector)
        namespaces = frozenset(term.namespaces)
        if term.namespace_selector is not None:
            namespaces |= snapshot.namespaces_matching(compile_selector(term.namespace_selector))
    except SelectorError:
        return False
    if term.namespace_selector is None and not namespaces:
        namespaces = frozenset((pod.metadata.namespace,))
    return other.metadata.namespace in namespaces and selector.matches(other.metadata.labels)


def violated_by(
    pod: core_v1.Pod, others: Iterable[core_v1.Pod], nodes: Mapping[str, core_v1.Node], snapshot: SnapshotIndex
) -> core_v1.Pod | None:
    """The first other pod that the required anti-affinity of a pod forbids where both are now; None if there is none."""
    terms = required_anti_affinity(pod)
    here = nodes.get(pod.spec.node_name)
    if not terms or here is None:
        return None
    known = [other for other in others if key_of(other) != key_of(pod)]
    for term in terms:
        for other in known:
            there = nodes.get(other.spec.node_name)
            if there is None or not means(pod, term, other, snapshot):
                continue
            if same_domain(here, there, term.topology_key):
                return other
    return None


def same_domain(one: core_v1.Node, other: core_v1.Node, topology_key: str) -> bool:
    """Whether two nodes are the same, or have equal values of a label."""
    if one.metadata.name == other.metadata.name:
        return True
    value = one.metadata.labels.get(topology_key)
    return value is not None and value == other.metadata.labels.get(topology_key)


def forbidden_on(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> bool:
    """Whether a pod's required anti-affinity forbids a node for what runs on that node itself, which is what node fit looks at."""
    terms = [term for term in required_anti_affinity(pod) if term.topology_key in node.metadata.labels]
    if not terms:
        return False
    name = node.metadata.name
    others = [one for one in (*snapshot.pods_on(name), *snapshot.expected_on(name)) if key_of(one) != key_of(pod)]
    return any(means(pod, term, other, snapshot) for term in terms for other in others)


def allowed_in_domains(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> bool:
    """Whether the required affinity and anti-affinity of a pod and of all other pods allow a node, in whole topology domains."""
    return not _repelled(pod, node, snapshot) and all(
        _attracted(pod, term, node, snapshot) for term in required_affinity(pod)
    )


def _repelled(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> bool:
    own = required_anti_affinity(pod)
    for other, there in _placed(pod, snapshot):
        for term in own:
            if same_domain(node, there, term.topology_key) and means(pod, term, other, snapshot):
                return True
        for term in required_anti_affinity(other):
            if same_domain(node, there, term.topology_key) and means(other, term, pod, snapshot):
                return True
    return False


def _attracted(pod: core_v1.Pod, term: core_v1.PodAffinityTerm, node: core_v1.Node, snapshot: SnapshotIndex) -> bool:
    """A first pod of its kind may go anywhere: it would wait for itself."""
    if term.topology_key not in node.metadata.labels:
        return False
    found = [there for other, there in _placed(pod, snapshot) if means(pod, term, other, snapshot)]
    if not found:
        return means(pod, term, pod, snapshot)
    return any(same_domain(node, there, term.topology_key) for there in found)


def _placed(pod: core_v1.Pod, snapshot: SnapshotIndex) -> Iterable[tuple[core_v1.Pod, core_v1.Node]]:
    """All other pods that take resources, with their nodes."""
    for name, node in snapshot.nodes.items():
        for other in (*snapshot.pods_on(name), *snapshot.expected_on(name)):
            if key_of(other) != key_of(pod):
                yield other, node
