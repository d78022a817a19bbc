"""Numbers of the language: their bounds, and how Go writes doubles."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

INT_MAX, INT_MIN, UINT_MAX = 2**63 - 1, -(2**63), 2**64 - 1

_POINT_FROM, _POINT_TO = -4, 6
"""Exponents between these are written without `e`."""


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def double_text(value: float) -> str:
    """The shortest text that means the number, as Go's `%g` writes it: `1.5`, `1e+06`."""
    if not math.isfinite(value):
        return _special(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = exponent + len(text) - 1
    head = "-" if sign else ""
    if value and not _POINT_FROM <= power < _POINT_TO:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        return f"{head}{text[0]}{rest}e{'+' if power >= 0 else '-'}{abs(power):02d}"
    return head + plain_double_text(abs(value))


def plain_double_text(value: float) -> str:
    """The same without exponents: `100000000000000000000000`."""
    if not math.isfinite(value):
        return _special(value)
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


_DIGITS: Final = 40
"""More than any number has that fits a type here."""


def whole_number(text: str) -> int:
    """A number in decimal digits, with a sign perhaps. One of very many digits becomes some number that is too large for any type, as Python reads
    no more than 4,300."""
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _DIGITS:
        digits = digits[:_DIGITS]
    return -int(digits or "0") if text.startswith("-") else int(digits or "0")
