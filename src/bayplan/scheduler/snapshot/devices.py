"""Devices that drivers offer in ResourceSlices, and which of them are taken.

`Offers` says which pools a node sees, and what is in order about them; `Inventory` adds what is taken. Choosing is
`allocation`'s. Source of the behaviour: `k8s.io/dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.quantity import Quantity, parse
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher
from bayplan.scheduler.snapshot.resources import ZERO

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, NodeSelector
    from bayplan.api.types.resource_v1 import Device, ResourceClaim, ResourceSlice

Counters = dict[str, dict[str, Quantity]]
"""Counter set -> counter -> amount."""


class DeviceId(NamedTuple):
    """What names a device in the cluster."""

    driver: str
    pool: str
    device: str


class PoolId(NamedTuple):
    """What names a pool in the cluster."""

    driver: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A device, and the slice that offers it."""

    id: DeviceId
    device: Device
    slice: ResourceSlice


@dataclass(slots=True)
class Pool:
    """A pool as one node sees it."""

    id: PoolId
    offers: list[Offer] = field(default_factory=list)
    """The devices in slices for the node; of those that name nodes one by one, all."""
    counters: Counters = field(default_factory=dict)
    """What devices share."""
    devices: list[Device] = field(default_factory=list)
    """All devices of the generation, on whatever node."""
    is_incomplete: bool = False
    """Slices of the generation are missing: the driver is about to write them."""
    is_invalid: bool = False
    """Two devices have one name, or counters are missing."""
    waits: bool = False
    """Some devices have to be attached to the node first; such pools come last."""


@dataclass(slots=True)
class Usage:
    """What is taken of the devices of a cluster."""

    taken: set[DeviceId] = field(default_factory=set)
    """Devices that belong to somebody alone."""
    shared: set[DeviceId] = field(default_factory=set)
    """Devices of which somebody has a share."""
    consumed: dict[DeviceId, dict[str, Quantity]] = field(default_factory=dict)
    """Capacity name -> amount, of devices with shares that have a size."""


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
            usage.shared.add(device)
            if result.consumed_capacity:
                shares = usage.consumed.setdefault(device, {})
                for name, amount in result.consumed_capacity.items():
                    shares[name] = shares.get(name, ZERO).add(parse(amount))
    return usage


class Offers:
    """All slices, by pool. Built once for as long as no slice changes."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._slices: dict[PoolId, list[ResourceSlice]] = {}
        for item in sorted(slices, key=lambda one: one.metadata.name):
            self._slices.setdefault(PoolId(item.spec.driver, item.spec.pool.name), []).append(item)
        self._matchers: dict[int, NodeAffinityMatcher] = {}
        self._on_node: dict[str, list[PoolId]] = {}
        """Pools with slices for one node."""
        self._spread: dict[PoolId, None] = {}
        """Pools with slices for several nodes, which have to be asked about each."""
        self._views: dict[tuple[PoolId, str], Pool | None] = {}
        """Pools as nodes see them that have slices of their own there, as far as that is all there is to it."""
        for key, items in self._slices.items():
            self._index(key, items)
        self._troubled = [
            pool
            for key, items in self._slices.items()
            if any(item.spec.shared_counters for item in items)
            and (pool := self._view(key, [item for item in items if item.spec.shared_counters])) is not None
            and (pool.is_incomplete or pool.is_invalid)
        ]
        """Pools in disorder whose counters every node sees, devices or not."""

    def _index(self, key: PoolId, items: list[ResourceSlice]) -> None:
        for item in items:
            if item.spec.shared_counters:
                continue
            if not item.spec.node_name:
                self._spread[key] = None
            elif key not in (known := self._on_node.setdefault(item.spec.node_name, [])):
                known.append(key)

    def for_node(self, node: Node) -> list[Pool]:
        """The pools that a node sees, in the order in which devices are tried."""
        name = node.metadata.name
        found: dict[PoolId, Pool] = {pool.id: pool for pool in self._troubled}
        for key in self._on_node.get(name, ()):
            if key not in self._spread:
                if (key, name) not in self._views:
                    self._views[key, name] = self._view(key, self._relevant(key, node))
                self._note(found, key, self._views[key, name])
        for key in self._spread:
            relevant = self._relevant(key, node)
            if relevant:
                self._note(found, key, self._view(key, relevant))
        return sorted(found.values(), key=lambda pool: (pool.waits, pool.id))

    @staticmethod
    def _note(found: dict[PoolId, Pool], key: PoolId, pool: Pool | None) -> None:
        if pool is None:
            found.pop(key, None)
        else:
            found[key] = pool

    def _relevant(self, key: PoolId, node: Node) -> list[ResourceSlice]:
        return [item for item in self._slices[key] if self._is_relevant(item, node)]

    def _is_relevant(self, item: ResourceSlice, node: Node) -> bool:
        spec = item.spec
        if spec.shared_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return self._reaches(node, spec.node_name, spec.node_selector, spec.all_nodes)
        return bool(spec.per_device_node_selection) and any(self.is_for(node, device) for device in spec.devices)

    def is_for(self, node: Node, device: Device) -> bool:
        """Whether a device that names its nodes itself is for a node."""
        return self._reaches(node, device.node_name, device.node_selector, device.all_nodes)

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

    def _view(self, key: PoolId, relevant: list[ResourceSlice]) -> Pool | None:
        """The pool that some slices show; None if it has been replaced by a newer generation."""
        generation = max(item.spec.pool.generation for item in relevant)
        current = [item for item in relevant if item.spec.pool.generation == generation]
        wanted = current[0].spec.pool.resource_slice_count
        everything = current
        if len(current) != wanted:
            every = self._slices[key]
            if any(item.spec.pool.generation > generation for item in every):
                return None
            everything = [item for item in every if item.spec.pool.generation == generation]
            if len(everything) != wanted:
                return Pool(key, is_incomplete=True)
        return _built(key, current, everything)


_NONE: Final[dict[str, Quantity]] = {}


def _built(key: PoolId, current: list[ResourceSlice], everything: list[ResourceSlice]) -> Pool:
    """A complete pool: `current` are the slices that a node sees of `everything`."""
    own = [item for item in current if not item.spec.shared_counters]
    names = [device.name for item in own for device in item.spec.devices]
    sets = [item for one in current for item in one.spec.shared_counters]
    counters = {item.name: {name: parse(one.value) for name, one in item.counters.items()} for item in sets}
    devices = [device for item in everything if not item.spec.shared_counters for device in item.spec.devices]
    consumed = (item for device in devices for item in device.consumes_counters)
    if (
        len(set(names)) < len(names)
        or len(counters) < len(sets)
        or any(not item.counters.keys() <= counters.get(item.counter_set, _NONE).keys() for item in consumed)
    ):
        return Pool(key, is_invalid=True)
    offers = [Offer(DeviceId(*key, device.name), device, item) for item in own for device in item.spec.devices]
    waits = any(offer.device.binding_conditions for offer in offers)
    return Pool(key, offers, counters, devices, waits=waits)


class Inventory:
    """What is offered, and what is taken of it."""

    def __init__(self, offers: Offers, claims: Iterable[ResourceClaim]) -> None:
        self.offers = offers
        self.usage = usage_of(claims)
        self._left: dict[str, Counters] = {}

    def counters_left(self, pool: Pool) -> Counters:
        """What devices in use leave of a pool's counters. As in Kubernetes, pools of one name share what is found first."""
        left = self._left.get(pool.id.name)
        if left is None:
            left = {name: dict(counters) for name, counters in pool.counters.items()}
            for device in pool.devices:
                if self._is_used(DeviceId(*pool.id, device.name)):
                    _subtract(left, device)
            self._left[pool.id.name] = left
        return left

    def _is_used(self, device: DeviceId) -> bool:
        return device in self.usage.taken or device in self.usage.shared


def _subtract(left: Counters, device: Device) -> None:
    for item in device.consumes_counters:
        counters = left.get(item.counter_set, {})
        for name, counter in item.counters.items():
            if name in counters:
                counters[name] = counters[name].sub(parse(counter.value))


def add_counters(used: Counters, device: Device, sign: int) -> None:
    """Count a device's share of the counters in (`sign` 1) or out (-1)."""
    for item in device.consumes_counters:
        counters = used.setdefault(item.counter_set, {})
        for name, counter in item.counters.items():
            known, amount = counters.get(name, ZERO), parse(counter.value)
            counters[name] = known.add(amount) if sign > 0 else known.sub(amount)


def is_within(used: Counters, left: Counters) -> bool:
    """Whether every counter of a pool has as much left as is used."""
    return all(
        amount >= used.get(name, {}).get(counter, ZERO)
        for name, counters in left.items()
        for counter, amount in counters.items()
    )
