"""Formats of strings that schemas of custom resources may ask for.

Source of the behaviour: `kube-openapi/pkg/validation/strfmt`; a format that is not in the table is not checked.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable

from bayplan.api.custom_resources import network_formats as network
from bayplan.api.custom_resources.mail_addresses import is_mail_address
from bayplan.api.validation.values.formats import dns_label, dns_subdomain
from bayplan.support.memory.memo import memoized


def _pattern(text: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(text, flags | re.ASCII)
    return lambda value: compiled.fullmatch(value) is not None


_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_FOUR, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_GO_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_WORDED_DURATION = re.compile(r"(\d+)[\t\n\f\r ]*([A-Za-zµ]+)", re.ASCII)
_SECOND = 10**9
_DAY = 86_400 * _SECOND
_UNITS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 10**3),
    (("ms", "milli"), 10**6),
    (("s", "sec"), _SECOND),
    (("m", "min"), 60 * _SECOND),
    (("h", "hr", "hour"), 3600 * _SECOND),
    (("d", "day"), _DAY),
    (("w", "wk", "week"), 7 * _DAY),
)
"""Units of time in words, in nanoseconds: any text that begins as the last of a line is that unit."""
_MOST = (1 << 63) - 1
_MOST_DIGITS = len(str(_MOST))
_CREDIT_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)


def _date(value: str) -> bool:
    found = _DATE.fullmatch(value)
    if found is None:
        return False
    year, month, day = (int(part) for part in found.groups())
    # the year 0 is one like any other there, and a leap year
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 4, month)[1]


def _date_time(value: str) -> bool:
    """What comes after a second `t` is not looked at."""
    day, *rest = value.lower().split("t")
    found = _TIME.fullmatch(rest[0]) if rest else None
    return found is not None and _date(day) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _duration(value: str) -> bool:
    """Go's form, or any text that has a number with a unit in it."""
    return _GO_DURATION.fullmatch(value) is not None or worded_duration(value) is not None


def worded_duration(text: str) -> int | None:
    """The nanoseconds of all numbers with units in a text: `3 days and 2 hours`. None if there are none, or a number has more than 64 bits."""
    found = [(number.lstrip("0") or "0", _unit(name.lower())) for number, name in _WORDED_DURATION.findall(text)]
    if any(len(number) > _MOST_DIGITS or int(number) > _MOST for number, _ in found):
        return None
    return sum(int(number) * unit for number, unit in found) if any(unit for _, unit in found) else None


def _unit(name: str) -> int:
    """Nanoseconds of a unit; 0 if there is none of this name."""
    return next((size for names, size in _UNITS if name in names or name.startswith(names[-1])), 0)


def _luhn(value: str) -> bool:
    digits = re.sub(r"[^0-9]", "", value)
    if _CREDIT_CARD.fullmatch(digits) is None:
        return False
    doubled = (int(digit) * (index % 2 + 1) for index, digit in enumerate(reversed(digits)))
    return sum(sum(divmod(one, 10)) for one in doubled) % 10 == 0


def _isbn10(value: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]", "", value)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    return sum((index + 1) * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits)) % 11 == 0


def _isbn13(value: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]", "", value)
    return re.fullmatch(r"[0-9]{13}", digits) is not None and not (
        sum(int(digit) * (1 + index % 2 * 2) for index, digit in enumerate(digits)) % 10
    )


def _isbn(value: str) -> bool:
    return _isbn10(value) or _isbn13(value)


_COLOUR = r"[\t\n\f\r ]*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])[\t\n\f\r ]*"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "byte": _pattern(_BASE64),
    "cidr": network.is_cidr,
    "creditcard": _luhn,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": is_mail_address,
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": network.is_hostname,
    "ipv4": network.is_ipv4,
    "ipv6": network.is_ipv6,
    "isbn": _isbn,
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": lambda value: not dns_subdomain(value),
    "k8sshortname": lambda value: not dns_label(value),
    "mac": network.is_mac,
    "rgbcolor": _pattern(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "ssn": _pattern(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": network.is_request_uri,
    "uuid": _pattern(_UUID % (_FOUR, _FOUR), re.IGNORECASE),
    "uuid3": _pattern(_UUID % ("3[0-9a-f]{3}", _FOUR), re.IGNORECASE),
    "uuid4": _pattern(_UUID % ("4[0-9a-f]{3}", _VARIANT), re.IGNORECASE),
    "uuid5": _pattern(_UUID % ("5[0-9a-f]{3}", _VARIANT), re.IGNORECASE),
}
OF_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}
"""What numbers may be said to be, by their type."""
_UNCHECKED = frozenset(("password",))


@memoized(256)
def _normalized(name: str) -> str:
    return name.replace("-", "")


def is_known(name: str) -> bool:
    """Whether strings are checked against a format of this name (or could be: any string is a password)."""
    return _normalized(name) in _FORMATS or _normalized(name) in _UNCHECKED


def has_format(value: str, name: str) -> bool:
    """Whether a string has a format; every string has one that is not known."""
    check = _FORMATS.get(_normalized(name))
    return check is None or check(value)
