"""Exact resource quantities, as `k8s.io/apimachinery/pkg/api/resource` defines them.

A quantity is an integer times a power of ten; binary suffixes only steer how it is written. Nothing here is ever a
float, so sums of `0.1` are exact. Worked example: `"1.5Gi"` is `unscaled=1610612736, scale=0, BINARY_SI` and prints as
`"1536Mi"`; `"0.5"` is `unscaled=5, scale=1, DECIMAL_SI` and prints as `"500m"`.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import total_ordering

from bayplan.support.memory.memo import memoized

PATTERN_MESSAGE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
"""Kubernetes' own words, shown to users as they are."""
SUFFIX_MESSAGE = "unable to parse quantity's suffix"

_SPLIT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_BY_STEP = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_MAX_SCALE = 9  # Kubernetes rounds finer values up to one nano-unit
_MAX_VALUE = 2**63 - 1
_DIGITS = 20
"""More than the largest amount has."""
_SIGNIFICANT = 100
"""Digits that are looked at."""
_SHORT = 18
"""Digits of a text that is read without arithmetic on large numbers."""


class Format(enum.Enum):
    """How a quantity is written; kept from the text it came from."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


def _power(exponent: int) -> int:
    """10 to a power >= 0; typed, because `int ** int` may be a float in Python."""
    result: int = 10**exponent
    return result


def _ceil_div(numerator: int, denominator: int) -> int:
    """Divide and round away from zero, as Kubernetes rounds."""
    if numerator >= 0:
        return -(-numerator // denominator)
    return numerator // denominator


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """`unscaled * 10**-scale`, 0 <= scale <= 9; equal amounts are equal whatever their format."""

    unscaled: int
    scale: int = 0
    format: Format = Format.DECIMAL_SI
    text: str = ""
    """How it prints if that is not what follows from the amount: as it was written, where Kubernetes keeps that, or more than an amount can be."""

    def scaled_value(self, exponent: int) -> int:
        """The amount in units of `10**exponent`, rounded away from zero (`exponent=-3` gives milli-units)."""
        shift = -exponent - self.scale
        if shift >= 0:
            return self.unscaled * _power(shift)
        return _ceil_div(self.unscaled, 10**-shift)

    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return self.scaled_value(-3)

    def is_zero(self) -> bool:
        """Whether the amount is zero."""
        return self.unscaled == 0

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1 as this amount is less than, equal to or more than `other`."""
        left, right = self.unscaled * _power(other.scale), other.unscaled * _power(self.scale)
        return (left > right) - (left < right)

    def add(self, other: Quantity) -> Quantity:
        """The sum; it keeps this quantity's format unless this quantity is zero."""
        scale = max(self.scale, other.scale)
        unscaled = self.unscaled * _power(scale - self.scale) + other.unscaled * _power(scale - other.scale)
        return Quantity(unscaled, scale, other.format if self.unscaled == 0 else self.format)

    def sub(self, other: Quantity) -> Quantity:
        """The difference; formats as for `add`."""
        return self.add(Quantity(-other.unscaled, other.scale, other.format))

    def neg(self) -> Quantity:
        """The same amount with the opposite sign."""
        return Quantity(-self.unscaled, self.scale, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        unscaled, scale = self.unscaled, self.scale
        while scale and unscaled % 10 == 0:
            unscaled, scale = unscaled // 10, scale - 1
        return hash((unscaled, scale))

    def __str__(self) -> str:
        """The canonical text: no fractional digits, largest suffix that loses nothing."""
        if self.text:
            return self.text
        if self.unscaled == 0:
            return "0"
        if self.format is Format.BINARY_SI and self.scale == 0 and abs(self.unscaled) >= 1024:
            return _binary_text(self.unscaled)
        return _decimal_text(self.unscaled, self.scale, exponent_form=self.format is Format.DECIMAL_EXPONENT)


def _binary_text(value: int) -> str:
    step = 0
    while value % 1024 == 0 and step < len(_BINARY_BY_STEP) - 1:
        value //= 1024
        step += 1
    return f"{value}{_BINARY_BY_STEP[step]}"


def _decimal_text(unscaled: int, scale: int, *, exponent_form: bool) -> str:
    exponent = -scale
    while unscaled % 10 == 0:
        unscaled //= 10
        exponent += 1
    while exponent % 3:
        unscaled *= 10
        exponent -= 1
    if exponent_form:
        return f"{unscaled}e{exponent}" if exponent else str(unscaled)
    if exponent > 18:
        unscaled, exponent = unscaled * 10 ** (exponent - 18), 18
    return f"{unscaled}{_DECIMAL_BY_EXPONENT[exponent]}"


@memoized(65536)
def parse(value: str | int | float) -> Quantity:
    """Parse what stands on the wire (`"100m"`, `"1.5Gi"`, `2`, `0.1`); ValueError (Kubernetes' words) if invalid."""
    text = value.strip() if isinstance(value, str) else repr(value)
    match = _SPLIT.fullmatch(text)
    if match is None or not text:
        raise ValueError(PATTERN_MESSAGE)
    sign, whole, fraction, suffix = match.groups()
    digits, fraction = whole.lstrip("0") or "0", fraction or ""
    style, factor, exponent = _suffix(suffix)
    given, power = _leading(digits + fraction, exponent - len(fraction))
    unscaled, scale = _bounded(given * factor, -power)
    if sign == "-":
        given, unscaled = -given, -unscaled
    if _keeps_spelling(digits + fraction, power, style, fraction):
        return Quantity(unscaled, scale, style, text)
    is_short = len(digits) + len(fraction) <= _SIGNIFICANT
    if scale == 0 and abs(unscaled) == _MAX_VALUE and style is not Format.BINARY_SI and is_short:
        is_exponent = style is Format.DECIMAL_EXPONENT
        return Quantity(unscaled, scale, style, _decimal_text(given, -power, exponent_form=is_exponent))
    return Quantity(unscaled, scale, style)


def _leading(digits: str, power: int) -> tuple[int, int]:
    """The number that digits and a power of ten make. Of very many digits the first ones are enough: no amount has more, and the rest only rounds it up."""
    if len(digits) <= _SIGNIFICANT:
        return int(digits), power
    first = digits.lstrip("0")
    rest = first[_SIGNIFICANT:]
    rounded = int(first[:_SIGNIFICANT] or "0") + (rest.strip("0") != "")
    return rounded, power + len(rest)


def _bounded(unscaled: int, scale: int) -> tuple[int, int]:
    """An amount of at most nine decimals, rounded up, and of at most 2**63 - 1."""
    if not unscaled:
        return 0, 0
    if scale < -_DIGITS:
        return _MAX_VALUE, 0
    if scale > _DIGITS + len(str(unscaled)):
        return 1, _MAX_SCALE
    if scale < 0:
        unscaled, scale = unscaled * 10**-scale, 0
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    if scale > _MAX_SCALE:
        unscaled, scale = _ceil_div(unscaled, 10 ** (scale - _MAX_SCALE)), _MAX_SCALE
    if unscaled > _MAX_VALUE * 10**scale:
        return _MAX_VALUE, 0
    return unscaled, scale


def _keeps_spelling(digits: str, power: int, style: Format, fraction: str) -> bool:
    """Whether Kubernetes keeps the text as it came: where it is short, in steps of a thousand, and has no zeros that could go.

    It is right about most texts; `1.500`, `+5` and `007` stay as well.
    """
    if len(digits) > _SHORT:
        return False
    if style is Format.BINARY_SI:
        return not fraction and int(digits) % 8 != 0
    return power >= -_MAX_SCALE and power % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _suffix(suffix: str) -> tuple[Format, int, int]:
    """Format, binary factor and decimal exponent of a suffix."""
    if suffix in _DECIMAL:
        return Format.DECIMAL_SI, 1, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Format.BINARY_SI, 1 << _BINARY[suffix], 0
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise ValueError(SUFFIX_MESSAGE)
    if len(exponent[1]) > _DIGITS or not -_MAX_VALUE <= int(exponent[1]) <= _MAX_VALUE:
        raise ValueError(SUFFIX_MESSAGE)
    return Format.DECIMAL_EXPONENT, 1, int(exponent[1])


def canonical(value: str | int | float) -> str:
    """The spelling in which the API server stores and serves a quantity; ValueError as for `parse`."""
    return str(parse(value))


def binary(amount: int) -> str:
    """Whole units with the largest binary suffix that loses nothing, as Kubernetes writes bytes that it has measured."""
    return str(Quantity(amount, format=Format.BINARY_SI))


def value(quantity: str | int | float) -> int:
    """Whole units of a wire quantity, rounded away from zero; ValueError as for `parse`."""
    return parse(quantity).value()


def milli_value(quantity: str | int | float) -> int:
    """Thousandths of a wire quantity, rounded away from zero; ValueError as for `parse`."""
    return parse(quantity).milli_value()
