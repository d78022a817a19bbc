"""UDP sockets whose answers leave from the address that the query was sent to, which clients insist on."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final, Protocol

_LONGEST: Final = 65_535
_CONTROL: Final = 128
"""Bytes for the control message that names the address."""
_IP_PKTINFO: Final = 8
"""Of Linux (ip(7)); Python has no name for it."""

Client = tuple[Any, ...]
"""Where an answer goes to; what `receive` has given."""


class Datagrams(Protocol):
    """A socket that does not block. Both methods raise OSError."""

    def receive(self) -> tuple[bytes, Client]:
        """The next datagram, and its sender. Raises BlockingIOError if there is none."""

    def send(self, answer: bytes, client: Client) -> object:
        """Answer a sender."""


class AddressDatagrams:
    """A socket of one address, which all its datagrams leave from."""

    def __init__(self, udp: socket.socket) -> None:
        self._socket = udp
        self.send = udp.sendto

    def receive(self) -> tuple[bytes, Client]:
        """See Datagrams."""
        return self._socket.recvfrom(_LONGEST)


class WildcardDatagrams:
    """A socket of all addresses. The system says to which one a query was sent, and is told to answer from there.

    Otherwise it would take the first address of the interface that the answer leaves by. Linux only.
    """

    def __init__(self, udp: socket.socket) -> None:
        self._socket = udp
        if udp.family == socket.AF_INET6:
            udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            udp.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)

    def receive(self) -> tuple[bytes, Client]:
        """See Datagrams."""
        data, control, _, address = self._socket.recvmsg(_LONGEST, _CONTROL)
        return data, (address, [_source(*one) for one in control])

    def send(self, answer: bytes, client: Client) -> None:
        """See Datagrams."""
        address, control = client
        self._socket.sendmsg((answer,), control, 0, address)


def _source(level: int, kind: int, data: bytes) -> tuple[int, int, bytes]:
    """The control message of an answer to a datagram with this one: the same address, by whichever interface leads to the client."""
    if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
        _, local = struct.unpack_from("=I4s", data)
        return level, kind, struct.pack("=I4s4s", 0, local, bytes(4))
    if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
        address, interface = struct.unpack("=16sI", data)
        link_local = address[0] == 0xFE and address[1] & 0xC0 == 0x80
        return level, kind, struct.pack("=16sI", address, interface if link_local else 0)
    return level, kind, data
