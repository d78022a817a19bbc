"""Addresses of simulated nodes and their pods. Nothing listens there, or a stranger does: they are never dialled."""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING

from bayplan.api.simulated_nodes import is_simulated
from bayplan.api.types import core_v1

if TYPE_CHECKING:
    from bayplan.api.kinds import KindTable
    from bayplan.apiserver.objects import ObjectStore

_Networks = dict[tuple[int, int], set[int]]
"""Network numbers by IP version and by the number of bits that follow the prefix."""


class SimulatedAddresses:
    """The networks and addresses of all simulated nodes, as of the newest Node object."""

    def __init__(self, objects: ObjectStore, kinds: KindTable) -> None:
        kind = kinds.of_kind("v1", "Node")
        assert kind is not None
        self._objects, self._kind = objects, kind
        self._networks: _Networks = {}
        self._revision = -1
        """Revision of the nodes that `_networks` was made from."""

    def reason(self, host: str) -> str:
        """Why a host must not be dialled, as the end of an error message; "" if it may."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return ""  # a name
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        address = mapped or address
        number = int(address)
        for (version, bits), networks in self._current().items():
            if version == address.version and number >> bits in networks:
                return "no route to host: it is an address of a simulated node, whose pods run no programs"
        return ""

    def _current(self) -> _Networks:
        cache = self._objects.cache(self._kind)
        if cache.revision != self._revision:
            self._networks = {}
            for entry in cache.ordered(""):
                node: core_v1.Node = cache.shared(entry)
                if is_simulated(node):
                    self._add(node)
            self._revision = cache.revision
        return self._networks

    def _add(self, node: core_v1.Node) -> None:
        spec = node.spec
        for text in (*spec.pod_cidrs, spec.pod_cidr, *(one.address for one in node.status.addresses)):
            if (found := _network(text)) is not None:
                version, bits, number = found
                self._networks.setdefault((version, bits), set()).add(number)


@functools.lru_cache(maxsize=1 << 14)
def _network(text: str) -> tuple[int, int, int] | None:
    """IP version, bits that follow the prefix, and number of a network or address; None for anything else."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    bits = network.max_prefixlen - network.prefixlen
    return network.version, bits, int(network.network_address) >> bits
