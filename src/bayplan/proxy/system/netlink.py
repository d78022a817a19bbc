"""Netlink: requests to the kernel and their answers, of whatever subsystem. No knowledge of what they mean."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from bayplan.proxy.errors import NetlinkError

NETFILTER: Final = 12
ROUTE: Final = 0
_HEADER: Final = struct.Struct("=IHHII")
"""Length, type, flags, sequence number, port."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_INTERRUPTED: Final = 0x10
"""Flag of answers to a dump during which the kernel's table has changed."""
_ERROR, _DONE = 2, 3
_NESTED: Final = 0x8000
_TYPE_MASK: Final = 0x3FFF
_BUFFER: Final = 1 << 18
_ATTEMPTS: Final = 5


class Message(NamedTuple):
    """One answer."""

    type: int
    payload: bytes


class NetlinkSocket:
    """A socket for one subsystem, in the network namespace of the thread that makes it. Calls block, for as long as the kernel takes."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def dump(self, kind: int, payload: bytes) -> list[Message]:
        """Everything of a kind. Raises NetlinkError; OSError of the socket."""
        for _ in range(_ATTEMPTS):
            messages, consistent = self._exchange(kind, _DUMP, payload)
            if consistent:
                return messages
        return messages  # it changes all the time; what is missed is seen by the next dump

    def request(self, kind: int, payload: bytes) -> list[Message]:
        """Do one thing and return what the kernel says. Raises NetlinkError, with the errno as its first argument."""
        return self._exchange(kind, _ACK, payload)[0]

    def _exchange(self, kind: int, flags: int, payload: bytes) -> tuple[list[Message], bool]:
        self._sequence += 1
        self._socket.send(
            _HEADER.pack(_HEADER.size + len(payload), kind, _REQUEST | flags, self._sequence, 0) + payload
        )
        found: list[Message] = []
        consistent = True
        while True:
            for its_kind, its_flags, sequence, content in _messages(self._socket.recv(_BUFFER)):
                if sequence != self._sequence:
                    continue
                consistent = consistent and not its_flags & _INTERRUPTED
                if its_kind == _ERROR:
                    _check(content)
                    return found, consistent
                if its_kind == _DONE:
                    return found, consistent
                found.append(Message(its_kind, content))


def _check(content: bytes) -> None:
    """Raises NetlinkError if an acknowledgement is a refusal."""
    code = -struct.unpack_from("=i", content)[0]
    if code:
        raise NetlinkError(code, f"the kernel refuses a netlink request: {os.strerror(code)}")


def is_missing(error: NetlinkError) -> bool:
    """Whether the kernel does not know what the request was about."""
    return bool(error.args[0] == errno.ENOENT)


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of a message, padded."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """An attribute made of attributes."""
    return attribute(kind | _NESTED, b"".join(parts))


def attributes(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """(type, value) of each attribute of a message."""
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def _messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, sequence number, payload) of each message of a datagram."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        if length < _HEADER.size:
            return
        yield kind, flags, sequence, data[offset + _HEADER.size : offset + length]
        offset += (length + 3) & ~3
