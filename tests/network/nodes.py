"""Nodes, as objects and as peers."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1, meta_v1
from bayplan.network.data_plane import Uplink
from bayplan.network.peers import Peer
from bayplan.network.settings import NetworkSettings

UPLINK = Uplink("eth0", "192.0.2.1", 1500, ("192.0.2.0/24", "2001:db8::/64"))
A = Peer("a", ("192.0.2.1", "2001:db8::1"), ("10.1.1.0/24", "fd00:1::/64"))
B = Peer("b", ("192.0.2.2", "2001:db8::2"), ("10.1.2.0/24", "fd00:2::/64"))
FAR = Peer("far", ("198.51.100.9",), ("10.1.9.0/24",))


def settings(**changes: Any) -> NetworkSettings:
    return NetworkSettings(**{"node_name": "a", **changes})


def node(name: str, addresses: tuple[str, ...], pod_networks: tuple[str, ...]) -> core_v1.Node:
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name),
        spec=core_v1.NodeSpec(pod_cidr=pod_networks[0] if pod_networks else "", pod_cidrs=pod_networks),
        status=core_v1.NodeStatus(
            addresses=tuple(core_v1.NodeAddress(type="InternalIP", address=one) for one in addresses)
        ),
    )
