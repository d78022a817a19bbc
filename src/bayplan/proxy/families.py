"""The two address families, and addresses in their canonical form. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final, NamedTuple


class Family(NamedTuple):
    """An address family, and what it is called in rules."""

    name: str
    """As in the API: of `ipFamilies`, and of `addressType` of EndpointSlices."""
    nft: str
    """The family of tables, and the name of the header in expressions."""
    address_type: str
    """Type of keys of sets."""
    not_loopback: str
    """Matches packets that do not go to a loopback address."""
    bits: int
    """Bits of an address."""


IPV4: Final = Family("IPv4", "ip", "ipv4_addr", "ip daddr != 127.0.0.0/8", 32)
IPV6: Final = Family("IPv6", "ip6", "ipv6_addr", "ip6 daddr != ::1", 128)
FAMILIES: Final = (IPV4, IPV6)

_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_PLAIN: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""IPv4 addresses in their canonical form; all others take twenty times as long."""


def canonical(text: str) -> str | None:
    """An address as the kernel shows it, None if it is none. Leading zeros are taken as in Go's older parser, and IPv4 addresses in IPv6 are IPv4."""
    if _PLAIN.fullmatch(text):
        return text
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        parts = text.split(".")
        if len(parts) != 4 or not all(one.isascii() and one.isdigit() for one in parts):
            return None
        numbers = [int(one) for one in parts]
        return ".".join(map(str, numbers)) if max(numbers) < 256 else None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped if mapped is not None else address)


def canonical_range(text: str) -> str | None:
    """A range (CIDR) with the bits below its prefix cleared, None if it is none."""
    address, slash, length = text.strip().partition("/")
    found = canonical(address)
    if not slash or found is None:
        return None
    try:
        return str(ipaddress.ip_network(f"{found}/{length}", strict=False))
    except ValueError:
        return None


def family_of(address: str) -> Family:
    """The family of a canonical address or range."""
    return IPV6 if ":" in address else IPV4


def contains(network: str, address: str) -> bool:
    """Whether a canonical range has an address."""
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)


def merged(networks: Iterable[str]) -> tuple[str, ...]:
    """The same addresses as ranges (or addresses) of one family that do not overlap, sorted: the kernel refuses overlaps."""
    found = list(ipaddress.collapse_addresses(ipaddress.ip_network(one) for one in networks))  # type: ignore[type-var]
    return tuple(str(one.network_address if one.prefixlen == one.max_prefixlen else one) for one in found)


def is_loopback(address: str) -> bool:
    """Whether an address is one of the machine's own."""
    return ipaddress.ip_address(address).is_loopback
