"""Timestamps, bytes and quantities in objects from clients: malformed ones are refused in Go's words, others are spelled as the API server spells them.

`Time` is RFC 3339 in whole seconds: fractions are cut off, other zones become UTC. `MicroTime` has exactly six decimals. Only what comes from outside is
looked at (`codec.decode_reporting`); the plan of a class lists the attributes that lead to such values, and is made once. Quantities of containers are left
to the defaults of pods, which come to each of them anyway.
"""

from __future__ import annotations

import functools
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from typing import Any, NamedTuple

from bayplan.api import quantity, schema
from bayplan.support.memory.memo import memoized
from bayplan.support.timestamps import rfc3339, unix_seconds

SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
BASE64 = "base64"
"""Stands in the place of a layout where bytes are."""
QUANTITY = "quantity"
"""Stands in the place of a layout where a quantity is."""
MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_CONTAINERS = frozenset(f"io.k8s.api.core.v1.{name}" for name in ("Container", "EphemeralContainer"))
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_CANONICAL = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII)
_CANONICAL_MICRO = re.compile(_CANONICAL.pattern[:-1] + r"\.\d{6}Z", re.ASCII)


class FormError(ValueError):
    """A malformed timestamp, malformed bytes, or no quantity; the message is Go's."""


class TimeError(FormError):
    """A malformed timestamp."""


class Step(NamedTuple):
    """One attribute that is a time (or a map of times) or leads to times."""

    attribute: str
    many: str
    """`list`, `map`, or "" for a single value. Kubernetes has no lists of times."""
    layout: str
    """Of a time; `BASE64` for bytes; `QUANTITY` for a quantity; "" for something that contains any of them."""
    definition: str
    """Of something that contains them."""


def settle(obj: Any) -> Any:
    """The same object with its timestamps, bytes and quantities in canonical form. Raises FormError."""
    _settle(obj, schema.definition_of(type(obj)))
    return obj


def _settle(obj: Any, definition: str) -> None:
    for step in _plan(definition):
        value = getattr(obj, step.attribute, None)
        if value is None:
            continue
        if step.layout and step.many:
            if value:
                setattr(obj, step.attribute, _settled_many(value, step.layout))
        elif step.layout:
            if (settled := _settled(value, step.layout)) is not value:
                setattr(obj, step.attribute, settled)
        elif step.many == "list":
            _settle_all(value, step.definition)
        elif step.many == "map":
            for item in value.values():
                _settle(item, step.definition)
        else:
            _settle(value, step.definition)


def _settle_all(items: Iterable[Any], definition: str) -> None:
    """Settle items of a list. One that equals a settled one is settled: lists of hundreds of thousands hold little but equal items."""
    last = None
    for item in items:
        if last is None or item != last:
            _settle(item, definition)
            last = item


def _settled_many(values: Any, layout: str) -> Any:
    """A map or list in canonical form. Raises FormError."""
    if isinstance(values, dict):
        return {key: _settled(each, layout) for key, each in values.items()}
    return tuple(_settled(each, layout) for each in values)


def _settled(text: str, layout: str) -> str:
    """A timestamp, bytes or a quantity in canonical form; the same string if that is what it is. Raises FormError."""
    if layout is BASE64:
        return canonical_bytes(text)
    if layout is QUANTITY:
        return _settled_quantity(text)
    return text if _is_canonical(text, layout) else canonical(text, layout)


@memoized(1024)
def _is_canonical(text: str, layout: str) -> bool:
    return (_CANONICAL_MICRO if layout is MICRO_LAYOUT else _CANONICAL).fullmatch(text) is not None


@memoized(4096)
def _settled_quantity(value: str | int | float) -> str:
    """A quantity in its canonical spelling. Raises FormError."""
    try:
        return quantity.canonical(value)
    except ValueError as error:
        raise FormError(str(error)) from None


def canonical_bytes(text: str) -> str:
    """Bytes in base64 as Kubernetes writes them (without line breaks). Raises FormError."""
    if text.isalnum() and len(text) % 4 == 0 and text.isascii():
        return text
    if problem := base64_problem(text):
        raise FormError(problem)
    if text[-1:] != "=":
        return text.replace("\n", "").replace("\r", "")
    return b2a_base64(a2b_base64(text), newline=False).decode()  # bits that belong to no byte become zeros


def base64_problem(text: str) -> str:
    """What is wrong with bytes in base64; "" if nothing is. Line breaks are nothing."""
    position = first_bad(text)
    return f"illegal base64 data at input byte {position}" if position >= 0 else ""


def first_bad(text: str) -> int:
    """Where a malformed base64 text goes wrong, in characters; -1 if it does not. Line breaks are nothing.

    Source: Go's `encoding/base64`.
    """
    at = _LETTERS.match(text).end()  # type: ignore[union-attr]
    letters = at - text.count("\r", 0, at) - text.count("\n", 0, at)
    rest = text[at:]
    if not rest:
        return len(text) - letters % 4 if letters % 4 else -1
    if rest[0] != "=" or letters % 4 < 2:
        return at
    padding = _PADDING.match(rest, 1 if letters % 4 == 3 else 0)
    if letters % 4 == 2:
        second = len(rest) - len(rest[1:].lstrip("\r\n"))
        if second == len(rest):
            return len(text)
        if rest[second] != "=":
            return at + second
        padding = _PADDING.match(rest, second + 1)
    assert padding is not None
    return at + padding.end() if padding.end() < len(rest) else -1


_LETTERS, _PADDING = re.compile(r"[A-Za-z0-9+/\r\n]*"), re.compile(r"[\r\n]*")


@functools.cache
def _plan(definition: str) -> tuple[Step, ...]:
    """The attributes of a definition that matter. A definition that contains itself is followed once."""
    return _steps(definition, frozenset((definition,)))


def _steps(definition: str, above: frozenset[str]) -> tuple[Step, ...]:
    found = []
    for name, inner in (schema.definitions().get(definition, {}).get("properties") or {}).items():
        many, target = _target(inner)
        attribute = _snake(name)
        if _holds_bytes(inner):
            found.append(Step(attribute, many, BASE64, ""))
        elif target == _QUANTITY:
            found.append(Step(attribute, many, QUANTITY, ""))
        elif target in _CONTAINERS:
            continue
        elif target in (_TIME, _MICRO_TIME):
            found.append(Step(attribute, many, SECONDS_LAYOUT if target == _TIME else MICRO_LAYOUT, ""))
        elif target and target in schema.definitions() and target not in above and _steps(target, above | {target}):
            found.append(Step(attribute, many, "", target))
    return tuple(found)


def _holds_bytes(inner: schema.Schema) -> bool:
    """Whether a property is bytes, or a map of them."""
    values = inner.get("additionalProperties")
    return inner.get("format") == "byte" or (isinstance(values, dict) and values.get("format") == "byte")


def _target(inner: schema.Schema) -> tuple[str, str]:
    """How many values a property has, and the definition of each; "" for plain ones."""
    if "$ref" in inner:
        return "", inner["$ref"]
    for many, key in (("list", "items"), ("map", "additionalProperties")):
        if isinstance(inner.get(key), dict):
            return many, inner[key].get("$ref", "")
    return "", ""


def _snake(name: str) -> str:
    """The attribute of a JSON name, as the generated classes have it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def canonical(text: str, layout: str) -> str:
    """A timestamp as the API server writes it. Raises TimeError."""
    seconds, fraction = _parse(text, layout)
    whole = rfc3339(seconds)
    return whole if layout == SECONDS_LAYOUT else f"{whole[:-1]}.{fraction}Z"


def _parse(text: str, layout: str) -> tuple[int, str]:
    """Unix seconds, and the digits of the fraction. Go's `time.Parse`, as far as it refuses. Raises TimeError."""
    rest = text
    numbers = []
    for prefix, element, digits in _ELEMENTS:
        if not rest.startswith(prefix):
            raise _cannot(text, layout, rest, prefix)
        rest = rest[len(prefix) :]
        match = digits.match(rest)
        if match is None:
            raise _cannot(text, layout, rest, element)
        number = int(match[0])
        low, high, what = _BOUNDS.get(element, (0, 9999, ""))
        if not low <= number <= high:
            raise TimeError(f"parsing time {_quoted(text)}: {what} out of range")
        numbers.append(number)
        rest = rest[match.end() :]
    decimals = ""
    if layout == MICRO_LAYOUT:
        if re.match(r"[.,]\d{6}", rest, re.ASCII) is None:
            raise _cannot(text, layout, rest, ".000000")
        decimals, rest = rest[1:7], rest[7:]
    elif fraction := re.match(r"[.,]\d+", rest, re.ASCII):
        rest = rest[fraction.end() :]
    zone = re.match(r"Z|([+-])(\d\d):(\d\d)", rest, re.ASCII)
    if zone is None:
        raise _cannot(text, layout, rest, "Z07:00")
    east = _seconds_east(text, zone)
    if rest[zone.end() :]:
        raise TimeError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest[zone.end() :])}")
    if not 1 <= numbers[2] <= _days(numbers[0], numbers[1]):
        raise TimeError(f"parsing time {_quoted(text)}: day out of range")
    return unix_seconds(*numbers) - east, decimals


def _seconds_east(text: str, zone: re.Match[str]) -> int:
    """How far a zone is ahead of UTC; up to 24 hours and 60 minutes are taken. Raises TimeError."""
    if zone[1] is None:
        return 0
    hours, minutes = int(zone[2]), int(zone[3])
    if hours > 24 or minutes > 60:
        what = "hour" if hours > 24 else "minute"
        raise TimeError(f"parsing time {_quoted(text)}: time zone offset {what} out of range")
    return (hours * 3600 + minutes * 60) * (-1 if zone[1] == "-" else 1)


_TWO, _ONE_OR_TWO = re.compile(r"\d\d", re.ASCII), re.compile(r"\d\d?", re.ASCII)
_ELEMENTS = (
    ("", "2006", re.compile(r"\d{4}", re.ASCII)),
    ("-", "01", _TWO),
    ("-", "02", _TWO),
    ("T", "15", _ONE_OR_TWO),
    (":", "04", _TWO),
    (":", "05", _TWO),
)
"""What stands before an element of the layout, the element, and what it takes."""
_BOUNDS = {"01": (1, 12, "month"), "15": (0, 23, "hour"), "04": (0, 59, "minute"), "05": (0, 59, "second")}


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _cannot(text: str, layout: str, rest: str, element: str) -> TimeError:
    return TimeError(
        f"parsing time {_quoted(text)} as {_quoted(layout)}: cannot parse {_quoted(rest)} as {_quoted(element)}"
    )


def _quoted(text: str) -> str:
    """As Go's package `time` quotes: what is not ASCII byte by byte."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if " " <= letter <= "\x7f":
        return f"\\{letter}" if letter in '"\\' else letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())
