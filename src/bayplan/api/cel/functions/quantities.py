"""Quantities such as `1.5Gi`. Source: `k8s.io/apiserver/pkg/cel/library/quantity.go`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bayplan.api import quantity
from bayplan.api.cel.functions.registry import INT, STRING, Table
from bayplan.api.cel.numbers import INT_MAX, INT_MIN
from bayplan.api.cel.values import EvaluationError, Opaque, no_such_overload

TABLE = Table()
_PARTS = re.compile(r"[+-]?0*(\d*)(?:\.(\d*))?([a-zA-Z]*)([+-]?\d*)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
"""Exponents of two, and of ten."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantityValue(Opaque):
    """A quantity."""

    type_name = "kubernetes.Quantity"
    amount: quantity.Quantity
    is_decimal: bool = False
    """Whether Kubernetes takes it for no integer, because it keeps it as a decimal or with a scale.
    Long ones, those with digits behind the point, and what comes of them."""

    def equals(self, other: Any) -> bool:
        """Whether this is as much. Raises EvaluationError for what is no quantity."""
        if not isinstance(other, QuantityValue):
            raise no_such_overload()
        return self.amount.compare(other.amount) == 0

    @property
    def integer(self) -> int | None:
        """It as an integer of 64 bits; None if it is none."""
        fits = not self.is_decimal and self.amount.scale == 0 and INT_MIN <= self.amount.unscaled <= INT_MAX
        return self.amount.unscaled if fits else None


def _is_decimal(text: str) -> bool:
    """Whether a quantity has more digits than Kubernetes' short form takes, or digits behind the point."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return True
    whole, fraction, suffix, exponent = match[1], match[2] or "", match[3], match[4]
    if suffix in _BINARY:
        return bool(fraction) or 15 - len(whole) - _BINARY[suffix] * 3 // 10 - 1 < 0
    scale = int(exponent) if exponent else _DECIMAL.get(suffix, 0)
    return len(whole) + len(fraction) > 18 or scale < len(fraction)


@TABLE.function("quantity", STRING)
def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(quantity.parse(text), _is_decimal(text))
    except ValueError as error:
        raise EvaluationError(str(error)) from error


@TABLE.function("isQuantity", STRING)
def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


@TABLE.function("sign", QuantityValue)
def _sign(value: QuantityValue) -> int:
    return value.amount.sign()


@TABLE.member("isGreaterThan", QuantityValue, QuantityValue)
def _is_greater_than(value: QuantityValue, other: QuantityValue) -> bool:
    return value.amount.compare(other.amount) > 0


@TABLE.member("isLessThan", QuantityValue, QuantityValue)
def _is_less_than(value: QuantityValue, other: QuantityValue) -> bool:
    return value.amount.compare(other.amount) < 0


@TABLE.member("compareTo", QuantityValue, QuantityValue)
def _compare_to(value: QuantityValue, other: QuantityValue) -> int:
    return value.amount.compare(other.amount)


@TABLE.member("asApproximateFloat", QuantityValue)
def _as_approximate_float(value: QuantityValue) -> float:
    return float(value.amount.unscaled) * float(10**-value.amount.scale)


@TABLE.member("asInteger", QuantityValue)
def _as_integer(value: QuantityValue) -> int:
    if value.integer is None:
        raise EvaluationError("cannot convert value to integer")
    return value.integer


@TABLE.member("isInteger", QuantityValue)
def _is_integer(value: QuantityValue) -> bool:
    return value.integer is not None


@TABLE.member("add", QuantityValue, QuantityValue)
def _add(value: QuantityValue, other: QuantityValue) -> QuantityValue:
    return QuantityValue(value.amount.add(other.amount), value.is_decimal or other.is_decimal)


@TABLE.member("sub", QuantityValue, QuantityValue)
def _sub(value: QuantityValue, other: QuantityValue) -> QuantityValue:
    return QuantityValue(value.amount.sub(other.amount), value.is_decimal or other.is_decimal)


@TABLE.member("add", QuantityValue, INT)
def _add_integer(value: QuantityValue, other: int) -> QuantityValue:
    return _add(value, _whole(other))


@TABLE.member("sub", QuantityValue, INT)
def _sub_integer(value: QuantityValue, other: int) -> QuantityValue:
    return _sub(value, _whole(other))


def _whole(value: int) -> QuantityValue:
    return QuantityValue(quantity.Quantity(value, 0, quantity.Format.DECIMAL_EXPONENT))
