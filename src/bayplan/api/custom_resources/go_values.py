"""JSON values as Go prints them, and the names that Go has for their types."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from bayplan.api.errors import quoted
from bayplan.api.json.writing import escaped, number_text

_POWER_WITH_EXPONENT = 6
_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}", type(None): "<nil>"}


def type_name(value: Any) -> str:
    """The type of a JSON value, as `%T` prints it."""
    return _TYPES.get(type(value), "map[string]interface {}")


def shown(value: Any) -> str:
    """A JSON value as `%v` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shown_float(value)
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{shown(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(shown, value))}]"
    return str(value)


def shown_as_text(value: Any) -> str:
    """A JSON value as `%s` prints it, which is for texts."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{shown_as_text(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(shown_as_text, value))}]"
    return f"%!s({'' if value is None else type_name(value) + '='}{shown(value)})"


def go_syntax(value: Any) -> str:
    """A JSON value as `%#v` prints it."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{quoted(name)}:{go_syntax(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return "interface {}(nil)" if value is None else shown(value)


def shown_float(number: float) -> str:
    """A float as `%v` prints it: as few digits as tell it from all others, with an exponent from a million on, or below a ten-thousandth."""
    if not math.isfinite(number):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(number), "NaN")
    exact = Decimal(repr(float(number))).normalize()
    power = exact.adjusted() if number else 0
    if -4 <= power < _POWER_WITH_EXPONENT:
        return f"{exact:f}"
    mantissa = exact.scaleb(-power)
    return f"{mantissa:f}e{'-' if power < 0 else '+'}{abs(power):02d}"


def json_text(value: Any) -> str:
    """A JSON value as Go's `json.Marshal` writes it: names in order, without blanks, safe inside HTML."""
    if type(value) is float or (type(value) is int and not -(2**63) <= value < 2**63):
        return number_text(float(value))
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return escaped(text.encode()).decode()
