"""Tolerations: which taints one tolerates, which one includes another, and lists without what is included already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bayplan.api.types.core_v1 import Taint, Toleration

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import DeviceTaint, DeviceToleration


def tolerates(toleration: Toleration | DeviceToleration, taint: Taint | DeviceTaint) -> bool:
    """Whether a toleration matches a taint, of a node or of a device."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return (
        toleration.operator in ("", "Equal")
        and bool(toleration.key)
        and (toleration.value or "") == (taint.value or "")
    )


def includes(one: Toleration, other: Toleration) -> bool:
    """Whether `one` tolerates all that `other` tolerates, for at least as long."""
    if one == other:
        return True
    if one.key != other.key and (one.key or one.operator != "Exists"):
        return False
    if one.effect != other.effect and one.effect:
        return False
    mine, theirs = one.toleration_seconds, other.toleration_seconds
    if one.effect == "NoExecute" and mine is not None and (theirs is None or mine < theirs):
        return False
    if one.operator in ("", "Equal"):
        return other.operator in ("", "Equal") and one.value == other.value
    return one.operator == "Exists"


class _Index:
    """Tolerations by what one must have in common with those that it includes, in their order: there may be thousands."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str | None, str], list[tuple[int, Toleration]]] = {}

    def add(self, number: int, toleration: Toleration) -> None:
        """Add one; numbers ascend."""
        value = None if toleration.operator == "Exists" else toleration.value or ""
        self._places.setdefault((toleration.key or "", value, toleration.effect or ""), []).append((number, toleration))

    def including(self, other: Toleration, after: int = -1) -> Iterator[Toleration]:
        """Those with higher numbers that include another one."""
        key, effect = other.key or "", other.effect or ""
        for place in {
            (one, value, its) for one in (key, "") for value in (None, other.value or "") for its in (effect, "")
        }:
            for number, toleration in reversed(self._places.get(place, ())):
                if number <= after:
                    break
                if includes(toleration, other):
                    yield toleration


def merged(first: Iterable[Toleration], second: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Both lists in order, without tolerations that another one includes (of equal ones the first stays)."""
    every = (*first, *second)
    whole, kept, result = _Index(), _Index(), []
    for index, toleration in enumerate(every):
        whole.add(index, toleration)
    for index, toleration in enumerate(every):
        if next(kept.including(toleration), None) is not None:
            continue
        if any(not includes(toleration, one) for one in whole.including(toleration, index)):
            continue
        kept.add(index, toleration)
        result.append(toleration)
    return tuple(result)


def within(tolerations: Iterable[Toleration], allowed: Iterable[Toleration]) -> bool:
    """Whether every toleration is included in an allowed one; an empty list of allowed ones allows everything."""
    bounds, index = tuple(allowed), _Index()
    for number, bound in enumerate(bounds):
        index.add(number, bound)
    return not bounds or all(next(index.including(one), None) is not None for one in tolerations)


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint], effects: Iterable[str]) -> Taint | None:
    """The first taint with one of these effects that nothing tolerates, or None."""
    known, wanted = tuple(tolerations), frozenset(effects)
    return next(
        (taint for taint in taints if taint.effect in wanted and not any(tolerates(one, taint) for one in known)), None
    )
