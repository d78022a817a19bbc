"""Addresses and ranges of both families, as integers and as nftables writes them. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from enum import StrEnum

Range = tuple[int, int]
"""First and last of a range, both in it."""


class Family(StrEnum):
    """An address family, by its name in nftables."""

    IPV4 = "ip"
    IPV6 = "ip6"

    @property
    def type(self) -> str:
        """nftables' type of its addresses."""
        return "ipv4_addr" if self is Family.IPV4 else "ipv6_addr"

    @property
    def last(self) -> int:
        """The highest address."""
        return (1 << (32 if self is Family.IPV4 else 128)) - 1


def family_of(text: str) -> Family:
    """The family of an address or network."""
    return Family.IPV6 if ":" in text else Family.IPV4


def canonical_address(text: str) -> str | None:
    """An address as all parts of this package write it; None if it is none."""
    try:
        # The class is known: `ip_address` tries one after the other, at twice the cost.
        return str(ipaddress.IPv6Address(text) if ":" in text else ipaddress.IPv4Address(text))
    except ValueError:
        return None


def network_range(text: str) -> Range:
    """The range of a CIDR; bits beyond the prefix do not count. Raises ValueError."""
    network = ipaddress.ip_network(text, strict=False)
    return int(network.network_address), int(network.broadcast_address)


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same numbers in as few ranges as possible, in order: [(5, 9), (1, 4), (8, 8)] -> ((1, 9),)."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def without(whole: Range, holes: Iterable[Range]) -> list[Range]:
    """What is left of a range: (1, 9) without (3, 4) -> [(1, 2), (5, 9)]."""
    first, last = whole
    left = []
    for begin, end in merged(holes):
        if end < first or begin > last:
            continue
        if begin > first:
            left.append((first, begin - 1))
        first = end + 1
    if first <= last:
        left.append((first, last))
    return left


def range_text(found: Range, family: Family) -> str:
    """A range as an element of an nftables set."""
    kind = ipaddress.IPv4Address if family is Family.IPV4 else ipaddress.IPv6Address
    first, last = found
    return str(kind(first)) if first == last else f"{kind(first)}-{kind(last)}"


def number_range_text(found: Range) -> str:
    """A range of ports as an element of an nftables set."""
    first, last = found
    return str(first) if first == last else f"{first}-{last}"
