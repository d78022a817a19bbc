"""Nodes make themselves known: those of the settings and of groups are created, and those that were there before report that they are well."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.nodes import GROUP_LABEL
from bayplan.api.strategies.base import clone
from bayplan.api.types import coordination_v1, core_v1
from bayplan.client import Client
from bayplan.informers import Informer
from bayplan.kubelet.simulator.nodes.groups import NodeGroupSettings, make_group_node
from bayplan.kubelet.simulator.nodes.node_reports import NodeReports
from bayplan.kubelet.simulator.nodes.objects import (
    LEASE_NAMESPACE,
    free_network,
    is_silent,
    make_lease,
    make_node,
    node_name,
    node_status,
)
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

logger = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 128
"""How many nodes are written about at a time."""


class Registration:
    """Creates nodes, and revives them."""

    def __init__(
        self,
        client: Client,
        settings: SimulatorSettings,
        *,
        nodes: Informer[core_v1.Node],
        leases: Informer[coordination_v1.Lease],
        clock: Clock,
        randomness: Randomness,
        reports: NodeReports,
    ) -> None:
        self._client = client
        self._settings = settings
        self._nodes = nodes
        self._leases = leases
        self._clock = clock
        self._randomness = randomness
        self._reports = reports
        self._own = frozenset(node_name(settings, index) for index in range(settings.nodes))
        self._networks: set[str] = set()
        """Networks that nodes have."""

    async def register(self, index: Mapping[str, int]) -> None:
        """Create nodes that are missing, and bring those back that a stop left without a heartbeat."""
        self._networks = {node.spec.pod_cidr for node in self._nodes.cache}
        for batch in batches(index.items(), AT_ONCE):
            await asyncio.gather(*(self._register_one(name, number) for name, number in batch))
        for group in self._settings.groups:
            await self._register_group(group)

    async def _register_group(self, group: NodeGroupSettings) -> None:
        """Create the nodes that a group has at least."""
        have = sum(node.metadata.labels.get(GROUP_LABEL) == group.name for node in self._nodes.cache)
        for number_ in range(have, group.minimum):
            name, network = f"{group.name}-{self._randomness.suffix(5)}", self._free_network(len(self._networks))
            await self._client.create(make_group_node(group, name, number_, network, self._clock.now()))

    def _free_network(self, index: int) -> str:
        network = free_network(self._networks, index)
        self._networks.add(network)
        return network

    async def _register_one(self, name: str, index: int) -> None:
        now = self._clock.now()
        known = self._nodes.cache.get("", name)
        try:
            if known is None:
                node = await self._client.create(make_node(self._settings, index, now, self._free_network(index)))
                if not node.status.conditions:
                    status = clone(node)
                    status.status = node_status(self._settings, name, index, now)
                    node = await self._client.update_status(status)
            else:
                node = known
                if not is_silent(node):
                    await self.revive(node, index, now)
            if self._leases.cache.get(LEASE_NAMESPACE, name) is None:
                await self._client.create(make_lease(node, now, self._settings.promised_seconds))
            elif not is_silent(node):
                await self._reports.try_to_renew(name, now)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            logger.info("node %s: %s", name, error)

    async def revive(self, node: core_v1.Node, index: int, now: float) -> None:
        """A healthy status for a node that was there before. Resources that somebody added to it stay."""
        changed = clone(node)
        name = node.metadata.name
        capacity = None if name in self._own else node.status.capacity
        fresh = node_status(self._settings, name, index, now, capacity)
        known = {one.type: one for one in node.status.conditions}
        for condition in fresh.conditions:
            old = known.pop(condition.type, None)
            if old is not None and old.status == condition.status:
                condition.last_transition_time = old.last_transition_time
        changed.status.conditions = (*fresh.conditions, *known.values())
        changed.status.addresses = node.status.addresses or fresh.addresses
        if not node.status.node_info.kubelet_version:
            changed.status.node_info = fresh.node_info
        changed.status.capacity = {**node.status.capacity, **fresh.capacity}
        kept = {} if name in self._own else node.status.allocatable
        changed.status.allocatable = {**node.status.allocatable, **fresh.allocatable, **kept}
        await self._client.update_status(changed)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
