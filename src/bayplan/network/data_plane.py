"""What the kernel must know to reach the pods of other nodes: routes, and for the overlay neighbours and forwarding entries. Pure.

Worked example, overlay: node `b` has the address 192.0.2.2 and the pods 10.1.2.0/24. With `M` for the hardware address that follows from its name, node `a` gets

    route       10.1.2.0/24 via 10.1.2.0 dev bayplan-vxlan onlink
    neighbour   10.1.2.0 has M at bayplan-vxlan
    forwarding  M at bayplan-vxlan is behind 192.0.2.2

Nothing but Node objects is needed for that: hardware addresses of tunnel devices follow from the names of nodes. Routed, it is `10.1.2.0/24 via 192.0.2.2 dev eth0`.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bayplan.network.errors import NetworkError, NotYetError
from bayplan.network.peers import Peer, ip_version
from bayplan.network.settings import DataPlane, NetworkSettings

HEADERS: Final = {4: 50, 6: 70}
"""Bytes that VXLAN adds to a packet, by the IP version between the nodes."""


_LOOPBACK: Final = "lo"
_USUAL_MTU: Final = 1500


class Route(NamedTuple):
    """Where packets to a network go."""

    network: str
    via: str
    device: str


class Neighbor(NamedTuple):
    """The hardware address of an address behind the tunnel device."""

    address: str
    hardware_address: str


class Forwarding(NamedTuple):
    """The node's address behind which a hardware address is."""

    hardware_address: str
    destination: str


class Unreachable(NamedTuple):
    """A network of which nothing is to leave the node, unless a route says more."""

    network: str


Entry = Route | Neighbor | Forwarding | Unreachable


class Tunnel(NamedTuple):
    """The VXLAN device."""

    name: str
    hardware_address: str
    id: int
    port: int
    local: str
    """The node's address that it sends from."""
    device: str
    """The interface that it sends by."""
    mtu: int
    addresses: tuple[str, ...]
    """Its own, which the node uses to talk to pods of other nodes: the first of each of the node's pod networks."""


class Uplink(NamedTuple):
    """The interface by which a node reaches others."""

    device: str
    address: str
    """The node's first address at it."""
    mtu: int
    networks: tuple[str, ...]
    """Subnets that it is in."""


def find_uplink(node: Peer, interfaces: Sequence[Mapping[str, Any]]) -> Uplink:
    """The interface that has the first address of a node, in what `ip -json address show` prints. Raises NetworkError."""
    if not node.addresses:
        raise NotYetError(
            f"node {node.name} has no InternalIP in its status yet; the kubelet sets it, or name it with --node-ip there"
        )
    wanted = node.addresses[0]
    for each in interfaces:
        found = each.get("addr_info", ())
        if any(one.get("local") == wanted for one in found):
            networks = tuple(
                str(ipaddress.ip_network(f"{one['local']}/{one['prefixlen']}", strict=False))
                for one in found
                if one.get("scope") == "global"
            )
            return Uplink(str(each["ifname"]), wanted, int(each["mtu"]), networks)
    raise NetworkError(
        f"no interface of this machine has {wanted}, the address of node {node.name}: "
        "run this on the machine of the node, in the node's network namespace"
    )


def hardware_address(node_name: str) -> str:
    """The hardware address of a node's tunnel device: locally administered, 40 bits of the name's hash."""
    digest = hashlib.sha256(node_name.encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (2, *digest[:5]))


def make_tunnel(node: Peer, uplink: Uplink, settings: NetworkSettings) -> Tunnel:
    """The tunnel device of a node."""
    return Tunnel(
        settings.vxlan_device,
        hardware_address(node.name),
        settings.vxlan_id,
        settings.vxlan_port,
        uplink.address,
        uplink.device,
        pod_mtu(uplink, settings),
        tuple(_first_address(network) for network in node.pod_networks),
    )


def pod_mtu(uplink: Uplink, settings: NetworkSettings) -> int:
    """The largest packet of pods, in bytes."""
    if settings.mtu:
        return settings.mtu
    if uplink.device == _LOOPBACK:  # the only node of a cluster: what pods send elsewhere leaves by another interface
        return _USUAL_MTU
    return uplink.mtu - (HEADERS[ip_version(uplink.address)] if settings.data_plane == DataPlane.OVERLAY else 0)


def entries(node: Peer, other: Peer, uplink: Uplink, settings: NetworkSettings) -> frozenset[Entry]:
    """What a node's kernel must know of another node, nothing of what `unreachable` names; of itself that pods are nowhere but where routes lead."""
    if other.name == node.name:
        return frozenset(Unreachable(network) for network in settings.cluster_networks)
    if settings.data_plane == DataPlane.OVERLAY:
        return frozenset(_tunnelled(other, uplink, settings))
    return frozenset(
        Route(network, via, uplink.device)
        for network in other.pod_networks
        if (via := other.address(ip_version(network))) and _is_near(via, uplink)
    )


def _tunnelled(other: Peer, uplink: Uplink, settings: NetworkSettings) -> list[Entry]:
    destination = other.address(ip_version(uplink.address))
    if destination is None or not other.pod_networks:
        return []
    mark = hardware_address(other.name)
    found: list[Entry] = [Forwarding(mark, destination)]
    for network in other.pod_networks:
        gateway = _first_address(network)
        found += [Route(network, gateway, settings.vxlan_device), Neighbor(gateway, mark)]
    return found


def unreachable(node: Peer, other: Peer, uplink: Uplink, settings: NetworkSettings) -> str:
    """Why pods of another node cannot be reached, and what to do; "" if they can, or if it has no pod network yet."""
    if other.name == node.name:
        return ""
    if settings.data_plane == DataPlane.OVERLAY:
        version = ip_version(uplink.address)
        if other.pod_networks and other.address(version) is None:
            return f"node {other.name} has no IPv{version} address, which the tunnel of this node needs"
        return ""
    for network in other.pod_networks:
        via = other.address(ip_version(network))
        if via is None:
            return f"node {other.name} has no IPv{ip_version(network)} address to which {network} could be routed"
        if not _is_near(via, uplink):
            return (
                f"node {other.name} ({via}) is in none of this node's subnets ({', '.join(uplink.networks)}): "
                f"use the overlay, or let routers know {network}"
            )
    return ""


def _is_near(address: str, uplink: Uplink) -> bool:
    """Whether an address is reached without a router."""
    found = ipaddress.ip_address(address)
    return any(found in ipaddress.ip_network(one) for one in uplink.networks)


def _first_address(network: str) -> str:
    return network.partition("/")[0]
