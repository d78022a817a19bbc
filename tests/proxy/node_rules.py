"""The proxy's rules in the node's namespace, without an API server: objects go straight into the desired tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from bayplan.api.types import core_v1, discovery_v1
from bayplan.proxy.families import FAMILIES, family_of
from bayplan.proxy.family_syncer import FamilySyncer, Generations
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_options import TableOptions, local_by_range
from bayplan.proxy.system.kernel import NetlinkKernel
from bayplan.proxy.system.nft import Nft
from bayplan.support.blocking import in_thread
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from tests.namespaces import NamespaceLoop
from tests.proxy.network import NODE_ADDRESSES, PODS, SERVICES, Network
from tests.proxy.objects import NODE


class NodeRules:
    """Tables of both families."""

    def __init__(self, loop: NamespaceLoop, **options: Any) -> None:
        self._loop = loop
        self.registry = Registry()
        loop.run(self._open(options))

    async def _open(self, options: dict[str, Any]) -> None:
        self.kernel = NetlinkKernel()
        self.writer = Nft()
        generations, metrics = Generations(), ProxyMetrics(self.registry)
        self.families = [
            FamilySyncer(
                DesiredTable(TableOptions(**_options(index, options))),
                self.writer,
                self.kernel,
                generations,
                metrics,
                SystemClock(),
                in_thread,
            )
            for index in range(2)
        ]

    def put(self, *objects: core_v1.Service | discovery_v1.EndpointSlice) -> None:
        """Add or replace objects, and sync."""
        for one in objects:
            for family in self.families:
                if isinstance(one, core_v1.Service):
                    family.table.put_service(one)
                else:
                    family.table.put_slice(one)
        self.sync()

    def remove(self, *objects: core_v1.Service | discovery_v1.EndpointSlice) -> None:
        """Remove objects, and sync."""
        for one in objects:
            for family in self.families:
                if isinstance(one, core_v1.Service):
                    family.table.remove_service(one.metadata.namespace, one.metadata.name)
                else:
                    family.table.remove_slice(one)
        self.sync()

    def sync(self) -> None:
        """Bring all into the kernel."""
        for family in self.families:
            if family.has_work:
                self._loop.run(family.sync())

    def check(self) -> None:
        """Look for changes of others."""
        for family in self.families:
            self._loop.run(family.check())

    def delete_stale(self) -> None:
        """Delete chains that are not used any more, without waiting for it."""
        for family in self.families:
            family._stale = dict.fromkeys(family._stale, float("-inf"))
            self._loop.run(family.delete_stale())

    def close(self) -> None:
        """Close sockets."""
        self.writer.close()
        self.kernel.close()


@contextlib.contextmanager
def node_rules(network: Network, **options: Any) -> Iterator[NodeRules]:
    """Rules on the node; the table is removed afterwards. options: of both TableOptions; a pair gives each family its own."""
    loop = network.node.loop()
    rules = NodeRules(loop, **options)
    try:
        rules.sync()
        yield rules
    finally:
        rules.close()
        loop.close()
        for family in FAMILIES:
            network.node.command(
                "nft", "-f", "-", stdin=f"add table {family.nft} kube-proxy\ndelete table {family.nft} kube-proxy\n"
            )


def _options(index: int, options: dict[str, Any]) -> dict[str, Any]:
    family = FAMILIES[index]
    usual: dict[str, Any] = {
        "family": family,
        "node_name": NODE,
        "node_address": NODE_ADDRESSES[index],
        "node_port_addresses": (NODE_ADDRESSES[index],),
        "service_ranges": tuple(one for one in SERVICES if family_of(one) is family),
        "local_traffic": local_by_range(family, PODS[index]),
    }
    return usual | {name: value[index] if isinstance(value, list) else value for name, value in options.items()}
