"""What the conditions of a namespace say while it is being emptied. Pure functions.

Source of the behaviour and of the words: Kubernetes' `pkg/controller/namespace/deletion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.api.types import core_v1
from bayplan.controllers.base import with_condition

DISCOVERY, PARSING = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"
CONTENT, REMAINING, FINALIZERS = (
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
_WELL = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Reason and message of a condition that is false, in the order in which conditions are written."""


@dataclass(slots=True)
class Content:
    """What was found in a namespace after deleting it all."""

    remaining: dict[str, int] = field(default_factory=dict)
    """Objects by `PLURAL.GROUP`."""
    finalizers: dict[str, int] = field(default_factory=dict)
    """Objects by the finalizer that holds them."""
    failures: list[str] = field(default_factory=list)
    """Why something could not be deleted or counted."""

    def count(self, resource: str, finalizers: Sequence[Sequence[str]]) -> None:
        """Take in the finalizers of each object of a resource that is still there."""
        if finalizers:
            self.remaining[resource] = self.remaining.get(resource, 0) + len(finalizers)
        for names in finalizers:
            for name in names:
                self.finalizers[name] = self.finalizers.get(name, 0) + 1


def _problems(content: Content) -> dict[str, tuple[str, str]]:
    """Reason and message of the conditions that are true."""
    found = {}
    if content.failures:
        what = "; ".join(sorted(content.failures))
        text = f"Failed to delete all resource types, {len(content.failures)} remaining: {what}"
        found[CONTENT] = ("ContentDeletionFailed", text)
    if content.remaining:
        text = _listed(content.remaining, "has")
        found[REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {text}")
    if content.finalizers:
        text = _listed(content.finalizers, "in")
        found[FINALIZERS] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {text}",
        )
    return found


def _listed(counts: Mapping[str, int], word: str) -> str:
    return ", ".join(sorted(f"{name} {word} {count} resource instances" for name, count in counts.items()))


def conditions(
    known: Iterable[core_v1.NamespaceCondition], content: Content, now: str
) -> tuple[core_v1.NamespaceCondition, ...]:
    """The conditions of a namespace in which `content` was found; equal to those that are there if nothing has changed."""
    problems = _problems(content)
    result = tuple(known)
    for kind, well in _WELL.items():
        reason, message = problems.get(kind, well)
        status = "True" if kind in problems else "False"
        condition = core_v1.NamespaceCondition(
            type=kind, status=status, reason=reason, message=message, last_transition_time=now
        )
        result = with_condition(result, condition)
    return result
