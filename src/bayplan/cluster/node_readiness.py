"""Waiting until the nodes of a cluster that has just started are Ready."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from bayplan.api.nodes import is_ready_node
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.support.timestamps import parse_rfc3339


class NodeReadiness:
    """Which nodes are Ready. fresh: names of nodes whose status has to be of `since` (Unix time) or later; of others an older one counts, too."""

    def __init__(self, count: int, fresh: Collection[str], since: float) -> None:
        self._count = count
        self._fresh = fresh
        self._since = int(since)  # statuses tell whole seconds
        self._ready: set[str] = set()
        self._others: set[str] = set(fresh)

    def are_enough(self) -> bool:
        """Whether so many nodes are Ready, those of `fresh` among them."""
        return len(self._ready) >= self._count and self._ready.issuperset(self._fresh)

    @property
    def unready(self) -> list[str]:
        """Nodes that are not Ready yet, as far as their names are known, in their order."""
        return sorted(self._others)

    def put(self, node: core_v1.Node) -> None:
        """Take a node as it is now."""
        name = node.metadata.name
        (kept, other) = (self._ready, self._others) if self._is_ready(node) else (self._others, self._ready)
        kept.add(name)
        other.discard(name)

    def remove(self, node: core_v1.Node) -> None:
        """Forget a node."""
        for names in (self._ready, self._others):
            names.discard(node.metadata.name)

    def _is_ready(self, node: core_v1.Node) -> bool:
        if not is_ready_node(node):
            return False
        if node.metadata.name not in self._fresh:
            return True
        times = (each.last_heartbeat_time for each in node.status.conditions if each.type == "Ready")
        return any(time is not None and parse_rfc3339(time) >= self._since for time in times)


async def wait_for_nodes(client: Client, readiness: NodeReadiness, seconds: float) -> None:
    """Return when enough nodes are Ready, or after so many seconds. Raises ApiError, TransportError."""
    try:
        async with asyncio.timeout(seconds):
            await _follow(client, readiness)
    except TimeoutError:
        return


async def _follow(client: Client, readiness: NodeReadiness) -> None:
    while not readiness.are_enough():
        listed = await client.list(core_v1.Node)
        for node in listed.items:
            readiness.put(node)
        if readiness.are_enough():
            return
        stream = await client.watch(core_v1.Node, resource_version=listed.resource_version)
        try:
            async for event in stream:
                if event.type in ("ADDED", "MODIFIED"):
                    readiness.put(event.object)
                elif event.type == "DELETED":
                    readiness.remove(event.object)
                if readiness.are_enough():
                    return
        finally:
            stream.close()
