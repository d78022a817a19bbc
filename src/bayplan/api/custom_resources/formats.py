"""Formats of strings that schemas of custom resources may ask for.

Source of the behaviour: `kube-openapi/pkg/validation/strfmt`; a format that is not in the table is not checked.
"""

from __future__ import annotations

import base64
import binascii
import functools
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from urllib.parse import urlsplit

from bayplan.api.validation.formats import dns_label, dns_subdomain
from bayplan.support.timestamps import parse_rfc3339


def _pattern(text: str) -> Callable[[str], bool]:
    compiled = re.compile(text)
    return lambda value: compiled.fullmatch(value) is not None


_UUID = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_FOUR, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_GO_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_WORDED_DURATION = re.compile(
    r"(\d+)\s*(ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?"
    r"|h|hrs?|hours?|d|days?|w|weeks?)",
    re.IGNORECASE,
)
_CREDIT_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35\d{3})\d{11}"
)
_HOSTNAME_LABEL = r"[^\W_](?:[^\W_]|-(?=[^\W_]))*"
_HOSTNAME = re.compile(rf"{_HOSTNAME_LABEL}|(?:{_HOSTNAME_LABEL}\.)+[^\W\d_]{{2,63}}\.?")


def _email(value: str) -> bool:
    _, address = parseaddr(value, strict=True) if _STRICT else parseaddr(value)
    local, at, domain = address.rpartition("@")
    return bool(local and at and domain)


_STRICT = "strict" in (parseaddr.__kwdefaults__ or {})
"""Newer Pythons refuse malformed addresses only then, and older ones do not know the word."""


def _ip(version: int) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            return ipaddress.ip_address(value).version == version
        except ValueError:
            return False

    return check


def _cidr(value: str) -> bool:
    if "/" not in value:
        return False
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return True


def _byte(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _date(value: str) -> bool:
    try:
        return len(value) == len("2006-01-02") and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _date_time(value: str) -> bool:
    try:
        parse_rfc3339(value)
    except ValueError:
        return False
    return True


def _duration(value: str) -> bool:
    return _GO_DURATION.fullmatch(value) is not None or _WORDED_DURATION.fullmatch(value.strip()) is not None


def _uri(value: str) -> bool:
    if any(letter.isspace() or ord(letter) < ord(" ") for letter in value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme) or value.startswith("/")


def _hostname(value: str) -> bool:
    return (
        len(value) <= 255
        and all(len(part) <= 63 for part in value.split("."))
        and _HOSTNAME.fullmatch(value) is not None
    )


def _luhn(value: str) -> bool:
    digits = re.sub(r"\D", "", value)
    if _CREDIT_CARD.fullmatch(digits) is None:
        return False
    doubled = (int(digit) * (index % 2 + 1) for index, digit in enumerate(reversed(digits)))
    return sum(sum(divmod(one, 10)) for one in doubled) % 10 == 0


def _isbn10(value: str) -> bool:
    digits = re.sub(r"[\s-]", "", value)
    if re.fullmatch(r"\d{9}[\dX]", digits) is None:
        return False
    return sum((index + 1) * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits)) % 11 == 0


def _isbn13(value: str) -> bool:
    digits = re.sub(r"[\s-]", "", value)
    return re.fullmatch(r"\d{13}", digits) is not None and not (
        sum(int(digit) * (1 + index % 2 * 2) for index, digit in enumerate(digits)) % 10
    )


def _isbn(value: str) -> bool:
    return _isbn10(value) or _isbn13(value)


_COLOUR = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": _byte,
    "cidr": _cidr,
    "creditcard": _luhn,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _email,
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _hostname,
    "ipv4": _ip(4),
    "ipv6": _ip(6),
    "isbn": _isbn,
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": lambda value: not dns_subdomain(value),
    "k8sshortname": lambda value: not dns_label(value),
    "mac": _pattern(
        r"([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2}[:-]){0,2}[0-9a-fA-F]{2}|([0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4}"
    ),
    "rgbcolor": _pattern(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _uri,
    "uuid": _pattern(_UUID % (_FOUR, _FOUR)),
    "uuid3": _pattern(_UUID % ("3[0-9a-f]{3}", _FOUR)),
    "uuid4": _pattern(_UUID % ("4[0-9a-f]{3}", _VARIANT)),
    "uuid5": _pattern(_UUID % ("5[0-9a-f]{3}", _VARIANT)),
}
_UNCHECKED = frozenset(("bsonobjectid", "password"))


@functools.lru_cache(maxsize=256)
def _normalized(name: str) -> str:
    return name.replace("-", "")


def is_known(name: str) -> bool:
    """Whether strings are checked against a format of this name (or could be: any string is a password)."""
    return _normalized(name) in _FORMATS or _normalized(name) in _UNCHECKED


def has_format(value: str, name: str) -> bool:
    """Whether a string has a format; every string has one that is not known."""
    check = _FORMATS.get(_normalized(name))
    return check is None or check(value)
