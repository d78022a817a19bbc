"""Functions on values that may be missing. Source: cel-go's `cel/library.go`. (`or` and `orValue` are with the operators: they may not need their argument.)"""

from __future__ import annotations

from typing import Any

from bayplan.api.cel.functions.registry import ANY, LIST, OPTIONAL, Table
from bayplan.api.cel.values import (
    ABSENT,
    NO_VALUE,
    Duration,
    EvaluationError,
    Map,
    Optional,
    Timestamp,
    is_list,
    text_of,
)

TABLE = Table()
_ZERO_MOMENT = -62_135_596_800 * 10**9
"""Go's zero time, the first moment of the year 1."""
TABLE.add("optional.of", (ANY,), Optional)


@TABLE.function("optional.none")
def _none() -> Optional:
    return NO_VALUE


@TABLE.function("optional.ofNonZeroValue", ANY)
def _of_non_zero(value: Any) -> Optional:
    return NO_VALUE if _is_zero(value) else Optional(value)


def _is_zero(value: Any) -> bool:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return not value
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _ZERO_MOMENT
    if is_list(value) or isinstance(value, Map):
        return len(value) == 0
    return isinstance(value, Optional) and not value.is_present


@TABLE.member("hasValue", OPTIONAL)
def _has_value(value: Optional) -> bool:
    return value.is_present


@TABLE.member("value", OPTIONAL)
def _value(value: Optional) -> Any:
    if value.value is ABSENT:
        raise EvaluationError("optional.none() dereference")
    return value.value


@TABLE.member("first", LIST)
def _first(items: Any) -> Optional:
    return Optional(items[0]) if len(items) else NO_VALUE


@TABLE.member("last", LIST)
def _last(items: Any) -> Optional:
    return Optional(items[len(items) - 1]) if len(items) else NO_VALUE


def _unwrap(items: Any) -> list[Any]:
    for one in items:
        if not isinstance(one, Optional):
            raise EvaluationError(f"value {text_of(one)} is not optional")
    return [one.value for one in items if one.is_present]


TABLE.add("optional.unwrap", (LIST,), _unwrap)
TABLE.add("unwrapOpt", (LIST,), _unwrap, member=True)
