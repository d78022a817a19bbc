"""Amounts of resources that kwok's objects give, as quantities or expressions of CEL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from bayplan.api.quantity import parse
from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.kubelet.simulator.stages.expressions import Scope, at_moment, program, value_of


class UsageValue(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How much of a resource is used."""

    value: str | int | float | None = None
    """A quantity; it counts before the expression."""
    expression: str = ""
    """CEL over `node`, `pod` and `container`."""


def usage_problem(given: UsageValue) -> str:
    """Why an amount can never be worked out; "" if it can."""
    try:
        if given.value is not None:
            fraction_of(str(given.value))
        elif not given.expression:
            return "value or expression is required"
        else:
            program(given.expression, Scope.USAGE)
    except (ValueError, KwokFileError) as error:
        return str(error)
    return ""


def amount_of(given: UsageValue, objects: Mapping[str, Any], now: float, chance: Callable[[], float]) -> Fraction:
    """How much it is: of CPU in cores, of memory in bytes; never less than nothing.

    objects: `node`, `pod` and `container`, as decoded JSON. now: unix seconds. Raises KwokFileError if an expression fails.
    """
    if given.value is not None:
        return max(fraction_of(str(given.value)), Fraction(0))
    with at_moment(now, chance):
        found = value_of(given.expression, objects, Scope.USAGE)
    try:
        return max(Fraction(found), Fraction(0))
    except (TypeError, ValueError, OverflowError):
        raise KwokFileError(f"{given.expression!r} is {found!r}, no amount") from None


def fraction_of(text: str) -> Fraction:
    """A quantity as a number. Raises ValueError."""
    found = parse(text)
    return Fraction(found.unscaled) / Fraction(10) ** found.scale
