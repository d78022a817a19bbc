"""IP addresses as Go's `net/netip` reads them, with what it says of text that is none."""

from __future__ import annotations

import ipaddress

from bayplan.api.errors import quoted

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_DIGITS = frozenset("0123456789")
_GROUPS = 8


class AddressError(ValueError):
    """The text is no address."""

    def __init__(self, text: str, what: str, at: str = "") -> None:
        where = f" (at {quoted(at)})" if at else ""
        super().__init__(f"ParseAddr({quoted(text)}): {what}{where}")


def parse_address(text: str) -> tuple[Address, str]:
    """An address and its zone, which is empty for most. Raises AddressError."""
    for letter in text:
        if letter == ".":
            return ipaddress.IPv4Address(_four_bytes(text, text)), ""
        if letter == ":":
            return _parse_six(text)
        if letter == "%":
            raise AddressError(text, "missing IPv6 address")
    raise AddressError(text, "unable to parse IP")


def _four_bytes(text: str, part: str) -> bytes:
    """The bytes of `192.0.2.1`."""
    found: list[int] = []
    value, length = 0, 0
    for index, letter in enumerate(part):
        if letter in _DIGITS:
            if length == 1 and value == 0:
                raise AddressError(text, "IPv4 field has octet with leading zero")
            value, length = value * 10 + int(letter), length + 1
            if value > 255:
                raise AddressError(text, "IPv4 field has value >255")
        elif letter == ".":
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise AddressError(text, "IPv4 field must have at least one digit", part[index:])
            if len(found) == 3:
                raise AddressError(text, "IPv4 address too long")
            found.append(value)
            value = length = 0
        else:
            raise AddressError(text, "unexpected character", part[index:])
    if len(found) < 3:
        raise AddressError(text, "IPv4 address too short")
    return bytes((*found, value))


def _group_length(text: str, rest: str) -> int:
    """How many digits the next group has."""
    length = 0
    while length < len(rest) and rest[length] in _HEXADECIMAL:
        if length > 3:
            raise AddressError(text, "each group must have 4 or less digits", rest)
        length += 1
    if not length:
        raise AddressError(text, "each colon-separated field must have at least one digit", rest)
    return length


def _embedded(text: str, rest: str, count: int, has_gap: bool) -> bytes:
    """The bytes of an IPv4 address at the end."""
    if not has_gap and count != _GROUPS - 2:
        what = "embedded IPv4 address must replace the final 2 fields of the address"
        raise AddressError(text, what, rest)
    if count + 2 > _GROUPS:
        what = "too many hex fields to fit an embedded IPv4 at the end of the address"
        raise AddressError(text, what, rest)
    return _four_bytes(text, rest)


def _after_group(text: str, rest: str) -> str:
    """What follows the colon behind a group."""
    if rest[0] != ":":
        raise AddressError(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise AddressError(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _parse_six(text: str) -> tuple[Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise AddressError(text, "zone must be a non-empty string")
    groups: list[bytes] = []
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(groups) < _GROUPS:
        length = _group_length(text, rest)
        if rest[length : length + 1] == ".":
            tail = _embedded(text, rest, len(groups), gap >= 0)
            groups += [tail[:2], tail[2:]]
            rest = ""
            break
        groups.append(int(rest[:length], 16).to_bytes(2, "big"))
        rest = rest[length:]
        if not rest:
            break
        rest = _after_group(text, rest)
        if rest[0] == ":":
            if gap >= 0:
                raise AddressError(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
    if rest:
        raise AddressError(text, "trailing garbage after address", rest)
    return ipaddress.IPv6Address(b"".join(_filled(text, groups, gap))), zone


def _filled(text: str, groups: list[bytes], gap: int) -> list[bytes]:
    """Eight groups, with zeros in the gap."""
    if len(groups) == _GROUPS:
        if gap >= 0:
            raise AddressError(text, "the :: must expand to at least one field of zeros")
        return groups
    if gap < 0:
        raise AddressError(text, "address string too short")
    return [*groups[:gap], *[bytes(2)] * (_GROUPS - len(groups)), *groups[gap:]]
