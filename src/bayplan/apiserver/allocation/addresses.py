"""Cluster IPs: addresses of the cluster's ranges, each held by an IPAddress object of its name.

The objects are the truth: an address is taken by creating its object, which the store lets only one server do. The ranges are those of the flag
and those of the ServiceCIDR objects that are ready. Source: KEP-1880.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import msgspec

from bayplan.api.kinds import Kind, KindTable
from bayplan.api.types import core_v1, meta_v1, networking_v1
from bayplan.apiserver.allocation.errors import Full, OutOfRange, Taken
from bayplan.apiserver.allocation.families import family_of
from bayplan.apiserver.objects import ObjectStore
from bayplan.store.errors import Conflict
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import parse_rfc3339, rfc3339

FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGED_BY_LABEL = "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"
_FIELDS = (
    b'{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},'
    b'"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}'
)
"""Fields of an IPAddress that the server manages: all that it writes."""
_LARGEST = 1 << 62
"""Addresses of a range that are given out at most."""
_ORPHAN_SECONDS = 60.0
"""An address without its service may belong to one that another server is just writing; after this time it does not."""


class AddressRange:
    """One CIDR. The first addresses are kept for services that ask for them, as long as others are free."""

    def __init__(self, cidr: str) -> None:
        self.network = ipaddress.ip_network(cidr)
        self.family = f"IPv{self.network.version}"
        size = self.network.num_addresses - (2 if self.network.version == 4 else 1)
        self._size = min(size, _LARGEST)
        total = self.network.num_addresses
        self._kept = 0 if total <= 16 else min(max(16, total // 16), 256)

    @property
    def first(self) -> str:
        """The first address that is given out."""
        return str(self.network[1])

    def contains(self, address: str) -> bool:
        """Whether the address lies in the network."""
        return ipaddress.ip_address(address) in self.network

    def gives(self, address: str) -> bool:
        """Whether the address is one that is given out: not that of the network, nor the broadcast address."""
        offset = int(ipaddress.ip_address(address)) - int(self.network.network_address)
        return 1 <= offset <= self._size

    def candidates(self, randomness: Randomness) -> Iterable[str]:
        """All addresses, from a random one on, the kept ones last."""
        for low, span in ((1 + self._kept, self._size - self._kept), (1, self._kept)):
            if span <= 0:
                continue
            start = int(randomness.random() * span)
            for step in range(span):
                yield str(self.network[low + (start + step) % span])


class ServiceAddresses:
    """The cluster IPs of one server."""

    def __init__(
        self, cidrs: Iterable[str], objects: ObjectStore, kinds: KindTable, clock: Clock, randomness: Randomness
    ) -> None:
        self.ranges = tuple(AddressRange(cidr) for cidr in cidrs)
        """Those of the flag, that of the default family first."""
        self.families = tuple(one.family for one in self.ranges)
        self._objects, self._clock, self._randomness = objects, clock, randomness
        self._kind = _kind(kinds, "IPAddress")
        self._cidrs = objects.cache(_kind(kinds, "ServiceCIDR"))
        self._pending: set[str] = set()
        """Addresses whose objects are being written."""
        self._further: tuple[AddressRange, ...] = ()
        self._seen = -1

    def _all(self, family: str) -> list[AddressRange]:
        """The ranges of a family, those of the flag first."""
        if self._cidrs.revision != self._seen:
            self._seen = self._cidrs.revision
            self._further = tuple(self._ready())
        return [one for one in (*self.ranges, *self._further) if one.family == family]

    def _ready(self) -> Iterable[AddressRange]:
        own = {str(one.network) for one in self.ranges}
        for entry in self._cidrs.ordered():
            found: networking_v1.ServiceCIDR = self._cidrs.shared(entry)
            conditions = {one.type: one.status for one in found.status.conditions}
            if found.metadata.deletion_timestamp is None and conditions.get("Ready") == "True":
                yield from (AddressRange(cidr) for cidr in found.spec.cidrs if cidr not in own)

    def check(self, address: str, *, dry_run: bool) -> None:
        """Raises OutOfRange for an address that is not given out. dry_run: nothing is written; kube-apiserver asks some range then, not that of the address."""
        ranges = self._all(family_of(address))
        within = [one for one in ranges if one.contains(address)] or (ranges if dry_run else [])
        if not within:
            raise OutOfRange("the provided network does not match the current range")
        if not any(one.gives(address) for one in within):
            valid = within[0].network
            raise OutOfRange(
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {valid}"
            )

    def _is_taken(self, address: str) -> bool:
        return address in self._pending or self._objects.cache(self._kind).get("", address) is not None

    async def take(self, address: str, service: core_v1.Service, *, dry_run: bool) -> None:
        """Take a certain address; if nothing is written, one that somebody has is as good as any. Raises OutOfRange, Taken."""
        address = str(ipaddress.ip_address(address))
        self.check(address, dry_run=dry_run)
        if not dry_run and (self._is_taken(address) or not await self._write(address, service)):
            raise Taken("provided IP is already allocated")

    async def take_any(self, family: str, service: core_v1.Service, *, dry_run: bool) -> str:
        """Take a free address; one that stands for any if nothing is written. Raises Full."""
        if dry_run:
            for one in self._all(family):
                return str(one.network.network_address)
        for one in self._all(family):
            for address in one.candidates(self._randomness):
                if not self._is_taken(address) and (dry_run or await self._write(address, service)):
                    return address
        raise Full

    async def _write(self, address: str, service: core_v1.Service) -> bool:
        """Create the object of an address; False if somebody else did."""
        self._pending.add(address)
        try:
            await self._objects.insert(self._kind, self._object(address, service))
        except Conflict as race:
            await self._objects.settle(race)
            return False
        finally:
            self._pending.discard(address)
        return True

    def _object(self, address: str, service: core_v1.Service) -> networking_v1.IPAddress:
        now = rfc3339(self._clock.now())
        metadata = meta_v1.ObjectMeta(
            name=address,
            uid=self._randomness.uuid4(),
            creation_timestamp=now,
            labels={FAMILY_LABEL: family_of(address), MANAGED_BY_LABEL: MANAGER},
            managed_fields=(self._managed(now),),
        )
        parent = networking_v1.ParentReference(
            resource="services", namespace=service.metadata.namespace, name=service.metadata.name
        )
        return networking_v1.IPAddress(metadata=metadata, spec=networking_v1.IPAddressSpec(parent_ref=parent))

    @staticmethod
    def _managed(now: str) -> meta_v1.ManagedFieldsEntry:
        return meta_v1.ManagedFieldsEntry(
            manager="kube-apiserver",
            operation="Update",
            api_version="networking.k8s.io/v1",
            time=now,
            fields_type="FieldsV1",
            fields_v1=msgspec.Raw(_FIELDS),
        )

    async def release(self, address: str) -> None:
        """Give an address back; nothing happens if it was not taken."""
        cache = self._objects.cache(self._kind)
        while (entry := cache.get("", address)) is not None:
            try:
                await self._objects.remove(self._kind, entry)
            except Conflict as race:
                await self._objects.settle(race)

    async def repair(self, services: Iterable[core_v1.Service]) -> None:
        """At start: give services the objects that they lack, and take away those of services that are gone."""
        wanted = {
            str(ipaddress.ip_address(address)): service
            for service in services
            if service.spec.type != "ExternalName"
            for address in service.spec.cluster_ips
            if address != "None"
        }
        cache = self._objects.cache(self._kind)
        for address, service in wanted.items():
            if cache.get("", address) is None:
                await self._write(address, service)
        now = self._clock.now()
        for entry in list(cache.all()):
            if entry.name in wanted or entry.labels.get(MANAGED_BY_LABEL) != MANAGER:
                continue
            made = cache.shared(entry).metadata.creation_timestamp
            if made is None or now - parse_rfc3339(made) > _ORPHAN_SECONDS:
                await self.release(entry.name)


def _kind(kinds: KindTable, name: str) -> Kind:
    found = kinds.of_kind("networking.k8s.io/v1", name)
    if found is None:
        raise LookupError(f"the table of kinds has no {name}")
    return found
