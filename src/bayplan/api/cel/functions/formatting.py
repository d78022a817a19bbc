"""`'%d of %s'.format([1, 'a'])`. Source: cel-go's `ext/formatting.go`, which Kubernetes uses with the locale en_US."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from bayplan.api.cel.moments import duration_text, timestamp_text
from bayplan.api.cel.numbers import double_text, whole_number
from bayplan.api.cel.values import (
    Duration,
    EvaluationError,
    Map,
    Timestamp,
    TypeValue,
    UInt,
    is_list,
    type_name,
)

_CLAUSE = re.compile(r"%(?:(?P<percent>%)|(?P<precision>\.\d*)?(?P<clause>.)?)", re.DOTALL | re.ASCII)
_PRECISION = 6
_MOST_PRECISE = 10_000
"""Digits; more are no number but a way to fill memory."""
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HIGH = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
_HEAD = "could not parse formatting clause"


def _unsuited(what: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: {what}, was given {type_name(value)}")


def formatted(text: str, given: list[Any]) -> str:
    """A text with its clauses replaced by values. Raises EvaluationError."""
    parts: list[str] = []
    at = used = 0
    for match in _CLAUSE.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        if match["percent"]:
            parts.append("%")
            continue
        if used >= len(given):
            raise EvaluationError(f"index {used} out of range")
        if match.end() == match.start() + 1:
            raise EvaluationError("unexpected end of string")
        parts.append(_clause(match["clause"], match["precision"], given[used]))
        used += 1
    return "".join((*parts, text[at:]))


def _clause(clause: str | None, precision: str | None, value: Any) -> str:
    if precision is not None and clause is None:
        text = "could not find end of precision specifier"
        raise EvaluationError(f"{_HEAD}: error while parsing precision: {text}")
    if precision == ".":
        text = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        raise EvaluationError(f"{_HEAD}: error while parsing precision: {text}")
    digits = _PRECISION if precision is None else whole_number(precision[1:])
    if digits > _MOST_PRECISE:
        raise EvaluationError(f"{_HEAD}: error while parsing precision: more than {_MOST_PRECISE} digits")
    if clause in ("f", "e"):
        return _fixed(value, digits) if clause == "f" else _scientific(value, digits)
    writer = _WRITERS.get(clause or "")
    if writer is None:
        raise EvaluationError(f'{_HEAD}: unrecognized formatting clause "{clause}"')
    return writer(value)


def _decimal(value: Any) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    raise _unsuited("decimal clause can only be used on integers", value)


def _binary(value: Any) -> str:
    if type(value) in (int, UInt, bool):
        return format(int(value), "b")
    raise _unsuited("only integers and bools can be formatted as binary", value)


def _octal(value: Any) -> str:
    if type(value) in (int, UInt):
        return format(int(value), "o")
    raise _unsuited("octal clause can only be used on integers", value)


def _hexadecimal(value: Any) -> str:
    if type(value) in (int, UInt):
        return format(int(value), "x")
    if type(value) in (str, bytes):
        return (value.encode() if type(value) is str else value).hex()
    raise _unsuited("only integers, byte buffers, and strings can be formatted as hex", value)


def _number(value: Any, what: str) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in _SPECIAL:
        return _SPECIAL[value]
    raise _unsuited(what, value)


def _unusual(value: float) -> str | None:
    """Numbers that have no digits, as the locale has them."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")


def _fixed(value: Any, digits: int) -> str:
    number = _number(value, "fixed-point clause can only be used on doubles")
    return _unusual(number) or format(number, f",.{digits}f")


def _scientific(value: Any, digits: int) -> str:
    number = _number(value, "scientific clause can only be used on doubles")
    unusual = _unusual(number)
    if unusual is not None:
        return unusual
    mantissa, _, exponent = format(number, f".{digits}e").partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_HIGH)}"


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if type(value) is float:
        return double_text(value)
    if isinstance(value, TypeValue):
        return value.name
    if value is None or isinstance(value, bool | int) or is_list(value) or isinstance(value, Map):
        return _inside(value)
    what = (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        "timestamps"
    )
    raise _unsuited(what, value)


def _inside(value: Any) -> str:
    """A value as a part of another one: as a literal of the language."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return "b" + json.dumps(value.decode("utf-8", "replace"), ensure_ascii=False)
    if isinstance(value, float):
        return format(value, ".6f") if math.isfinite(value) else f'"{double_text(value)}"'
    if isinstance(value, Timestamp):
        return f'timestamp("{timestamp_text(value)}")'
    if isinstance(value, Duration):
        return f'duration("{duration_text(value)}")'
    if is_list(value):
        return f"[{', '.join(map(_inside, value))}]"
    if isinstance(value, Map):
        return _map_text(value)
    if isinstance(value, TypeValue):
        return value.name
    raise EvaluationError(f"error during formatting: no formatting function for {type_name(value)}")


def _map_text(value: Map) -> str:
    pairs = []
    for key in value.keys():  # noqa: SIM118  # maps of the language are not Python's
        if type(key) not in (str, bool, int, UInt):
            text = f"no formatting function for map key of type {type_name(key)}"
            raise EvaluationError(f"error during formatting: {text}")
        pairs.append((_inside(key), _inside(value.find(key))))
    return "{" + ", ".join(f"{key}:{held}" for key, held in sorted(pairs, key=lambda pair: pair[0])) + "}"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "b": _binary,
    "d": _decimal,
    "o": _octal,
    "s": _string,
    "x": _hexadecimal,
    "X": lambda value: _hexadecimal(value).upper(),
}
