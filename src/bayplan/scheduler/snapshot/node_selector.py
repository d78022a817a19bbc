"""Node selectors and node affinity, compiled to look at whole label columns.

Used by everything that chooses nodes by label: pods' node selectors and affinity, spread constraints' inclusion
policies, persistent volumes' node affinity and storage classes' topologies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from msgspec.structs import replace

from bayplan.api.errors import OMITTED, ErrorType, FieldError, invalid, unsupported
from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import Requirement
from bayplan.api.selectors.nodes import NodeTerm, required_of
from bayplan.scheduler.snapshot.labels import Bools, EncodedColumn, Rows

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import NodeSelector, NodeSelectorTerm, PodSpec

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class NodeColumns(Protocol):
    """What node selectors read of a snapshot."""

    names: EncodedColumn[str]

    def label_column(self, key: str) -> EncodedColumn[str]:
        """The column of a label key."""

    def select(self, rows: Rows) -> int:
        """How many rows are meant."""


class Term(NodeTerm):
    """A term that looks at many nodes at once."""

    __slots__ = ()

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


class NodeAffinityMatcher:
    """A required node selector: the plain labels and, if there are terms, at least one of them."""

    __slots__ = ("node_selector", "terms")

    def __init__(self, node_selector: Mapping[str, str], required: NodeSelector | None) -> None:
        self.node_selector = [Requirement(key, selectors.EQUALS, (value,)) for key, value in node_selector.items()]
        self.terms = None if required is None else [Term(term) for term in required.node_selector_terms]

    @classmethod
    def of_pod(cls, spec: PodSpec) -> NodeAffinityMatcher:
        """What a pod requires of its node."""
        return cls(spec.node_selector, required_of(spec))

    @property
    def has_fields(self) -> bool:
        """Whether it looks at more than labels."""
        return any(term.fields for term in self.terms or ())

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


def errors_of(term: NodeSelectorTerm) -> list[FieldError]:
    """What cannot be parsed in a term; fields are named from the term on."""
    found = []
    for place, item in enumerate(term.match_expressions):
        where = f"matchExpressions[{place}]"
        if item.operator not in OPERATORS:
            found.append(unsupported(f"{where}.operator", item.operator, OPERATORS))
            continue
        error = Term(replace(term, match_expressions=(item,), match_fields=())).error
        if error:
            field, _, problem = error.partition(": Invalid value: ")
            found.append(FieldError(ErrorType.INVALID, f"{where}.{field}", OMITTED, problem))
    for place, item in enumerate(term.match_fields):
        where = f"matchFields[{place}]"
        if item.operator not in OPERATORS[:2]:
            found.append(unsupported(f"{where}.operator", item.operator, OPERATORS[:2]))
        elif len(item.values) != 1:
            found.append(invalid(f"{where}.values", list(item.values), "must have one element"))
    return found
