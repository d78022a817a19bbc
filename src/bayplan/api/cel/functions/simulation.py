"""What expressions of kwok call besides: the moment, chance, ages and quantities, all numbers with a point.

    Quantity("1Mi") * (pod.SinceSecond() / 60.0)

Those that depend on the moment get it from `situation`, which whoever evaluates them sets. Source: kwok's `pkg/utils/cel`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fractions import Fraction
from typing import NamedTuple

from bayplan.api import quantity
from bayplan.api.cel.functions.registry import DOUBLE, MAP, STRING, TIMESTAMP, Table
from bayplan.api.cel.moments import SECOND, parse_timestamp, timestamp
from bayplan.api.cel.values import ABSENT, EvaluationError, Map, Timestamp

TABLE = Table()
SIGNATURES = (
    "Now() -> timestamp",
    "Rand() -> double",
    "SinceSecond(dyn) -> double",
    "(dyn).SinceSecond() -> double",
    "UnixSecond(timestamp) -> double",
    "(timestamp).UnixSecond() -> double",
    "Quantity(dyn) -> double",
    "(string).Quantity() -> double",
)
"""The functions, as the library writes theirs."""


class _Situation(NamedTuple):
    now: float
    chance: Callable[[], float]


_SITUATION: ContextVar[_Situation] = ContextVar("situation of an evaluation")


@contextlib.contextmanager
def situation(now: float, chance: Callable[[], float]) -> Iterator[None]:
    """Evaluate at a moment (unix seconds), with numbers in [0, 1) where an expression wants chance."""
    token = _SITUATION.set(_Situation(now, chance))
    try:
        yield
    finally:
        _SITUATION.reset(token)


@TABLE.function("Now")
def _now() -> Timestamp:
    return timestamp(int(_SITUATION.get().now * SECOND))


@TABLE.function("Rand")
def _rand() -> float:
    return _SITUATION.get().chance()


@TABLE.function("SinceSecond", MAP)
@TABLE.member("SinceSecond", MAP)
def _since_second(thing: Map) -> float:
    metadata = thing.find("metadata")
    created = metadata.find("creationTimestamp") if isinstance(metadata, Map) else ABSENT
    return _SITUATION.get().now - _unix_second_of_text(created if isinstance(created, str) else "")


@TABLE.function("UnixSecond", TIMESTAMP)
@TABLE.member("UnixSecond", TIMESTAMP)
def _unix_second(moment: Timestamp) -> float:
    return moment.nanoseconds / SECOND


@TABLE.function("UnixSecond", STRING)
@TABLE.member("UnixSecond", STRING)
def _unix_second_of_text(text: str) -> float:
    """Objects have their times as text."""
    found = parse_timestamp(text)
    if found is None:
        raise EvaluationError(f"{text!r} is no time")
    return _unix_second(found)


@TABLE.function("Quantity", STRING)
@TABLE.member("Quantity", STRING)
def _quantity(text: str) -> float:
    try:
        found = quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from error
    return float(Fraction(found.unscaled) / Fraction(10) ** found.scale)


@TABLE.function("Quantity", DOUBLE)
def _number(value: float) -> float:
    """Resources of objects are numbers already."""
    return value
