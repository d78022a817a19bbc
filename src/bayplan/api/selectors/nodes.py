"""Which nodes a pod may run on by label and name: node selectors and required node affinity, node by node.

The scheduler looks at whole columns with the same terms (`bayplan.scheduler.snapshot.node_selector`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bayplan.api.pods.execution_rules import required_node_selector
from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import Requirement, SelectorError

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec

_OPERATORS: Final = {
    "In": selectors.IN,
    "NotIn": selectors.NOT_IN,
    "Exists": selectors.EXISTS,
    "DoesNotExist": selectors.DOES_NOT_EXIST,
    "Gt": selectors.GREATER_THAN,
    "Lt": selectors.LESS_THAN,
}


class NodeTerm:
    """One term: all its label and field requirements must hold; empty or unparsable terms match nothing."""

    __slots__ = ("error", "fields", "labels", "node_names")

    def __init__(self, term: NodeSelectorTerm) -> None:
        self.labels: list[Requirement] = []
        self.fields: list[Requirement] = []
        self.error = ""
        self.node_names: frozenset[str] | None = None
        try:
            self.labels = [_label_requirement(item) for item in term.match_expressions]
            self.fields = [_field_requirement(item) for item in term.match_fields]
        except SelectorError as error:
            self.error = str(error)
        for item in term.match_fields:
            if item.key == "metadata.name" and item.operator == "In":
                names = frozenset(item.values)
                self.node_names = names if self.node_names is None else self.node_names & names

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing at all."""
        return not (self.labels or self.fields or self.error)

    def match_labels(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies the term; without a name only the labels are looked at."""
        if self.is_empty or self.error or not all(item.matches(labels) for item in self.labels):
            return False
        return not name or all(item.matches_value(name) for item in self.fields)


def _label_requirement(item: NodeSelectorRequirement) -> Requirement:
    operator = _OPERATORS.get(item.operator)
    if operator is None:
        raise SelectorError(f'"{item.operator}" is not a valid node selector operator')
    return selectors.requirement(item.key, operator, item.values)


def _field_requirement(item: NodeSelectorRequirement) -> Requirement:
    if item.operator not in ("In", "NotIn"):
        raise SelectorError(f'"{item.operator}" is not a valid node field selector operator')
    if len(item.values) != 1:
        raise SelectorError("unexpected number of value for node field selector operator")
    return Requirement(item.key, _OPERATORS[item.operator], item.values)


def required_of(spec: PodSpec) -> NodeSelector | None:
    """The node selector that a pod's affinity requires when the pod is scheduled, or None."""
    return required_node_selector(spec.affinity.node_affinity) if spec.affinity is not None else None


def selects(selector: NodeSelector | None, node: Node) -> bool:
    """Whether one of the terms matches a node; without a selector every node is fine."""
    if selector is None:
        return True
    metadata = node.metadata
    return any(NodeTerm(term).match_labels(metadata.labels, metadata.name) for term in selector.node_selector_terms)


def pod_may_run_on(spec: PodSpec, node: Node) -> bool:
    """Whether a pod's node selector and required node affinity allow a node."""
    return spec.node_selector.items() <= node.metadata.labels.items() and selects(required_of(spec), node)
