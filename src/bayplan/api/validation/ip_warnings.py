"""Warnings about addresses that are accepted but not written as they should be."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from bayplan.api.validation.fields import parse_cidr, parse_ip
from bayplan.api.validation.values.cidrs import ipv6_text, is_plain_cidr, strict_cidr

MOST_WARNINGS: Final = 4096
"""Different warnings after which no further one is sent, however short they are: an answer has headers for so many characters of them."""


def ip_warnings(path: str, value: str) -> list[str]:
    """Leading zeros, IPv4 inside IPv6, IPv6 not in canonical form."""
    address = parse_ip(value)
    if address is None:
        return []
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None or (address.version == 4 and str(address) != value):
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{mapped or address}"']
    if str(address) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{address}")']
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    """The same for networks, and bits beyond the prefix."""
    if (strict := strict_cidr(value)) is not None:
        if strict.version == 4 or is_plain_cidr(value):
            return []
        return _spelling_warnings(path, value, f"{ipv6_text(strict.first)}/{strict.length}")
    network = parse_cidr(value)
    if network is None:
        return []
    text, _, length = value.partition("/")
    address = parse_ip(text)
    found = []
    if address != network.network_address:
        single = f"{address}/{network.max_prefixlen}"
        found.append(
            f'{path}: CIDR value "{value}" is ambiguous in this context (should be "{network}" or "{single}"?)'
        )
    if (network.version == 4 and str(address) != text) or (len(length) > 1 and length[0] == "0"):
        found.append(f'{path}: non-standard CIDR value "{value}" is invalid: use "{network}"')
    if not found and network.version == 6:
        return _spelling_warnings(path, value, str(network))
    return found


def _spelling_warnings(path: str, value: str, canonical: str) -> list[str]:
    if value == canonical:
        return []
    return [f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{canonical}")']


def cidr_list_warnings(path: str, values: Sequence[str]) -> list[str]:
    """The same for a list of networks, as far as an answer can tell of it."""
    found: list[str] = []
    for index, value in enumerate(values):
        found += cidr_warnings(f"{path}[{index}]", value)
        if len(found) >= MOST_WARNINGS:
            break
    return found


def ingress_ip_warnings(addresses: Sequence[str]) -> list[str]:
    """The same about the addresses of a load balancer in a status."""
    return [
        text
        for index, address in enumerate(addresses)
        if address
        for text in ip_warnings(f"status.loadBalancer.ingress[{index}]", address)
    ]
