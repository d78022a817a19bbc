"""Which names a definition may have: the conditions `NamesAccepted` and `Established`.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/status` and `.../establish`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from bayplan.api.types import apiextensions_v1
from bayplan.apiserver.bootstrap.publishing import own_call
from bayplan.apiserver.custom_resources.definitions import (
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
            status = judged(definition, others, now)
            if status != definition.status:
                call = own_call(self.context, self.kind, "", definition.metadata.name)
                await modify(call, partial(_with_status, status), subresource="status", fresh=False)


def _with_status(status: apiextensions_v1.CustomResourceDefinitionStatus, definition: Definition) -> Definition:
    return replace(definition, metadata=replace(definition.metadata), status=status)


def judged(
    definition: Definition, others: Sequence[Definition], now: str
) -> apiextensions_v1.CustomResourceDefinitionStatus:
    """The status with the names that are accepted. others: all definitions of the group. now: RFC 3339."""
    taken = [one.status.accepted_names for one in others if one.metadata.name != definition.metadata.name]
    names, refusal = accepted(definition.spec.names, definition.status.accepted_names, taken)
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
    if is_true(definition, ESTABLISHED):
        pass
    elif refusal is None:
        message = "the initial names have been accepted"
        established = (_established("True", now, "InitialNamesAccepted", message),)
    else:
        established = (_established("False", now, "NotAccepted", "not all names are accepted"),)
    conditions = with_conditions(definition.status.conditions, agreed, *established)
    return replace(definition.status, accepted_names=names, conditions=conditions)


def _established(status: str, now: str, reason: str, message: str) -> Condition:
    return Condition(type=ESTABLISHED, status=status, last_transition_time=now, reason=reason, message=message)


def accepted(wanted: Names, has: Names, taken: Iterable[Names]) -> tuple[Names, tuple[str, str] | None]:
    """The names that a definition gets: what it wants as far as nobody else has it. And the last conflict: reason and message."""
    taken = list(taken)
    resources = {name for one in taken for name in (one.plural, one.singular, *one.short_names) if name}
    kinds = {name for one in taken for name in (one.kind, one.list_kind) if name}
    refusal = None
    got = replace(has)
    for reason, field, used in (
        ("PluralConflict", "plural", resources),
        ("SingularConflict", "singular", resources),
        ("ShortNamesConflict", "short_names", resources),
        ("KindConflict", "kind", kinds),
        ("ListKindConflict", "list_kind", kinds),
    ):
        value = getattr(wanted, field)
        clashes = [one for one in (value if isinstance(value, tuple) else (value,)) if one in used]
        if clashes:
            refusal = (reason, ", ".join(f'"{one}" is already in use' for one in clashes))
        else:
            setattr(got, field, value)
    got.categories = wanted.categories
    return got, refusal
