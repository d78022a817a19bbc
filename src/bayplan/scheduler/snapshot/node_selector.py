"""Node selectors and node affinity, compiled to look at whole label columns.

Used by everything that chooses nodes by label: pods' node selectors and affinity, spread constraints' inclusion
policies, persistent volumes' node affinity and storage classes' topologies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from bayplan.api import selectors
from bayplan.api.selectors import Requirement, SelectorError
from bayplan.scheduler.snapshot.labels import Bools, EncodedColumn, Rows

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec

_OPERATORS: Final = {
    "In": selectors.IN,
    "NotIn": selectors.NOT_IN,
    "Exists": selectors.EXISTS,
    "DoesNotExist": selectors.DOES_NOT_EXIST,
    "Gt": selectors.GREATER_THAN,
    "Lt": selectors.LESS_THAN,
}


class NodeColumns(Protocol):
    """What node selectors read of a snapshot."""

    names: EncodedColumn[str]

    def label_column(self, key: str) -> EncodedColumn[str]:
        """The column of a label key."""

    def select(self, rows: Rows) -> int:
        """How many rows are meant."""


class Term:
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

    def match(self, columns: NodeColumns, rows: Rows) -> Bools:
        """Which of the rows satisfy the term."""
        if self.is_empty or self.error:
            return np.zeros(columns.select(rows), dtype=np.bool_)
        matched = np.ones(columns.select(rows), dtype=np.bool_)
        for requirement in self.labels:
            matched &= columns.label_column(requirement.key).where(requirement.matches_value, rows)
        for requirement in self.fields:
            matched &= columns.names.where(requirement.matches_value, rows)
        return matched

    def match_labels(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a single node with these labels and this name satisfies the term."""
        if self.is_empty or self.error:
            return False
        return all(item.matches(labels) for item in self.labels) and all(
            item.matches_value(name) for item in self.fields
        )


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


class NodeAffinityMatcher:
    """A required node selector: the plain labels and, if there are terms, at least one of them."""

    __slots__ = ("node_selector", "terms")

    def __init__(self, node_selector: Mapping[str, str], required: NodeSelector | None) -> None:
        self.node_selector = [Requirement(key, selectors.EQUALS, (value,)) for key, value in node_selector.items()]
        self.terms = None if required is None else [Term(term) for term in required.node_selector_terms]

    @classmethod
    def of_pod(cls, spec: PodSpec) -> NodeAffinityMatcher:
        """What a pod requires of its node."""
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        return cls(spec.node_selector, required)

    @property
    def matches_all(self) -> bool:
        """Whether no node can fail it."""
        return not self.node_selector and self.terms is None

    def match(self, columns: NodeColumns, rows: Rows) -> Bools:
        """Which of the rows satisfy it."""
        matched = np.ones(columns.select(rows), dtype=np.bool_)
        for requirement in self.node_selector:
            matched &= columns.label_column(requirement.key).where(requirement.matches_value, rows)
        if self.terms is not None:
            any_term = np.zeros_like(matched)
            for term in self.terms:
                any_term |= term.match(columns, rows)
            matched &= any_term
        return matched

    def match_labels(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a single node with these labels and this name satisfies it."""
        if not all(item.matches(labels) for item in self.node_selector):
            return False
        return self.terms is None or any(term.match_labels(labels, name) for term in self.terms)


class WeightedTerm:
    """A preferred term and what it is worth."""

    __slots__ = ("term", "weight")

    def __init__(self, term: NodeSelectorTerm, weight: int) -> None:
        self.term = Term(term)
        self.weight = weight


def preferred_terms(preferred: Iterable[tuple[int, NodeSelectorTerm]]) -> list[WeightedTerm]:
    """The preferred terms that can count: weight not zero, term not empty."""
    terms = [WeightedTerm(term, weight) for weight, term in preferred]
    return [item for item in terms if item.weight and not item.term.is_empty]
