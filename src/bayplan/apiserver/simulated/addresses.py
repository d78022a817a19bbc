"""Addresses of simulated nodes and their pods. Nothing listens there, or a stranger does: they are never dialled."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from bayplan.api.nodes import is_simulated
from bayplan.api.types import core_v1
from bayplan.apiserver.reads.watching import Entry, Event, Watcher
from bayplan.support.memory.memo import memoized

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayplan.api.kinds import Kind, KindTable
    from bayplan.apiserver.objects import ObjectStore

_Networks = dict[tuple[int, int], dict[int, None]]
"""Network numbers, the oldest first, by IP version and by the number of bits that follow the prefix."""
_MOST_GONE: Final = 1 << 16
"""Networks of one size that are remembered of nodes that have gone."""


class SimulatedAddresses:
    """The networks and addresses of all simulated nodes, as of the newest Node object.

    Pods outlive their node by a minute or so, and endpoints lead to them: what a simulated node had is remembered when it has gone, until a real node has it.
    """

    def __init__(self, objects: ObjectStore, kinds: KindTable) -> None:
        kind = kinds.of_kind("v1", "Node")
        assert kind is not None
        self._objects, self._kind = objects, kind
        self._simulated: _Networks = {}
        self._real: _Networks = {}
        self._gone: _Networks = {}
        self._revision = -1
        """Revision of the nodes that the first two were made from."""
        cache = objects.cache(kind)
        cache.watch(_Departures(kind, lambda entry: self._remember(cache.shared(entry))))

    def reason(self, host: str) -> str:
        """Why a host must not be dialled, as the end of an error message; "" if it may."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return ""  # a name
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        address = mapped or address
        self._follow()
        if _has(self._simulated, address) or (_has(self._gone, address) and not _has(self._real, address)):
            return "no route to host: it is an address of a simulated node, whose pods run no programs"
        return ""

    def _follow(self) -> None:
        """Take the nodes in as they are now."""
        cache = self._objects.cache(self._kind)
        if cache.revision == self._revision:
            return
        self._simulated, self._real = {}, {}
        for entry in cache.ordered(""):
            node: core_v1.Node = cache.shared(entry)
            _add(self._simulated if is_simulated(node) else self._real, node)
        self._revision = cache.revision

    def _remember(self, node: core_v1.Node) -> None:
        """A node was deleted."""
        if not is_simulated(node):
            return
        _add(self._gone, node)
        for numbers in self._gone.values():
            for number in list(numbers)[: max(0, len(numbers) - _MOST_GONE)]:
                del numbers[number]


class _Departures(Watcher):
    """A watcher that keeps no events: it passes deleted objects on."""

    __slots__ = ("_left",)

    def __init__(self, kind: Kind, left: Callable[[Entry], None]) -> None:
        super().__init__(kind, None, 0)
        self._left = left

    def offer(self, event: Event) -> None:
        """See Watcher."""
        if event.entry is None and event.previous is not None:
            self._left(event.previous)


def _has(networks: _Networks, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    number = int(address)
    return any(
        version == address.version and number >> bits in numbers for (version, bits), numbers in networks.items()
    )


def _add(networks: _Networks, node: core_v1.Node) -> None:
    """Add what a node has."""
    spec = node.spec
    for text in (*spec.pod_cidrs, spec.pod_cidr, *(one.address for one in node.status.addresses)):
        if (found := _network(text)) is not None:
            version, bits, number = found
            networks.setdefault((version, bits), {})[number] = None


@memoized(1 << 14)
def _network(text: str) -> tuple[int, int, int] | None:
    """IP version, bits that follow the prefix, and number of a network or address; None for anything else."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    bits = network.max_prefixlen - network.prefixlen
    return network.version, bits, int(network.network_address) >> bits
