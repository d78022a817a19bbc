"""Node IPAM: nodes get networks for their pods out of the cluster's, no two of them the same.

Source of the behaviour: kube-controller-manager's node-ipam-controller with `--cidr-allocator-type=RangeAllocator`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class RangeFull(LookupError):
    """A cluster network has no part left."""


class NetworkRange:
    """A cluster's network and which of its parts (all of one size, numbered from 0) are taken."""

    def __init__(self, cluster: Network, prefix: int) -> None:
        """Raises ValueError if nodes' networks do not fit into the cluster's."""
        if not cluster.prefixlen <= prefix <= cluster.max_prefixlen:
            raise ValueError(f"networks with prefix length {prefix} do not fit into {cluster}")
        self.cluster = cluster
        self.prefix = prefix
        self._size = 1 << (cluster.max_prefixlen - prefix)
        self._count = 1 << (prefix - cluster.prefixlen)
        self._start = int(cluster.network_address)
        self._taken: set[int] = set()
        self._next = 0

    def _parts(self, network: Network) -> range:
        """Numbers of the parts that a network touches."""
        if network.version != self.cluster.version or not network.overlaps(self.cluster):
            return range(0)
        first = (int(network.network_address) - self._start) // self._size
        last = (int(network.broadcast_address) - self._start) // self._size
        return range(max(first, 0), min(last, self._count - 1) + 1)

    def occupy(self, network: Network) -> None:
        """A network that is in use is not given away."""
        self._taken.update(self._parts(network))

    def release(self, network: Network) -> None:
        """A network is free again."""
        self._taken.difference_update(self._parts(network))

    def take(self) -> Network:
        """A free network, the next one after the last that was given. Raises RangeFull."""
        for step in range(self._count):
            number = (self._next + step) % self._count
            if number not in self._taken:
                self._taken.add(number)
                self._next = (number + 1) % self._count
                return ipaddress.ip_network((self._start + number * self._size, self.prefix))
        raise RangeFull(f"{self.cluster} has no network with prefix length {self.prefix} left")


def networks_of(node: core_v1.Node) -> list[Network]:
    """The networks that a node has."""
    return [ipaddress.ip_network(one, strict=False) for one in node.spec.pod_cidrs or (node.spec.pod_cidr,) if one]


def ranges(cluster: Iterable[str], prefix_v4: int, prefix_v6: int) -> list[NetworkRange]:
    """The ranges of a cluster. Raises ValueError."""
    found = [ipaddress.ip_network(one) for one in cluster]
    return [NetworkRange(one, prefix_v4 if one.version == 4 else prefix_v6) for one in found]


class NodeIpamController(Controller):
    """See the module. One worker, so that nothing is given twice."""

    name = "node-ipam-controller"
    event_source = "cidrAllocator"
    workers = 1

    def setup(self) -> None:
        settings = self.context.settings
        cluster = settings.cluster_cidr if settings.allocate_node_cidrs else ()
        self.ranges = ranges(cluster, settings.node_cidr_mask_size_ipv4, settings.node_cidr_mask_size_ipv6)
        if not self.ranges:
            return
        self.nodes = self.informer(core_v1.Node)
        self.nodes.on_change(add=self._seen, update=lambda old, new: self._seen(new), delete=self._gone)

    def _seen(self, node: core_v1.Node) -> None:
        held = networks_of(node)
        for one in self.ranges:
            for network in held:
                one.occupy(network)
        if not held:
            self.queue.add(node.metadata.name)

    def _gone(self, node: core_v1.Node) -> None:
        for one in self.ranges:
            for network in networks_of(node):
                one.release(network)
        for other in self.nodes.cache:  # the range may have been full
            if not other.spec.pod_cidr:
                self.queue.add(other.metadata.name)

    async def reconcile(self, key: str) -> None:
        node: core_v1.Node | None = self.nodes.cache.by_key(key)
        if node is None or node.spec.pod_cidr or node.metadata.deletion_timestamp:
            return
        taken: list[tuple[NetworkRange, Network]] = []
        try:
            taken.extend((one, one.take()) for one in self.ranges)
            texts = [str(network) for _, network in taken]
            patch = {"metadata": {"uid": node.metadata.uid}, "spec": {"podCIDR": texts[0], "podCIDRs": texts}}
            await self.client.patch(core_v1.Node, key, "", patch)
        except (RangeFull, ApiError) as error:
            for one, network in taken:
                one.release(network)
            if isinstance(error, RangeFull):
                text = f"Node {key} status is now: CIDRNotAvailable"
                self.recorder.event(node, "Normal", "CIDRNotAvailable", text)
            elif error.code not in (404, 409, 422):
                raise
            self.queue.add_rate_limited(key)
