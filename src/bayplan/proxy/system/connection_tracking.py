"""Connection tracking of the kernel over netlink (ctnetlink): list UDP connections, and forget some. Calls block for as long as the kernel takes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from bayplan.proxy.errors import NetlinkError
from bayplan.proxy.families import IPV4, Family
from bayplan.proxy.rules.stale_connections import Connection
from bayplan.proxy.system.netlink import NETFILTER, NetlinkSocket, attribute, attributes, is_missing, nested

_GET, _DELETE = (1 << 8) | 1, (1 << 8) | 2
_HEADER: Final = 4
_ORIGINAL, _REPLY, _ID, _ZONE = 1, 2, 12, 18
_ADDRESSES, _PROTOCOL = 1, 2
_SOURCE_PORT, _DESTINATION_PORT = 2, 3
_UDP: Final = attribute(1, bytes((socket.IPPROTO_UDP,)))
"""As it stands in an entry: others are not taken apart."""


def udp_connections(family: Family) -> list[Connection]:
    """All of this network namespace. Raises NetlinkError, OSError."""
    with NetlinkSocket(NETFILTER) as netlink:
        return [
            _connection(family, message.payload)
            for message in netlink.dump(_GET, _header(family))
            if _UDP in message.payload
        ]


def forget(family: Family, connections: Iterable[Connection]) -> int:
    """Remove entries; returns how many were still there. Raises NetlinkError, OSError."""
    count = 0
    with NetlinkSocket(NETFILTER) as netlink:
        for one in connections:
            try:
                netlink.request(_DELETE, _header(family) + one.key)
            except NetlinkError as error:
                if not is_missing(error):
                    raise
            else:
                count += 1
    return count


def _header(family: Family) -> bytes:
    return bytes((socket.AF_INET if family is IPV4 else socket.AF_INET6, 0, 0, 0))


def _connection(family: Family, payload: bytes) -> Connection:
    found = dict(attributes(payload, _HEADER))
    original, reply = found[_ORIGINAL], found[_REPLY]
    _, destination, _, port = _tuple(family, original)
    source, _, source_port, _ = _tuple(family, reply)
    # The id keeps a new connection of the same addresses from being removed in the place of an old one.
    key = nested(_ORIGINAL, original) + b"".join(attribute(kind, found[kind]) for kind in (_ID, _ZONE) if kind in found)
    return Connection(destination, port, source, source_port, key)


def _tuple(family: Family, data: bytes) -> tuple[str, str, int, int]:
    """Source and destination address, source and destination port."""
    parts = dict(attributes(data))
    source, destination = _addresses(family, parts[_ADDRESSES])
    protocol = dict(attributes(parts[_PROTOCOL]))
    return source, destination, *(struct.unpack(">H", protocol[kind])[0] for kind in (_SOURCE_PORT, _DESTINATION_PORT))


def _addresses(family: Family, data: bytes) -> Iterator[str]:
    kinds, number = ((1, 2), socket.AF_INET) if family is IPV4 else ((3, 4), socket.AF_INET6)
    found = dict(attributes(data))
    return (socket.inet_ntop(number, found[kind]) for kind in kinds)
