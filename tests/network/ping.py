"""One echo request that must not be fragmented: `ping.py ADDRESS SIZE`. Exit code 0 if it comes back within four seconds, 1 if not. Run as a program."""

from __future__ import annotations

import socket
import struct
import sys
import time

_MTU_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
"""IP_MTU_DISCOVER and IPV6_MTU_DISCOVER of Linux, which Python has no names for."""
_DO = 2
"""Never fragment (IP_PMTUDISC_DO)."""
_REQUEST, _REPLY = {4: 8, 6: 128}, {4: 0, 6: 129}


def checksum(data: bytes) -> int:
    """The internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def comes_back(address: str, size: int, seconds: float = 4.0) -> bool:
    """Whether an echo request with a payload of `size` bytes is answered; it is repeated, as new IPv6 addresses are checked for a second or two first.

    Raises OSError where there is no way.
    """
    version = 6 if ":" in address else 4
    family, protocol = (
        (socket.AF_INET6, socket.IPPROTO_ICMPV6) if version == 6 else (socket.AF_INET, socket.IPPROTO_ICMP)
    )
    mark = time.monotonic_ns() & 0xFFFF
    message = struct.pack("!BBHHH", _REQUEST[version], 0, 0, mark, 1) + b"x" * size
    if version == 4:  # the kernel computes that of ICMPv6
        message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
    end = time.monotonic() + seconds
    with socket.socket(family, socket.SOCK_RAW, protocol) as one:
        one.setsockopt(*_MTU_DISCOVER[version], _DO)
        one.settimeout(0.3)
        while time.monotonic() < end:
            one.sendto(message, (address, 0))
            if _is_answered(one, version, mark, size):
                return True
    return False


def _is_answered(one: socket.socket, version: int, mark: int, size: int) -> bool:
    """Whether the answer comes before the socket's timeout."""
    while True:
        try:
            data = one.recv(65_535)
        except TimeoutError:
            return False
        answer = data[(data[0] & 15) * 4 :] if version == 4 else data
        if answer[0] == _REPLY[version] and struct.unpack_from("!H", answer, 4)[0] == mark:
            return len(answer) == size + 8


if __name__ == "__main__":
    try:
        sys.exit(not comes_back(sys.argv[1], int(sys.argv[2])))
    except OSError as failure:
        sys.exit(f"{sys.argv[1]}: {failure}")
