"""Topology spread constraints, pod by pod: which domains there are, and how many pods each has.

Source: `pod.spec.topologySpreadConstraints`. `minDomains` is not looked at, as upstream's strategy does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.selectors.labels import LabelSelector, SelectorError, compile_selector, from_map
from bayplan.api.selectors.nodes import pod_may_run_on
from bayplan.api.types import core_v1
from bayplan.descheduler.node_fit import HARD_EFFECTS
from bayplan.descheduler.snapshot import SnapshotIndex, key_of

NodeRules = tuple[tuple[tuple[str, str], ...], core_v1.NodeSelector | None]


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint with what it takes from its pod; equal ones of several pods are one."""

    max_skew: int
    topology_key: str
    selector: LabelSelector
    node_rules: NodeRules | None
    """Node selector and required affinity of the pod, if nodes are chosen by them."""
    tolerations: tuple[core_v1.Toleration, ...] | None
    """Tolerations of the pod, if nodes are chosen by them."""
    example: core_v1.PodSpec
    """The spec that node rules are taken from; does not tell constraints apart."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpreadConstraint) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((self.max_skew, self.topology_key, self.selector.requirements))

    def _parts(self) -> tuple[object, ...]:
        return (self.max_skew, self.topology_key, self.selector, self.node_rules, self.tolerations)

    def counts(self, node: core_v1.Node) -> bool:
        """Whether the domain of a node counts, as the constraint's node inclusion policies say."""
        if self.node_rules is not None and not pod_may_run_on(self.example, node):
            return False
        if self.tolerations is None:
            return True
        return untolerated(self.tolerations, node.spec.taints, HARD_EFFECTS) is None

    def domain_names(self, nodes: Iterable[core_v1.Node]) -> Iterator[str]:
        """The values of the topology key on nodes that count, each once, in order."""
        seen = dict.fromkeys(
            node.metadata.labels[self.topology_key]
            for node in nodes
            if self.topology_key in node.metadata.labels and self.counts(node)
        )
        yield from seen


def constraints_of(pod: core_v1.Pod, actions: Iterable[str]) -> Iterator[SpreadConstraint]:
    """The constraints of a pod with one of these actions (whenUnsatisfiable). Those with invalid selectors are left out."""
    wanted = frozenset(actions)
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable not in wanted:
            continue
        try:
            selector = compile_selector(constraint.label_selector)
        except SelectorError:
            continue
        own = {key: pod.metadata.labels[key] for key in constraint.match_label_keys if key in pod.metadata.labels}
        by_affinity = (constraint.node_affinity_policy or "Honor") == "Honor"
        by_taints = (constraint.node_taints_policy or "Ignore") == "Honor"
        yield SpreadConstraint(
            constraint.max_skew,
            constraint.topology_key,
            selector.merged(from_map(own)) if own else selector,
            _node_rules(pod) if by_affinity else None,
            pod.spec.tolerations if by_taints else None,
            pod.spec,
        )


def _node_rules(pod: core_v1.Pod) -> NodeRules:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return tuple(sorted(pod.spec.node_selector.items())), required


class SpreadRules:
    """Where the hard constraints of a pod let it be, without counting the pod where it is now."""

    def __init__(self, pod: core_v1.Pod, snapshot: SnapshotIndex) -> None:
        nodes = tuple(snapshot.nodes.values())
        self._most: list[tuple[str, dict[str, int], int]] = []
        """Topology key, pods by domain, and how many of them a domain may have before the pod comes."""
        for constraint in constraints_of(pod, ("DoNotSchedule",)):
            counts = _counts(pod, nodes, constraint, snapshot)
            counted = constraint.selector.matches(pod.metadata.labels)
            most = constraint.max_skew + min(counts.values(), default=0) - counted
            self._most.append((constraint.topology_key, counts, most))

    def allow(self, node: core_v1.Node) -> bool:
        """Whether the pod may be on a node."""
        labels = node.metadata.labels
        return all(key in labels and counts.get(labels[key], 0) <= most for key, counts, most in self._most)


def _counts(
    pod: core_v1.Pod, nodes: Sequence[core_v1.Node], constraint: SpreadConstraint, snapshot: SnapshotIndex
) -> dict[str, int]:
    """How many other pods of the namespace that a constraint means are in each domain that counts."""
    counts = dict.fromkeys(constraint.domain_names(nodes), 0)
    for node in nodes:
        domain = node.metadata.labels.get(constraint.topology_key)
        if domain not in counts:
            continue
        for other in snapshot.present_on(node.metadata.name):
            same = other.metadata.namespace == pod.metadata.namespace and key_of(other) != key_of(pod)
            counts[domain] += same and constraint.selector.matches(other.metadata.labels)
    return counts
