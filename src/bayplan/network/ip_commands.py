"""Commands of iproute2 that change the kernel, and what its answers say. Pure: texts for `ip -batch -` and `bridge -batch -`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bayplan.network.data_plane import Entry, Forwarding, Neighbor, Route, Tunnel, Unreachable
from bayplan.network.peers import ip_version

PROTOCOL: Final = 145
"""Number by which the kernel remembers whose routes these are (`ip route show proto 145`); nobody else is known to use it."""


class Commands(NamedTuple):
    """Lines for the two programs."""

    ip: list[str]
    bridge: list[str]


def change(removed: Iterable[Entry], added: Iterable[Entry], device: str) -> Commands:
    """Commands that remove and add entries; no packet is led to where nobody forwards it. device: the tunnel's."""
    commands = Commands([], [])
    gone, new = sorted(removed, key=_rank, reverse=True), sorted(added, key=_rank)
    kept = {(type(one), _key(one)) for one in new}
    for entry in gone:
        if (type(entry), _key(entry)) not in kept:  # otherwise it is replaced
            _append(commands, entry, device, adds=False)
    for entry in new:
        _append(commands, entry, device, adds=True)
    return commands


def _rank(entry: Entry) -> tuple[int, Entry]:
    return (Forwarding, Neighbor, Unreachable, Route).index(type(entry)), entry


def _key(entry: Entry) -> str:
    return entry[0]


def _append(commands: Commands, entry: Entry, device: str, *, adds: bool) -> None:
    match entry:
        case Route(network, via, at):
            onlink = " onlink" if at == device else ""
            how = f"replace {network} via {via} dev {at}{onlink}" if adds else f"delete {network} dev {at}"
            commands.ip.append(f"route {how} proto {PROTOCOL}")
        case Unreachable(network):
            commands.ip.append(f"route {'replace' if adds else 'delete'} unreachable {network} proto {PROTOCOL}")
        case Neighbor(address, mark):
            commands.ip.append(
                f"neighbor replace {address} lladdr {mark} dev {device} nud permanent"
                if adds
                else f"neighbor delete {address} dev {device}"
            )
        case Forwarding(mark, destination):
            commands.bridge.append(
                f"fdb replace {mark} dev {device} dst {destination} self permanent"
                if adds
                else f"fdb delete {mark} dev {device} self"
            )


def add_tunnel(tunnel: Tunnel) -> list[str]:
    """Commands that make the tunnel device."""
    return [
        f"link add {tunnel.name} mtu {tunnel.mtu} address {tunnel.hardware_address} type vxlan id {tunnel.id} "
        f"local {tunnel.local} dev {tunnel.device} dstport {tunnel.port} nolearning",
        *(f"address add {one}/{_bits(one)} dev {tunnel.name}" for one in tunnel.addresses),
        f"link set {tunnel.name} up",
    ]


def is_tunnel(tunnel: Tunnel, links: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a device is the tunnel as it must be. links: what `ip -json -details address show dev NAME` prints."""
    for link in links:
        data = link.get("linkinfo", {})
        info = data.get("info_data", {})
        own = {one["local"] for one in link.get("addr_info", ()) if one.get("scope") == "global"}
        return (
            data.get("info_kind") == "vxlan"
            and info.get("id") == tunnel.id
            and info.get("port") == tunnel.port
            and tunnel.local in (info.get("local"), info.get("local6"))
            and info.get("link") == tunnel.device
            and link.get("address") == tunnel.hardware_address
            and link.get("mtu") == tunnel.mtu
            and "UP" in link.get("flags", ())
            and own == set(tunnel.addresses)
        )
    return False


def read_routes(routes: Iterable[Mapping[str, Any]]) -> set[Entry]:
    """Routes in what `ip -json route show proto 145` prints."""
    return {
        Unreachable(_network(one["dst"]))
        if one.get("type") == "unreachable"
        else Route(_network(one["dst"]), one.get("gateway", ""), one.get("dev", ""))
        for one in routes
    }


def read_neighbors(neighbors: Iterable[Mapping[str, Any]]) -> set[Neighbor]:
    """Neighbours in what `ip -json neighbor show dev NAME nud permanent` prints."""
    return {Neighbor(one["dst"], one["lladdr"]) for one in neighbors if "lladdr" in one}


def read_forwarding(forwarding: Iterable[Mapping[str, Any]]) -> set[Forwarding]:
    """Forwarding entries in what `bridge -json fdb show dev NAME` prints."""
    return {Forwarding(one["mac"], one["dst"]) for one in forwarding if "dst" in one}


def _network(text: str) -> str:
    """A destination as CIDR: iproute2 leaves the length of single addresses out."""
    return str(ipaddress.ip_network(text))


def _bits(address: str) -> int:
    return 32 if ip_version(address) == 4 else 128
