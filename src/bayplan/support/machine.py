"""What this machine is, and what this process may do on it (Linux)."""

from __future__ import annotations

import platform
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


def has_ipv6(net: Path = Path("/proc")) -> bool:
    """Whether the network namespace has IPv6. net: what is looked at in place of /proc."""
    if not (net / "net/if_inet6").exists():
        return False
    disabled = net / "sys/net/ipv6/conf/all/disable_ipv6"
    return not (disabled.exists() and disabled.read_text().strip() == "1")
