"""The cluster as one pass sees it: nodes, pods and what protects pods, indexed.

What a pass evicts leaves the snapshot, so that later strategies of the pass do not count it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bayplan.api.pods.resources import pod_total
from bayplan.api.quota.amounts import Amounts, add, parsed
from bayplan.api.selectors.labels import LabelSelector, SelectorError, compile_selector
from bayplan.api.types import core_v1, policy_v1, scheduling_v1

PodKey = tuple[str, str]
"""Namespace and name."""
_ENDED = ("Succeeded", "Failed")


def key_of(obj: core_v1.Pod | core_v1.PersistentVolumeClaim) -> PodKey:
    """Namespace and name of an object."""
    return obj.metadata.namespace, obj.metadata.name


def has_ended(pod: core_v1.Pod) -> bool:
    """Whether a pod has succeeded or failed, so that it takes no resources."""
    return pod.status.phase in _ENDED


@dataclass(frozen=True, slots=True)
class Usage:
    """What nodes and pods really use, from metrics.k8s.io: resource -> amount, by node name and by pod."""

    nodes: Mapping[str, Amounts]
    pods: Mapping[PodKey, Amounts]


@dataclass(slots=True)
class ClusterSnapshot:
    """The objects of one pass. `now` is in Unix seconds; objects are shared and never changed."""

    now: float
    nodes: Iterable[core_v1.Node]
    pods: Iterable[core_v1.Pod]
    namespaces: Iterable[core_v1.Namespace] = ()
    budgets: Iterable[policy_v1.PodDisruptionBudget] = ()
    claims: Iterable[core_v1.PersistentVolumeClaim] = ()
    priority_classes: Iterable[scheduling_v1.PriorityClass] = ()
    usage: Usage | None = None
    """None if nobody collects it."""
    index: SnapshotIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.index = SnapshotIndex(self)


class SnapshotIndex:
    """Look-ups over a snapshot, without the pods that the pass has evicted so far."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.now = snapshot.now
        self.usage = snapshot.usage
        self.nodes = {node.metadata.name: node for node in snapshot.nodes}
        self.claims = {key_of(claim): claim for claim in snapshot.claims}
        self.priorities = {one.metadata.name: one.value for one in snapshot.priority_classes}
        self._namespaces = {one.metadata.name: one.metadata.labels for one in snapshot.namespaces}
        self._budgets = tuple(snapshot.budgets)
        self._pods = {key_of(pod): pod for pod in snapshot.pods}
        self._by_node: dict[str, dict[PodKey, core_v1.Pod]] = {}
        self._owned: dict[str, int] = {}
        for key, pod in self._pods.items():
            if pod.spec.node_name:
                self._by_node.setdefault(pod.spec.node_name, {})[key] = pod
            self._count_owners(pod, 1)
        self._requests: dict[PodKey, Amounts] = {}
        self._requested: dict[str, Amounts] = {}
        self._capacities: dict[str, Amounts] = {}
        self._counts: dict[str, int] = {}
        self._expected: dict[str, list[core_v1.Pod]] = {}
        self._successors: dict[PodKey, str] = {}

    def has(self, pod: core_v1.Pod) -> bool:
        """Whether a pod has not been evicted in this pass."""
        return key_of(pod) in self._pods

    def all_pods_on(self, node: str) -> list[core_v1.Pod]:
        """The pods of a node in any phase, by namespace and name."""
        pods = self._by_node.get(node, {})
        return [pods[key] for key in sorted(pods)]

    def pods_on(self, node: str) -> list[core_v1.Pod]:
        """The pods of a node that take resources: neither succeeded nor failed."""
        return [pod for pod in self.all_pods_on(node) if not has_ended(pod)]

    def present_on(self, node: str) -> Iterator[core_v1.Pod]:
        """The pods of a node that take resources and those that are expected there, in any order."""
        for pod in self._by_node.get(node, {}).values():
            if not has_ended(pod):
                yield pod
        yield from self._expected.get(node, ())

    def pods_with_anti_affinity(self) -> Iterator[core_v1.Pod]:
        """The pods on nodes that have a required anti-affinity, those among them that are expected somewhere."""
        for pod in self._with_anti_affinity:
            if self.place_of(pod):
                yield pod

    def place_of(self, pod: core_v1.Pod) -> str:
        """The node of a pod, or the one on which its successor is expected; empty if it is gone or has ended."""
        key = key_of(pod)
        if key in self._pods:
            return "" if has_ended(pod) else pod.spec.node_name
        return self._successors.get(key, "")

    @cached_property
    def _with_anti_affinity(self) -> list[core_v1.Pod]:
        found = []
        for pod in (*self._pods.values(), *(one for several in self._expected.values() for one in several)):
            affinity = pod.spec.affinity
            terms = affinity.pod_anti_affinity if affinity is not None else None
            if terms is not None and terms.required_during_scheduling_ignored_during_execution:
                found.append(pod)
        return found

    def replicas(self, owner_uid: str) -> int:
        """How many pods refer to an owner."""
        return self._owned.get(owner_uid, 0)

    def requests(self, pod: core_v1.Pod) -> Amounts:
        """What a pod requests as a whole, with overhead."""
        key = key_of(pod)
        if key not in self._requests:
            self._requests[key] = pod_total(pod.spec, "requests", overhead=True)
        return self._requests[key]

    def capacity_of(self, node: core_v1.Node) -> Amounts:
        """What a node offers to pods: its allocatable resources, or its capacity if it does not say."""
        name = node.metadata.name
        if name not in self._capacities:
            self._capacities[name] = parsed(node.status.allocatable or node.status.capacity)
        return self._capacities[name]

    def requested_on(self, node: str) -> Amounts:
        """The sum of the requests on a node, with pods that are expected there."""
        if node not in self._requested:
            total: Amounts = {}
            for pod in self.present_on(node):
                total = add(total, self.requests(pod))
            self._requested[node] = total
        return self._requested[node]

    def count_on(self, node: str) -> int:
        """The number of pods on a node that take resources, with those that are expected there."""
        if node not in self._counts:
            self._counts[node] = sum(1 for _ in self.present_on(node))
        return self._counts[node]

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not known."""
        return self._namespaces.get(namespace, {})

    def namespaces_matching(self, selector: LabelSelector) -> frozenset[str]:
        """The namespaces that a label selector selects."""
        return frozenset(name for name, labels in self._namespaces.items() if selector.matches(labels))

    def has_budget(self, pod: core_v1.Pod) -> bool:
        """Whether a disruption budget of its namespace selects a pod."""
        return any(
            namespace == pod.metadata.namespace and selector.matches(pod.metadata.labels)
            for namespace, selector in self._budget_selectors
        )

    @cached_property
    def _budget_selectors(self) -> list[tuple[str, LabelSelector]]:
        found = []
        for budget in self._budgets:
            try:
                found.append((budget.metadata.namespace, compile_selector(budget.spec.selector)))
            except SelectorError:
                continue  # it selects nothing
        return found

    def remove(self, pod: core_v1.Pod, expected_on: str = "") -> None:
        """Take an evicted pod away; its successor may be expected on another node."""
        key = key_of(pod)
        if self._pods.pop(key, None) is None:
            return
        self._by_node.get(pod.spec.node_name, {}).pop(key, None)
        self._forget_sums(pod.spec.node_name)
        self._count_owners(pod, -1)
        if expected_on:
            self._expected.setdefault(expected_on, []).append(pod)
            self._successors[key] = expected_on
            self._forget_sums(expected_on)

    def _forget_sums(self, node: str) -> None:
        self._requested.pop(node, None)
        self._counts.pop(node, None)

    def _count_owners(self, pod: core_v1.Pod, change: int) -> None:
        for owner in pod.metadata.owner_references:
            self._owned[owner.uid] = self._owned.get(owner.uid, 0) + change
