"""The rules of a pod that hold while it runs, compiled: pods of one workload share them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from bayplan.api.pods.execution_rules import PREFERRED, REQUIRED, PodRules, has_rules, with_annotation_rules
from bayplan.api.selectors.labels import NOTHING, LabelSelector, SelectorError, compile_selector
from bayplan.api.selectors.nodes import NodeTerm
from bayplan.api.types import core_v1, meta_v1
from bayplan.support.memory.memo import memoized

NODE: Final = "nodeAffinity"
AFFINITY: Final = "podAffinity"
ANTI_AFFINITY: Final = "podAntiAffinity"


@dataclass(frozen=True, slots=True)
class Target:
    """Pods that a rule means, by namespace and labels."""

    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    selector: LabelSelector


@dataclass(frozen=True, slots=True)
class Term:
    """Pods that all of the targets mean, and the label of nodes that says what is near.

    Only required affinity has several targets: one pod has to satisfy all its rules, as the scheduler wants it.
    """

    targets: tuple[Target, ...]
    topology_key: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a pod. `term` is None for rules about nodes, of which one of `node_terms` has to match."""

    kind: str
    name: str
    """The path of the field below `affinity`."""
    is_required: bool
    """Whether it has to hold even if it never did; a preferred rule counts once it has held."""
    term: Term | None = None
    node_terms: tuple[NodeTerm, ...] = ()


def rules_of(pod: core_v1.Pod) -> tuple[Rule, ...]:
    """The rules of a pod that hold during execution, those of its annotation included."""
    affinity = with_annotation_rules(pod).spec.affinity
    return _compiled_rules(_encode(affinity), pod.metadata.namespace) if has_rules(affinity) else ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(core_v1.Affinity).decode


@memoized(4096)
def _compiled_rules(encoded: bytes, namespace: str) -> tuple[Rule, ...]:
    """The rules of an affinity, compiled once for all pods that have the same one."""
    affinity = _decode(encoded)
    node, found = affinity.node_affinity, []
    if node is not None:
        required = node.required_during_scheduling_required_during_execution
        if required is not None:
            terms = tuple(NodeTerm(term) for term in required.node_selector_terms)
            found.append(Rule(NODE, f"{NODE}.{REQUIRED}", True, node_terms=terms))
        for index, one in enumerate(node.preferred_during_scheduling_required_during_execution):
            found.append(Rule(NODE, f"{NODE}.{PREFERRED}[{index}]", False, node_terms=(NodeTerm(one.preference),)))
    for kind, part in ((AFFINITY, affinity.pod_affinity), (ANTI_AFFINITY, affinity.pod_anti_affinity)):
        if part is not None:
            found += _pod_rules(kind, part, namespace)
    return tuple(found)


def _pod_rules(kind: str, part: PodRules, namespace: str) -> Iterator[Rule]:
    required = part.required_during_scheduling_required_during_execution
    all_targets = tuple(dict.fromkeys(_target(term, namespace) for term in required))
    for index, term in enumerate(required):
        targets = all_targets if kind == AFFINITY else (_target(term, namespace),)
        yield Rule(kind, f"{kind}.{REQUIRED}[{index}]", True, Term(targets, term.topology_key))
    for index, weighted in enumerate(part.preferred_during_scheduling_required_during_execution):
        term = weighted.pod_affinity_term
        one = Term((_target(term, namespace),), term.topology_key)
        yield Rule(kind, f"{kind}.{PREFERRED}[{index}]", False, one)


def _target(term: core_v1.PodAffinityTerm, namespace: str) -> Target:
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return Target(namespaces, _compiled(term.namespace_selector), _compiled(term.label_selector))


def _compiled(selector: meta_v1.LabelSelector | None) -> LabelSelector:
    """A selector that cannot be parsed means nothing, as the scheduler takes it."""
    try:
        return compile_selector(selector)
    except SelectorError:
        return NOTHING
