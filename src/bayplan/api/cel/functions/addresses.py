"""IP addresses and networks. Sources: `k8s.io/apiserver/pkg/cel/library`, ip.go and cidr.go; the errors are those of Go's `net/netip`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.functions.go_addresses import Address, AddressError, parse_address
from bayplan.api.cel.functions.registry import STRING, Table
from bayplan.api.cel.numbers import whole_number
from bayplan.api.cel.values import EvaluationError, Opaque, no_such_overload
from bayplan.api.errors import quoted

TABLE = Table()
_MULTICAST = ipaddress.ip_network("224.0.0.0/24")


@dataclass(frozen=True, slots=True, eq=False)
class IP(Opaque):
    """An address."""

    type_name = "net.IP"
    address: Address

    def equals(self, other: Any) -> bool:
        """Whether this is the same address. Raises EvaluationError for what is none."""
        if not isinstance(other, IP):
            raise no_such_overload()
        return self.address == other.address

    def size(self) -> int:
        """In bytes."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True, eq=False)
class CIDR(Opaque):
    """A network, by one of its addresses and a length of prefix."""

    type_name = "net.CIDR"
    address: Address
    bits: int

    def equals(self, other: Any) -> bool:
        """Whether address and prefix are the same. Raises EvaluationError for what is no network."""
        if not isinstance(other, CIDR):
            raise no_such_overload()
        return self.address == other.address and self.bits == other.bits

    def size(self) -> int:
        """Bytes of the prefix."""
        return -(-self.bits // 8)

    def masked(self) -> Address:
        """The first address."""
        unused = self.address.max_prefixlen - self.bits
        return type(self.address)(int(self.address) >> unused << unused)

    def contains(self, address: Address, bits: int) -> bool:
        """Whether a network of at least as many bits is within this one."""
        if address.version != self.address.version or bits < self.bits:
            return False
        unused = address.max_prefixlen - self.bits
        return int(address) >> unused == int(self.address) >> unused


def _address(text: str) -> Address:
    try:
        found, zone = parse_address(text)
    except AddressError as error:
        shown = f"IP Address {quoted(text)} parse error during conversion from string: {error}"
        raise EvaluationError(shown) from error
    if zone:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if _is_mapped(found):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return found


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


_PARSING = "network address parse error during conversion from string:"


def _network(text: str) -> CIDR:
    """Raises EvaluationError."""
    found = _prefix(text)
    if _is_mapped(found.address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return found


def _prefix(text: str) -> CIDR:
    head = f"{_PARSING} netip.ParsePrefix({quoted(text)}):"
    before, slash, bits = text.rpartition("/")
    if not slash:
        raise EvaluationError(f"{head} no '/'")
    try:
        address, zone = parse_address(before)
    except AddressError as error:
        raise EvaluationError(f"{head} {error}") from error
    if zone:
        raise EvaluationError(f"{head} IPv6 zones cannot be present in a prefix")
    if not bits.isascii() or not bits.isdecimal() or (len(bits) > 1 and bits[0] == "0"):
        raise EvaluationError(f"{head} bad bits after slash: {quoted(bits)}")
    if whole_number(bits) > address.max_prefixlen:
        raise EvaluationError(f"{head} prefix length out of range")
    return CIDR(address, int(bits))


def _is_one(text: str, reader: Any) -> bool:
    try:
        reader(text)
    except EvaluationError:
        return False
    return True


@TABLE.function("ip", STRING)
def _ip(text: str) -> IP:
    return IP(_address(text))


@TABLE.function("isIP", STRING)
def _is_ip(text: str) -> bool:
    return _is_one(text, _address)


@TABLE.function("ip.isCanonical", STRING)
def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


@TABLE.member("family", IP)
def _family(value: IP) -> int:
    return value.address.version


@TABLE.member("isUnspecified", IP)
def _is_unspecified(value: IP) -> bool:
    return int(value.address) == 0


@TABLE.member("isLoopback", IP)
def _is_loopback(value: IP) -> bool:
    return value.address.is_loopback


@TABLE.member("isLinkLocalMulticast", IP)
def _is_link_local_multicast(value: IP) -> bool:
    address = value.address
    if isinstance(address, ipaddress.IPv4Address):
        return address in _MULTICAST
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


@TABLE.member("isLinkLocalUnicast", IP)
def _is_link_local_unicast(value: IP) -> bool:
    return value.address.is_link_local


@TABLE.member("isGlobalUnicast", IP)
def _is_global_unicast(value: IP) -> bool:
    address = value.address
    return not (
        int(address) == 0
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


@TABLE.function("string", IP)
def _ip_text(value: IP) -> str:
    return str(value.address)


@TABLE.function("cidr", STRING)
def _cidr(text: str) -> CIDR:
    try:
        return _network(text)
    except EvaluationError as error:
        raise EvaluationError(f"{_PARSING} {error.message}") from error


@TABLE.function("isCIDR", STRING)
def _is_cidr(text: str) -> bool:
    return _is_one(text, _network)


@TABLE.member("containsIP", CIDR, STRING)
def _contains_ip_text(value: CIDR, text: str) -> bool:
    return _contains_ip(value, _ip(text))


@TABLE.member("containsIP", CIDR, IP)
def _contains_ip(value: CIDR, other: IP) -> bool:
    return value.contains(other.address, other.address.max_prefixlen)


@TABLE.member("containsCIDR", CIDR, STRING)
def _contains_cidr_text(value: CIDR, text: str) -> bool:
    return _contains_cidr(value, _cidr(text))


@TABLE.member("containsCIDR", CIDR, CIDR)
def _contains_cidr(value: CIDR, other: CIDR) -> bool:
    return value.contains(other.address, other.bits)


@TABLE.member("ip", CIDR)
def _ip_of(value: CIDR) -> IP:
    return IP(value.address)


@TABLE.member("prefixLength", CIDR)
def _prefix_length(value: CIDR) -> int:
    return value.bits


@TABLE.member("masked", CIDR)
def _masked(value: CIDR) -> CIDR:
    return CIDR(value.masked(), value.bits)


@TABLE.function("string", CIDR)
def _cidr_text(value: CIDR) -> str:
    return f"{value.address}/{value.bits}"
