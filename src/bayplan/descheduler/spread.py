"""Topology spread constraints, pod by pod: which domains there are, and how many pods each has.

Source: `pod.spec.topologySpreadConstraints`. `minDomains` is not looked at, as upstream's strategy does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bayplan.api.node_selectors import pod_may_run_on
from bayplan.api.selectors import LabelSelector, SelectorError, compile_selector, from_map
from bayplan.api.tolerations import untolerated
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


def allowed_by_spread(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> bool:
    """Whether the hard constraints of a pod let it move to a node from where it is."""
    nodes = tuple(snapshot.nodes.values())
    return all(_stays_balanced(pod, node, nodes, one, snapshot) for one in constraints_of(pod, ("DoNotSchedule",)))


def _stays_balanced(
    pod: core_v1.Pod,
    node: core_v1.Node,
    nodes: Sequence[core_v1.Node],
    constraint: SpreadConstraint,
    snapshot: SnapshotIndex,
) -> bool:
    domain = node.metadata.labels.get(constraint.topology_key)
    if domain is None:
        return False
    counts = dict.fromkeys(constraint.domain_names(nodes), 0)
    for one in nodes:
        where = one.metadata.labels.get(constraint.topology_key)
        if where not in counts:
            continue
        name = one.metadata.name
        for other in (*snapshot.pods_on(name), *snapshot.expected_on(name)):
            same = other.metadata.namespace == pod.metadata.namespace and key_of(other) != key_of(pod)
            if same and constraint.selector.matches(other.metadata.labels):
                counts[where] += 1
    counted = constraint.selector.matches(pod.metadata.labels)
    return counts.get(domain, 0) + counted - min(counts.values(), default=0) <= constraint.max_skew
