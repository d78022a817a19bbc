"""Operators on numbers, text, lists, moments and spans of time, with cel-go's errors for overflow and for division by zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bayplan.api.cel.moments import duration, timestamp
from bayplan.api.cel.numbers import INT_MAX, INT_MIN, UINT_MAX
from bayplan.api.cel.values import (
    NUMBERS,
    Duration,
    EvaluationError,
    ListValue,
    Timestamp,
    UInt,
    compare,
    is_list,
    no_such_overload,
)

_ADDABLE = frozenset((int, UInt, float, str, bytes, list, Duration, Timestamp))


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def _toward_zero(one: int, other: int) -> int:
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _without_trait(one: Any, function: str, kinds: frozenset[type]) -> EvaluationError:
    """What is said where the first value knows the operator, and where it does not."""
    return no_such_overload() if type(one) in kinds else EvaluationError(f"no such overload: {function}")


def add(one: Any, other: Any) -> Any:
    """`one + other`. Raises EvaluationError."""
    kind = type(one)
    if isinstance(one, ListValue) and is_list(other):
        return one.add(other)
    if kind is type(other):
        if kind is int:
            return _int(one + other)
        if kind in (str, bytes, float, list):
            return one + other
        if kind is UInt:
            return _uint(int(one) + int(other))
        if kind is Duration:
            return duration(one.nanoseconds + other.nanoseconds)
    elif kind is list and isinstance(other, ListValue):
        return [*one, *other]
    elif kind is Duration and type(other) is Timestamp:
        return timestamp(one.nanoseconds + other.nanoseconds, other.zone)
    elif kind is Timestamp and type(other) is Duration:
        return timestamp(one.nanoseconds + other.nanoseconds, one.zone)
    raise _without_trait(one, "_+_", _ADDABLE)


def subtract(one: Any, other: Any) -> Any:
    """`one - other`. Raises EvaluationError."""
    kind = type(one)
    if kind is type(other):
        if kind is int:
            return _int(one - other)
        if kind is float:
            return one - other
        if kind is UInt:
            return _uint(int(one) - int(other))
        if kind is Duration or kind is Timestamp:
            return duration(one.nanoseconds - other.nanoseconds)
    elif kind is Timestamp and type(other) is Duration:
        return timestamp(one.nanoseconds - other.nanoseconds, one.zone)
    raise _without_trait(one, "_-_", NUMBERS | {Duration, Timestamp})


def multiply(one: Any, other: Any) -> Any:
    """`one * other`. Raises EvaluationError."""
    kind = type(one)
    if kind is type(other) and kind in NUMBERS:
        if kind is float:
            return one * other
        return _int(one * other) if kind is int else _uint(int(one) * int(other))
    raise _without_trait(one, "_*_", NUMBERS)


def divide(one: Any, other: Any) -> Any:
    """`one / other`, towards zero for integers. Raises EvaluationError."""
    kind = type(one)
    if kind is not type(other) or kind not in NUMBERS:
        raise _without_trait(one, "_/_", NUMBERS)
    if kind is float:
        return _double_quotient(one, other)
    if other == 0:
        raise EvaluationError("division by zero")
    return _int(_toward_zero(one, other)) if kind is int else UInt(int(one) // int(other))


def _double_quotient(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or one != one:
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def modulo(one: Any, other: Any) -> Any:
    """`one % other`, with the sign of the first. Raises EvaluationError."""
    kind = type(one)
    if kind is not type(other) or kind not in (int, UInt):
        raise _without_trait(one, "_%_", frozenset((int, UInt)))
    if other == 0:
        raise EvaluationError("modulus by zero")
    if kind is UInt:
        return UInt(int(one) % int(other))
    if one == INT_MIN and other == -1:
        raise EvaluationError("integer overflow")
    return one - other * _toward_zero(one, other)


def negate(value: Any) -> Any:
    """`-value`. Raises EvaluationError."""
    kind = type(value)
    if kind is int:
        return _int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return duration(-value.nanoseconds)
    raise EvaluationError("no such overload: -_")


def invert(value: Any) -> bool:
    """`!value`. Raises EvaluationError."""
    if type(value) is bool:
        return not value
    raise EvaluationError("no such overload: !_")


_COMPARABLE = frozenset((int, UInt, float, str, bytes, bool, Duration, Timestamp))


def _comparison(function: str, holds: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def compared(one: Any, other: Any) -> bool:
        if type(one) not in _COMPARABLE:
            raise EvaluationError(f"no such overload: {function}")
        return holds(compare(one, other))

    return compared


COMPARISONS = {
    "_<_": _comparison("_<_", lambda order: order < 0),
    "_<=_": _comparison("_<=_", lambda order: order <= 0),
    "_>_": _comparison("_>_", lambda order: order > 0),
    "_>=_": _comparison("_>=_", lambda order: order >= 0),
}
ARITHMETIC = {"_+_": add, "_-_": subtract, "_*_": multiply, "_/_": divide, "_%_": modulo}
