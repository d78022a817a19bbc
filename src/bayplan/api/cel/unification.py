"""Which types fit each other, and what type parameters stand for then."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence

from bayplan.api.cel.types import DYN, Type, TypeKind, is_dyn, is_dyn_or_error

Substitutions = Mapping[str, Type]
"""What is known of type parameters, by name."""
_Notes = MutableMapping[str, Type]

_WITH_PARAMETERS = frozenset((TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP))
_NULLABLE = frozenset((TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.DURATION, TypeKind.TIMESTAMP, TypeKind.NULL))


def unify(known: Substitutions, given: Sequence[Type], wanted: Sequence[Type]) -> dict[str, Type] | None:
    """What else is known of type parameters once every given type fits the wanted one; None if one does not. `known` stays as it is."""
    found: dict[str, Type] = {}
    notes = ChainMap(found, known)  # type: ignore[arg-type]  # only the first is written to
    return found if _all_fit(notes, given, wanted) else None


def _all_fit(known: _Notes, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
    return len(given) == len(wanted) and all(_fits(known, one, other) for one, other in zip(given, wanted, strict=True))


def _fits(known: _Notes, given: Type, wanted: Type) -> bool:
    if wanted.kind is TypeKind.PARAMETER:
        stands, was_known = _can_stand_for(known, given, wanted)
        if stands or was_known:
            return stands
    if given.kind is TypeKind.PARAMETER:
        return _can_stand_for(known, wanted, given)[0]
    if is_dyn_or_error(given) or is_dyn_or_error(wanted):
        return True
    if given.kind is TypeKind.NULL:
        return wanted.kind in _NULLABLE
    if wanted.kind is TypeKind.NULL:
        return given.kind in _NULLABLE
    if given.kind is TypeKind.TYPE:
        return wanted.kind is TypeKind.TYPE
    if given.kind in _WITH_PARAMETERS:
        same = given.kind is wanted.kind and given.name == wanted.name
        return same and _all_fit(known, given.parameters, wanted.parameters)
    return given == wanted


def _can_stand_for(known: _Notes, found: Type, unknown: Type) -> tuple[bool, bool]:
    """Whether a type can stand for a parameter (which is noted), and whether the parameter stood for something already."""
    if found == unknown:
        return True, True
    held = known.get(unknown.name)
    if held is None:
        if _occurs(known, unknown, found):
            return False, False
        known[unknown.name] = found
        return True, False
    if found == held:
        return True, True
    if not _fits(known, found, held):
        return False, True
    general = most_general(found, held)
    if not _occurs(known, unknown, general):
        known[unknown.name] = general
    return True, True


def _occurs(known: Substitutions, unknown: Type, within: Type) -> bool:
    """Whether a parameter is part of a type, so that it cannot stand for it."""
    if unknown == within:
        return True
    if within.kind is TypeKind.PARAMETER:
        held = known.get(within.name)
        return held is not None and _occurs(known, unknown, held)
    return any(_occurs(known, unknown, one) for one in within.parameters)


def most_general(one: Type, other: Type) -> Type:
    """The more general of two types that fit each other."""
    return one if _is_as_general(one, other) else other


def _is_as_general(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind is TypeKind.PARAMETER:
        return True
    if is_dyn(other) or other.kind is TypeKind.PARAMETER or one.kind is not other.kind:
        return False
    if one.kind is TypeKind.TYPE:
        return True
    return (
        one.name == other.name
        and len(one.parameters) == len(other.parameters)
        and all(map(_is_as_general, one.parameters, other.parameters))
    )


def substitute(known: Substitutions, found: Type, *, unknown_is_dyn: bool = False) -> Type:
    """A type with its parameters replaced by what they stand for, unknown ones by `dyn` if wanted."""
    if found.kind is TypeKind.PARAMETER:
        held = known.get(found.name)
        if held is not None:
            return substitute(known, held, unknown_is_dyn=unknown_is_dyn)
        return DYN if unknown_is_dyn else found
    if not found.parameters:
        return found
    parts = tuple(substitute(known, one, unknown_is_dyn=unknown_is_dyn) for one in found.parameters)
    return Type(found.kind, found.name, parts)
