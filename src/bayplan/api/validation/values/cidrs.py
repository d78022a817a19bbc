"""CIDRs as numbers, without the objects of `ipaddress`: a body of 3 MiB holds 170,000 of them, which are read for errors and for warnings."""

from __future__ import annotations

import re
import struct
from typing import Final

import msgspec

_OCTET: Final = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}"
read_octets = re.compile(_IPV4).fullmatch
"""Matches an IPv4 address without leading zeros; its groups are the four numbers."""

_LENGTH: Final = r"/(0|[1-9][0-9]{0,2})"
_ipv4_cidr = re.compile(_IPV4 + _LENGTH).fullmatch
_ipv6_cidr = re.compile(rf"([0-9a-fA-F:.]+){_LENGTH}").fullmatch
_HEXTETS: Final = r"[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4})*"
_hextets = re.compile(rf"{_HEXTETS}|((?:{_HEXTETS})?)::((?:{_HEXTETS})?)").fullmatch
_eight_hextets = struct.Struct(">8H").unpack
_hexadecimal = ":".join(["{:x}"] * 8).format
_zeros = re.compile(r"\b0(?::0)+\b")
_MAPPED: Final = 0xFFFF
"""The first 96 bits of an IPv4 address inside IPv6."""


class Cidr(msgspec.Struct, frozen=True, gc=False):
    """A network."""

    version: int
    first: int
    """Its first address."""
    length: int
    """Bits of the prefix."""

    @property
    def host_bits(self) -> int:
        """Bits after the prefix."""
        return (32 if self.version == 4 else 128) - self.length

    def is_strictly_inside(self, whole: Cidr) -> bool:
        """Whether this is a part of another network and not all of it."""
        if self.version != whole.version or self.length <= whole.length:
            return False
        return self.first >> whole.host_bits == whole.first >> whole.host_bits


def strict_cidr(value: str) -> Cidr | None:
    """The network of a CIDR that has no leading zeros, no bits beyond the prefix and is not IPv4 inside IPv6; None for every other text."""
    if found := _ipv4_cidr(value):
        return _without_host_bits(4, _ipv4_number(found), int(found[5]))
    if found := _ipv6_cidr(value):
        address = read_ipv6(found[1])
        if address is not None and address >> 32 != _MAPPED:
            return _without_host_bits(6, address, int(found[2]))
    return None


def _ipv4_number(octets: re.Match[str]) -> int:
    return int(octets[1]) << 24 | int(octets[2]) << 16 | int(octets[3]) << 8 | int(octets[4])


def _without_host_bits(version: int, address: int, length: int) -> Cidr | None:
    network = Cidr(version, address, length)
    host_bits = network.host_bits
    return network if host_bits >= 0 and not address & ((1 << host_bits) - 1) else None


def read_ipv6(text: str) -> int | None:
    """The number of an IPv6 address without a zone, in any spelling; None for every other text."""
    if "." in text:
        start, _, end = text.rpartition(":")
        octets = read_octets(end)
        if octets is None:
            return None
        return None if (number := read_ipv6(f"{start}:0:0")) is None else number | _ipv4_number(octets)
    found = _hextets(text)
    if found is None:
        return None
    head, tail = found.groups()
    before = (text if head is None else head).split(":") if head != "" else []
    after = tail.split(":") if tail else []
    left_out = 8 - len(before) - len(after)
    if left_out if head is None else left_out < 1:
        return None
    number = 0
    for group in before:
        number = number << 16 | int(group, 16)
    number <<= 16 * left_out
    for group in after:
        number = number << 16 | int(group, 16)
    return number


_SHORT_HEXTET: Final = r"(?:0|[1-9a-f][0-9a-f]{0,3})"
_SHORT_HEXTETS: Final = rf"{_SHORT_HEXTET}(?::{_SHORT_HEXTET})*"
_plain = re.compile(rf"(?:{_SHORT_HEXTETS}|(?:{_SHORT_HEXTETS})?::(?:{_SHORT_HEXTETS})?)/.*").fullmatch
_zero_beside_another = re.compile(r"\b0:0\b|\b0::|::0\b").search


def is_plain_cidr(value: str) -> bool:
    """Whether a valid CIDR of IPv6 is canonical at first sight: all zeros that stand side by side are left out, two or more if any."""
    if _plain(value) is None or ("::" in value and value.count(":") > 6):
        return False
    return (":0" not in value and value[0] != "0") or _zero_beside_another(value) is None


def ipv6_text(address: int) -> str:
    """An IPv6 address in the spelling of RFC 5952: the first of the longest runs of zeros is left out.

    0x20010db8000000000000000100000000 is `2001:db8::1:0:0`.
    """
    text = _hexadecimal(*_eight_hextets(address.to_bytes(16)))
    runs = list(_zeros.finditer(text))
    if not runs:
        return text
    start, end = (runs[0] if len(runs) == 1 else max(runs, key=lambda run: len(run[0]))).span()
    return f"{text[:start].rstrip(':')}::{text[end:].lstrip(':')}"
