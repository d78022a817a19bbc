"""Addresses of the machine's interfaces, and which of them take node ports (rtnetlink)."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Final

from bayplan.proxy.families import IPV4, Family, contains, family_of
from bayplan.proxy.system.netlink import ROUTE, NetlinkSocket, attributes

_GET_ADDRESSES: Final = 22
_HEADER: Final = 8
_ADDRESS, _LOCAL = 1, 2


def machine_addresses(family: Family) -> list[str]:
    """All addresses of a family in this network namespace. Raises NetlinkError, OSError."""
    number = socket.AF_INET if family is IPV4 else socket.AF_INET6
    found = []
    with NetlinkSocket(ROUTE) as netlink:
        for message in netlink.dump(_GET_ADDRESSES, bytes((number,)) + bytes(_HEADER - 1)):
            parts = dict(attributes(message.payload, _HEADER))
            value = parts.get(_LOCAL) or parts.get(_ADDRESS)  # with a peer, the first is the own one
            if value is not None:
                found.append(socket.inet_ntop(number, value))
    return found


def node_port_addresses(family: Family, ranges: Sequence[str], addresses: Iterable[str]) -> tuple[str, ...] | None:
    """Addresses that are in the ranges of the family, sorted; None: all, as there are no such ranges or one of them is everything."""
    own = [one for one in ranges if family_of(one) is family]
    if not own or any(one.endswith("/0") for one in own):
        return None
    return tuple(sorted({address for address in addresses if any(contains(one, address) for one in own)}))
