"""Which entries of connection tracking send packets of UDP services to nobody. Pure.

UDP has no end: a client that goes on sending keeps its entry alive, and is served by the endpoint that it got first, however long that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bayplan.proxy.objects import Endpoint, ServicePort


class Connection(NamedTuple):
    """A tracked UDP connection."""

    destination: str
    """Address that the client sends to."""
    port: int
    reply_source: str
    """Address that answers: the endpoint."""
    reply_port: int
    key: bytes
    """What names it to the kernel."""


def stale_connections(
    connections: Iterable[Connection], services: Iterable[tuple[ServicePort, tuple[Endpoint, ...]]]
) -> Iterator[Connection]:
    """Connections to addresses of UDP services that are answered by no serving endpoint. Services without endpoints keep theirs, as in kube-proxy."""
    by_address: dict[tuple[str, int], set[tuple[str, int]]] = {}
    by_node_port: dict[int, set[tuple[str, int]]] = {}
    for port, endpoints in services:
        serving = {(one.address, one.port) for one in endpoints if one.serving}
        if port.name.protocol != "udp" or not serving:
            continue
        for address in (port.cluster_ip, *port.load_balancer_ips, *port.external_ips):
            by_address[address, port.port] = serving
        if port.node_port:
            by_node_port[port.node_port] = serving
    for one in connections:
        wanted = by_address.get((one.destination, one.port))
        if wanted is None or (one.reply_source, one.reply_port) in wanted:
            wanted = by_node_port.get(one.port)
        if wanted is not None and (one.reply_source, one.reply_port) not in wanted:
            yield one
