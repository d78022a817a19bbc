"""From which address an answer leaves; sockets that show it are in test_server.py, but IPv6 has one address on the loopback only."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from bayplan.dns.datagrams import WildcardDatagrams

CLIENT = ("2001:db8::9", 1234, 0, 0)


class FakeSocket:
    """A socket that has received a datagram at an address, by an interface."""

    def __init__(self, family: socket.AddressFamily, control: tuple[int, int, bytes]) -> None:
        self.family = family
        self._control = control
        self.sent: list[Any] = []

    def setsockopt(self, *_: int) -> None:
        """Whatever the system has."""

    def recvmsg(self, *_: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, tuple[Any, ...]]:
        return b"query", [self._control], 0, CLIENT

    def sendmsg(self, *arguments: Any) -> None:
        self.sent.append(arguments)


@pytest.mark.parametrize(
    ("address", "interface"),
    [
        pytest.param("2001:db8::1", 0, id="of any network"),
        pytest.param("fe80::1", 7, id="of the link, which the interface tells"),
        pytest.param("febf::1", 7, id="at the end of those of the link"),
        pytest.param("fec0::1", 0, id="behind those"),
        pytest.param("fd80::1", 0, id="before those"),
    ],
)
def test_an_answer_leaves_from_an_ipv6_address(address: str, interface: int) -> None:
    level, kind = socket.IPPROTO_IPV6, socket.IPV6_PKTINFO
    packed = socket.inet_pton(socket.AF_INET6, address)
    fake: Any = FakeSocket(socket.AF_INET6, (level, kind, struct.pack("=16sI", packed, 7)))
    datagrams = WildcardDatagrams(fake)
    data, client = datagrams.receive()
    datagrams.send(b"answer", client)
    assert data == b"query"
    expected = (level, kind, struct.pack("=16sI", packed, interface))
    assert fake.sent == [((b"answer",), [expected], 0, CLIENT)]


def test_an_answer_leaves_from_an_ipv4_address_by_any_interface() -> None:
    local, asked = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 255))
    fake: Any = FakeSocket(socket.AF_INET, (socket.IPPROTO_IP, 8, struct.pack("=I4s4s", 7, local, asked)))
    datagrams = WildcardDatagrams(fake)
    datagrams.send(b"answer", datagrams.receive()[1])
    assert fake.sent[0][1] == [(socket.IPPROTO_IP, 8, struct.pack("=I4s4s", 0, local, bytes(4)))]


def test_other_control_messages_go_back_as_they_are() -> None:
    for control in ((socket.IPPROTO_IPV6, 1, b"x"), (1, 8, bytes(12)), (1, socket.IPV6_PKTINFO, bytes(20))):
        fake: Any = FakeSocket(socket.AF_INET6, control)
        datagrams = WildcardDatagrams(fake)
        datagrams.send(b"answer", datagrams.receive()[1])
        assert fake.sent[0][1] == [control]
