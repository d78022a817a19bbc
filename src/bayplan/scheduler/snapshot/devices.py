"""Devices that drivers offer in ResourceSlices, and which of them are taken.

`Inventory` is built from the catalog's slices and claims. It answers which devices a node can use, what is left of
shared counters and divisible capacity, and which devices match which selectors. Choosing among them is `allocation`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bayplan.api.quantity import Quantity, parse
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, NodeSelector
    from bayplan.api.types.resource_v1 import Device, ResourceClaim, ResourceSlice

ZERO = Quantity(0)


class DeviceId(NamedTuple):
    """What names a device in the cluster."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A device, and the slice that offers it."""

    id: DeviceId
    device: Device
    slice: ResourceSlice


@dataclass(slots=True)
class Pool:
    """The slices of a pool's latest generation."""

    driver: str
    name: str
    generation: int
    slices: list[ResourceSlice] = field(default_factory=list)
    is_invalid: bool = False
    """Two devices have one name."""

    @property
    def is_complete(self) -> bool:
        """Whether all slices of the generation are there."""
        return len(self.slices) == self.slices[0].spec.pool.resource_slice_count


@dataclass(slots=True)
class Usage:
    """What is taken of the devices of a cluster."""

    taken: set[DeviceId] = field(default_factory=set)
    """Devices that belong to somebody alone."""
    consumed: dict[DeviceId, dict[str, Quantity]] = field(default_factory=dict)
    """Of devices that several claims can share: capacity name -> amount."""


def usage_of(claims: Iterable[ResourceClaim]) -> Usage:
    """What the allocations of claims take. Access for administrators takes nothing."""
    usage = Usage()
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if result.admin_access:
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            if result.share_id is None:
                usage.taken.add(device)
                continue
            shares = usage.consumed.setdefault(device, {})
            for name, amount in result.consumed_capacity.items():
                shares[name] = shares.get(name, ZERO).add(parse(amount))
    return usage


class Offers:
    """All slices, by pool and by node. Built once for as long as no slice changes."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.pools: dict[tuple[str, str], Pool] = {}
        for item in sorted(slices, key=lambda one: one.metadata.name):
            self._add(item)
        self._by_node: dict[str, list[tuple[Pool, list[Offer]]]] = {}
        """Pools of one node, with all their devices."""
        self._elsewhere: list[Pool] = []
        """Pools with slices for several nodes."""
        self._matchers: dict[int, NodeAffinityMatcher] = {}
        for pool in self.pools.values():
            names = [device.name for item in pool.slices for device in item.spec.devices]
            pool.is_invalid = len(set(names)) < len(names)
            self._index(pool)

    def _add(self, item: ResourceSlice) -> None:
        spec = item.spec
        key = (spec.driver, spec.pool.name)
        pool = self.pools.get(key)
        if pool is None or spec.pool.generation > pool.generation:
            self.pools[key] = Pool(*key, spec.pool.generation, [item])
        elif spec.pool.generation == pool.generation:
            pool.slices.append(item)

    def _index(self, pool: Pool) -> None:
        names = {item.spec.node_name for item in pool.slices}
        (name,) = names if len(names) == 1 else (None,)
        if name:
            offers = [self._offer(pool, device, item) for item in pool.slices for device in item.spec.devices]
            self._by_node.setdefault(name, []).append((pool, offers))
        else:
            self._elsewhere.append(pool)

    def _offer(self, pool: Pool, device: Device, item: ResourceSlice) -> Offer:
        return Offer(DeviceId(pool.driver, pool.name, device.name), device, item)

    def for_node(self, node: Node) -> list[tuple[Pool, list[Offer]]]:
        """The pools with devices that a node can use, and these devices."""
        found = list(self._by_node.get(node.metadata.name, ()))
        for pool in self._elsewhere:
            offers = self._usable(pool, node)
            if offers:
                found.append((pool, offers))
        return found

    def _usable(self, pool: Pool, node: Node) -> list[Offer]:
        found: list[Offer] = []
        for item in pool.slices:
            spec = item.spec
            if spec.per_device_node_selection:
                usable: Sequence[Device] = [
                    device
                    for device in spec.devices
                    if self._reaches(node, device.node_name, device.node_selector, device.all_nodes)
                ]
            elif self._reaches(node, spec.node_name, spec.node_selector, spec.all_nodes):
                usable = spec.devices
            else:
                continue
            found += [self._offer(pool, device, item) for device in usable]
        return found

    def _reaches(self, node: Node, name: str | None, selector: NodeSelector | None, everywhere: bool | None) -> bool:
        if name:
            return name == node.metadata.name
        if everywhere:
            return True
        if selector is None:
            return False
        matcher = self._matchers.get(id(selector))
        if matcher is None:
            matcher = self._matchers[id(selector)] = NodeAffinityMatcher({}, selector)
        return matcher.match_labels(node.metadata.labels, node.metadata.name)


class Inventory:
    """What is offered, and what is taken of it."""

    def __init__(self, offers: Offers, claims: Iterable[ResourceClaim]) -> None:
        self.offers = offers
        self.usage = usage_of(claims)
        self._left: dict[tuple[str, str], dict[str, dict[str, Quantity]]] = {}

    def counters_left(self, pool: Pool) -> dict[str, dict[str, Quantity]]:
        """Counter set -> counter -> what devices in use leave of it."""
        key = (pool.driver, pool.name)
        left = self._left.get(key)
        if left is None:
            left = self._left[key] = {
                counters.name: {name: parse(counter.value) for name, counter in counters.counters.items()}
                for item in pool.slices
                for counters in item.spec.shared_counters
            }
            if left:
                self._subtract(pool, left)
        return left

    def _subtract(self, pool: Pool, left: dict[str, dict[str, Quantity]]) -> None:
        for item in pool.slices:
            for device in item.spec.devices:
                used = DeviceId(pool.driver, pool.name, device.name)
                if used in self.usage.taken or used in self.usage.consumed:
                    consume(left, device)


def consume(left: dict[str, dict[str, Quantity]], device: Device) -> None:
    """Take a device's share of the counters."""
    for item in device.consumes_counters:
        counters = left.get(item.counter_set)
        if counters is not None:
            for name, counter in item.counters.items():
                counters[name] = counters.get(name, ZERO).sub(parse(counter.value))


def release(left: dict[str, dict[str, Quantity]], device: Device) -> None:
    """Give a device's share of the counters back."""
    for item in device.consumes_counters:
        counters = left.get(item.counter_set)
        if counters is not None:
            for name, counter in item.counters.items():
                counters[name] = counters.get(name, ZERO).add(parse(counter.value))


def has_counters_for(left: dict[str, dict[str, Quantity]], device: Device) -> bool:
    """Whether enough is left of every counter that a device consumes."""
    for item in device.consumes_counters:
        counters = left.get(item.counter_set)
        if counters is None:
            return False
        for name, counter in item.counters.items():
            if counters.get(name, ZERO) < parse(counter.value):
                return False
    return True
