"""The kernel of this machine (or network namespace), read and changed with iproute2 and nftables."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final

from bayplan.network.data_plane import Entry, Tunnel
from bayplan.network.errors import NetworkError
from bayplan.network.ip_commands import (
    PROTOCOL,
    Commands,
    add_tunnel,
    is_tunnel,
    read_forwarding,
    read_neighbors,
    read_routes,
)
from bayplan.network.masquerading import TABLE
from bayplan.support.system.programs import ProgramError, run, succeeds

logger = logging.getLogger(__name__)

_SYSCTLS: Final = Path("/proc/sys/net")
_FORWARDING: Final = {4: "ipv4/ip_forward", 6: "ipv6/conf/all/forwarding"}
_LOOSE: Final = "2"
"""Of `rp_filter`: packets may come by another interface than the one that leads back, but not from addresses that nothing leads to."""


async def interfaces() -> list[dict[str, Any]]:
    """All interfaces with their addresses. Raises ProgramError."""
    return _parsed(await run("ip", "-json", "address", "show"))


async def read_entries(device: str) -> set[Entry]:
    """Which entries the kernel has of ours. device: the tunnel's, which may not be there. Raises ProgramError."""
    found: set[Entry] = set()
    for family in ("-4", "-6"):
        found |= read_routes(_parsed(await run("ip", "-json", family, "route", "show", "proto", str(PROTOCOL))))
    if not await succeeds("ip", "link", "show", "dev", device):
        return found
    for family in ("-4", "-6"):
        found |= read_neighbors(
            _parsed(await run("ip", "-json", family, "neighbor", "show", "dev", device, "nud", "permanent"))
        )
    return found | read_forwarding(_parsed(await run("bridge", "-json", "fdb", "show", "dev", device)))


async def apply(commands: Commands) -> None:
    """Carry out commands. Raises ProgramError at the first one that fails; those before it stay."""
    for program, lines in (("bridge", commands.bridge), ("ip", commands.ip)):
        if lines:
            await run(program, "-batch", "-", stdin="".join(f"{line}\n" for line in lines).encode())


async def ensure_tunnel(tunnel: Tunnel) -> None:
    """Make the tunnel device, anew if there is another one of its name. Raises ProgramError."""
    if await succeeds("ip", "link", "show", "dev", tunnel.name):
        shown = _parsed(await run("ip", "-json", "-details", "address", "show", "dev", tunnel.name))
        if is_tunnel(tunnel, shown):
            return
        await run("ip", "link", "delete", tunnel.name)
    try:
        await apply(Commands(add_tunnel(tunnel), []))
    except ProgramError:
        if await succeeds("ip", "link", "show", "dev", tunnel.name):
            await run("ip", "link", "delete", tunnel.name)
        raise


async def remove_tunnel(name: str) -> None:
    """Remove the tunnel device, if it is there. Raises ProgramError."""
    if await succeeds("ip", "link", "show", "dev", name):
        await run("ip", "link", "delete", name)


async def load_rules(transaction: str) -> None:
    """Carry out a transaction of nftables. Raises ProgramError; nothing is changed then."""
    await run("nft", "-f", "-", stdin=transaction.encode())


async def remove_rules() -> None:
    """Remove the table of masquerading, if it is there. Raises ProgramError."""
    await load_rules(f"add table inet {TABLE}\ndelete table inet {TABLE}\n")


def allow_forwarding(versions: set[int]) -> None:
    """Let the kernel forward packets of these IP versions. Raises NetworkError if it does not and cannot be changed."""
    for version in versions:
        _write(_FORWARDING[version], "1", {"1"})


def accept_detours(device: str) -> None:
    """Accept packets at an interface that answers leave by another one: pods reach nodes directly, nodes reach pods by the tunnel. Raises NetworkError."""
    _write(f"ipv4/conf/{device}/rp_filter", _LOOSE, {"0", _LOOSE})


def _write(name: str, value: str, good: set[str]) -> None:
    path = _SYSCTLS / name
    try:
        if path.read_text().strip() in good:
            return
        path.write_text(value)
    except OSError as error:
        setting = f"net.{name.replace('/', '.')}"
        raise NetworkError(f"{setting} cannot be set ({error.strerror}): sysctl -w {setting}={value}") from error


def _parsed(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text or "[]")
    return [each for each in found if each]  # `ip` prints empty objects for what its filters leave out
