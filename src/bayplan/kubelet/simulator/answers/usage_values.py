"""Amounts of resources that kwok's objects give, as quantities or expressions of CEL. The language is loaded when the first expression is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bayplan.api.quantity import parse
from bayplan.kubelet.simulator.errors import KwokFileError

if TYPE_CHECKING:
    from bayplan.api.cel.checker import Environment
    from bayplan.api.cel.evaluation import Program

_VARIABLES: Final = ("container", "node", "pod")


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
            _program(given.expression)
    except (ValueError, KwokFileError) as error:
        return str(error)
    return ""


def amount_of(given: UsageValue, objects: Mapping[str, Any], now: float, chance: Callable[[], float]) -> Fraction:
    """How much it is: of CPU in cores, of memory in bytes; never less than nothing.

    objects: `node`, `pod` and `container`, as decoded JSON. now: unix seconds. Raises KwokFileError if an expression fails.
    """
    if given.value is not None:
        return max(fraction_of(str(given.value)), Fraction(0))
    from bayplan.api.cel.functions.simulation import situation
    from bayplan.api.cel.values import from_json

    with situation(now, chance):
        outcome = _program(given.expression).evaluate({name: from_json(objects[name]) for name in _VARIABLES})
    if outcome.error is not None:
        raise KwokFileError(f"{given.expression!r}: {outcome.error.message}")
    try:
        return max(Fraction(outcome.value), Fraction(0))
    except (TypeError, ValueError, OverflowError):
        raise KwokFileError(f"{given.expression!r} is {outcome.value!r}, no amount") from None


def fraction_of(text: str) -> Fraction:
    """A quantity as a number. Raises ValueError."""
    found = parse(text)
    return Fraction(found.unscaled) / Fraction(10) ** found.scale


@functools.cache
def _environment() -> Environment:
    from bayplan.api.cel.checker import Environment
    from bayplan.api.cel.functions.simulation import SIGNATURES
    from bayplan.api.cel.library import functions_with
    from bayplan.api.cel.types import DYN

    return Environment(dict.fromkeys(_VARIABLES, DYN), functions=functions_with(*SIGNATURES))


@functools.lru_cache(maxsize=1024)
def _program(expression: str) -> Program:
    """Raises KwokFileError."""
    from bayplan.api.cel.checker import check
    from bayplan.api.cel.evaluation import CompilationError, compile_expression

    checked = check(expression, _environment())
    if checked.issues:
        raise KwokFileError("; ".join(issue.message for issue in checked.issues))
    try:
        return compile_expression(checked, _environment())
    except CompilationError as error:
        raise KwokFileError(str(error)) from error
