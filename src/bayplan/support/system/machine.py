"""What this machine is, and what this process may do on it (Linux)."""

from __future__ import annotations

import platform
import socket
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

_NET_ADMIN: Final = 12
"""Number of the capability CAP_NET_ADMIN (capabilities(7))."""


def hostname() -> str:
    """The machine's name, in lower case as nodes have it."""
    return platform.node().strip().lower()


def has_net_admin(status: Path = Path("/proc/self/status")) -> bool:
    """Whether a process may change the network. status: what /proc tells of it."""
    line = next((line for line in status.read_text().splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    return bool(int(line.split()[1], 16) >> _NET_ADMIN & 1)


def machine_addresses(net: Path = Path("/proc/net")) -> tuple[str, ...]:
    """The addresses of the network namespace but for those of the loop and of links, IPv4 first; none where the system does not tell them like Linux.

    net: what is looked at in place of /proc/net.
    """
    found: dict[str, None] = {}
    table, interfaces = net / "fib_trie", net / "if_inet6"
    if table.exists():
        last = ""
        for line in table.read_text().splitlines():
            words = line.split()
            if words[:1] == ["|--"]:
                last = words[1]
            elif words == ["/32", "host", "LOCAL"]:
                found[last] = None
    if interfaces.exists():
        found.update(
            (str(IPv6Address(bytes.fromhex(line.split()[0]))), None) for line in interfaces.read_text().splitlines()
        )
    return tuple(each for each in found if not (ip_address(each).is_loopback or ip_address(each).is_link_local))


def address_towards(host: str, port: int) -> str:
    """This machine's address on the way to a host; nothing is sent. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # of UDP: only the route is looked up
        found: str = probe.getsockname()[0]
    return found


def default_address(family: int = socket.AF_INET) -> str:
    """This machine's address on its default route, by which others reach it. The loop's where there is no such route."""
    far, loop = ("203.0.113.1", "127.0.0.1") if family == socket.AF_INET else ("2001:db8::1", "::1")
    try:
        return address_towards(far, 9)
    except OSError:
        return loop


def has_ipv6(net: Path = Path("/proc")) -> bool:
    """Whether the network namespace has IPv6. net: what is looked at in place of /proc."""
    if not (net / "net/if_inet6").exists():
        return False
    disabled = net / "sys/net/ipv6/conf/all/disable_ipv6"
    return not (disabled.exists() and disabled.read_text().strip() == "1")
