"""Which names a definition may have: the condition `NamesAccepted`.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from bayplan.api.types import apiextensions_v1
from bayplan.apiserver.bootstrap.publishing import own_call
from bayplan.apiserver.custom_resources.definitions import (
    ACCEPTED,
    ESTABLISHED,
    NAMES_ACCEPTED,
    Condition,
    Definition,
    DefinitionRule,
    is_true,
    with_conditions,
)
from bayplan.apiserver.verbs.update import modify
from bayplan.support.timestamps import rfc3339

Names = apiextensions_v1.CustomResourceDefinitionNames


class CustomResourceNames(DefinitionRule):
    """Definitions say whether their names are theirs; the first to come has them."""

    async def settle(self) -> None:
        """Correct the conditions that say something else. Raises ApiError."""
        now = rfc3339(self.context.clock.now())
        for definition in list(self.definitions()):
            others = [one for one in self.definitions() if one.spec.group == definition.spec.group]
            if judged(definition, others, now) != definition.status:
                call = own_call(self.context, self.kind, "", definition.metadata.name)
                await modify(call, partial(_judged, others, now), subresource="status", fresh=False)


def _judged(others: Sequence[Definition], now: str, definition: Definition) -> Definition:
    """The definition with its status; others may have written theirs into it meanwhile."""
    return replace(definition, metadata=replace(definition.metadata), status=judged(definition, others, now))


def judged(
    definition: Definition, others: Sequence[Definition], now: str
) -> apiextensions_v1.CustomResourceDefinitionStatus:
    """The status with the names that are accepted. others: all definitions of the group, this one included. now: RFC 3339."""
    names, refusal = accepted(
        definition.spec.names, definition.status.accepted_names, [one.status.accepted_names for one in others]
    )
    agreed = Condition(
        type=NAMES_ACCEPTED,
        status="True",
        last_transition_time=now,
        reason="NoConflicts",
        message="no conflicts found",
    )
    if refusal is not None:
        reason, message = refusal
        agreed = replace(agreed, status="False", reason=reason, message=message)
    established: tuple[Condition, ...] = ()
    if not is_true(definition, ESTABLISHED):
        reason, message = ("Installing", ACCEPTED) if refusal is None else ("NotAccepted", "not all names are accepted")
        established = (
            Condition(type=ESTABLISHED, status="False", last_transition_time=now, reason=reason, message=message),
        )
    conditions = with_conditions(definition.status.conditions, agreed, *established)
    return replace(definition.status, accepted_names=names, conditions=conditions)


def accepted(wanted: Names, has: Names, taken: Iterable[Names]) -> tuple[Names, tuple[str, str] | None]:
    """The names that a definition gets: what it wants as far as it has it already, or nobody does. And the last conflict: reason and message.

    taken: what all definitions of the group have. One that has been accepted cannot take over a name of its own for something else.
    """
    taken = list(taken)
    resources = {name for one in taken for name in (one.plural, one.singular, *one.short_names)}
    kinds = {name for one in taken for name in (one.kind, one.list_kind)}
    refusal = None
    got = replace(has)
    for reason, field, used in (
        ("PluralConflict", "plural", resources),
        ("SingularConflict", "singular", resources),
        ("ShortNamesConflict", "short_names", resources),
        ("KindConflict", "kind", kinds),
        ("ListKindConflict", "list_kind", kinds),
    ):
        clashes = [
            one
            for one in _as_tuple(getattr(wanted, field))
            if one in used and one not in _as_tuple(getattr(has, field))
        ]
        if clashes:
            texts = list(dict.fromkeys(f'"{one}" is already in use' for one in clashes))
            refusal = (reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        else:
            setattr(got, field, getattr(wanted, field))
    got.categories = wanted.categories
    return got, refusal


def _as_tuple(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)
