"""What the pod network needs of Node objects. Pure."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from bayplan.api.nodes import is_simulated
from bayplan.api.types import core_v1


class Peer(NamedTuple):
    """A node as others reach it and its pods, compared by value so that heartbeats cost nothing."""

    name: str
    addresses: tuple[str, ...]
    """Its InternalIPs, in the order of the Node object."""
    pod_networks: tuple[str, ...]
    """The CIDRs of its pods: one, or one of each family."""

    def address(self, version: int) -> str | None:
        """Its first address of an IP version, or None."""
        return next((each for each in self.addresses if ip_version(each) == version), None)


def ip_version(text: str) -> int:
    """4 or 6, of a valid address or CIDR."""
    return 6 if ":" in text else 4


def peer(node: core_v1.Node) -> Peer:
    """The node as a peer. What is not an address or a CIDR is left out; simulated nodes have no pods that anybody could reach."""
    cidrs = node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
    internal = (each.address for each in node.status.addresses if each.type == "InternalIP")
    return Peer(
        node.metadata.name,
        tuple(text for one in internal if (text := _address(one))),
        () if is_simulated(node) else tuple(text for one in cidrs if (text := _network(one))),
    )


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return ""
