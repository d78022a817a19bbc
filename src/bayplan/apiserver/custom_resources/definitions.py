"""What all of the rules know about definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bayplan.api.kinds import Kind
from bayplan.api.types import apiextensions_v1
from bayplan.apiserver.bootstrap.publishing import kind_of
from bayplan.apiserver.context import Context
from bayplan.apiserver.reads.watching import Selection

Definition = apiextensions_v1.CustomResourceDefinition
Condition = apiextensions_v1.CustomResourceDefinitionCondition

NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
ACCEPTED = "the initial names have been accepted"
"""The message of `Established` before and when it becomes true."""
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of definitions that are deleted, until the last object is gone."""


class DefinitionRule:
    """A rule that follows from definitions and is written into them, or elsewhere."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.kind = kind_of(context, "apiextensions.k8s.io/v1", "CustomResourceDefinition")

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """The definitions."""
        return ((self.kind, None),)

    def definitions(self) -> Iterator[Definition]:
        """All of them, in order of name. Nobody may change them."""
        cache = self.context.objects.cache(self.kind)
        return (cache.shared(entry) for entry in cache.ordered())

    def is_overlapping(self, definition: Definition) -> bool:
        """Whether the resource is one of the server's own, which stays what it is. Its objects are not the definition's."""
        group, plural = definition.spec.group, definition.spec.names.plural
        return any((kind.group, kind.plural) == (group, plural) and not kind.is_custom for kind in self.context.kinds)


def condition(definition: Definition, name: str) -> Condition | None:
    """A condition, None if there is none of that name."""
    return next((one for one in definition.status.conditions if one.type == name), None)


def is_true(definition: Definition, name: str) -> bool:
    """Whether a condition holds."""
    found = condition(definition, name)
    return found is not None and found.status == "True"


def with_conditions(found: Iterable[Condition], *wanted: Condition) -> tuple[Condition, ...]:
    """Conditions with others in the place of those of their type; a time stays if the status does."""
    new = {one.type: one for one in wanted}
    kept = []
    for one in found:
        other = new.pop(one.type, None)
        if other is None:
            kept.append(one)
            continue
        if other.status == one.status:
            other.last_transition_time = one.last_transition_time
        kept.append(other)
    return (*kept, *new.values())
