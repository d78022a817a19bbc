"""What a pod's resource claims ask for, and what could be allocated for them on a node (KEP-4381).

DynamicResources asks here while it filters; what it does with the answers, from Reserve on, is its own. A claim that has
been allocated for another pod of the same gang in the same cycle counts as allocated; any other claim that is being
allocated is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.device_taints import slices_with_rules
from bayplan.scheduler.framework.arguments import DynamicResourcesArgs
from bayplan.scheduler.framework.claims import is_overdue, readiness
from bayplan.scheduler.framework.state import Handle, PodShape
from bayplan.scheduler.snapshot.allocation import Allocator, Solution, label
from bayplan.scheduler.snapshot.catalog import is_controlled_by
from bayplan.scheduler.snapshot.devices import DeviceId, Inventory, Offers
from bayplan.scheduler.snapshot.extended_resources import (
    Needs,
    can_be_devices,
    claim_for,
    class_behind,
    needs_of,
)
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher
from bayplan.scheduler.snapshot.pending_allocations import identity

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import ResourceClaim

_REMEMBERED: Final = 1_000_000


@dataclass(slots=True)
class PodClaims:
    """A pod's claims, and what was found for those that are not allocated yet."""

    claims: list[ResourceClaim] = field(default_factory=list)
    selectors: list[NodeAffinityMatcher | None] = field(default_factory=list)
    """Per claim: where its devices are, if it is allocated."""
    pending: list[ResourceClaim] = field(default_factory=list)
    """Those that are not allocated."""
    shared: set[int] = field(default_factory=set)
    """Indexes of claims that have been allocated for another pod of the gang just now."""
    extended: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Extended resource that devices can provide -> (its column, device class)."""
    allocators: dict[frozenset[str], tuple[Allocator, Needs]] = field(default_factory=dict)
    """By the extended resources that a node has to provide as devices."""
    solutions: dict[int, Solution] = field(default_factory=dict)
    """Row -> what would be allocated there."""
    unavailable: dict[int, set[int]] = field(default_factory=dict)
    """Row -> indexes of allocated claims whose devices are of no use there."""
    stuck: set[int] = field(default_factory=set)
    """Indexes of allocated claims with a device that failed to get ready, or took too long: of no use anywhere."""
    foreign: tuple[str, ...] = ()
    """Extended resources that no device can provide, if devices provide others."""


class DeviceSearch:
    """Over one snapshot, for one profile."""

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._snapshot = handle.snapshot
        self._matches: dict[tuple[str, DeviceId], tuple[Any, bool]] = {}
        """Which devices match which expressions."""
        self._offers: Offers | None = None
        self._offers_version = (-1, -1)
        """Of the slices, and of the rules that taint devices."""

    def find(self, pod: PodShape, uid: str) -> list[ResourceClaim] | str:
        """The pod's claims, or why it has to wait for them."""
        found: list[ResourceClaim] = []
        for reference in pod.claims:
            if reference.claim is None:
                return f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet'
            if not reference.claim:
                continue
            claim = self._snapshot.catalog.resource_claims.get(f"{pod.namespace}/{reference.claim}")
            if claim is None:
                return f'could not find ResourceClaim "{pod.namespace}/{reference.claim}"'
            if claim.metadata.deletion_timestamp is not None:
                return f'resourceclaim "{claim.metadata.name}" is being deleted'
            if reference.is_made and not is_controlled_by(claim, uid):
                place = f"{pod.namespace}/{pod.name}"
                return f"ResourceClaim {label(claim)} was not created for Pod {place} (Pod is not owner)"
            found.append(claim)
        return found

    def wanted(self, pod: PodShape) -> PodClaims | str | None:
        """What a pod asks for: None if that is nothing, a reason if no node can help it at the moment."""
        extended = self._extended(pod)
        if not pod.claims and not extended:
            return None
        found = self.find(pod, pod.uid)
        if isinstance(found, str):
            return found
        if not found and not extended:
            return None
        wanted = PodClaims(extended=extended, foreign=self._foreign(pod, extended))
        for claim in found:
            problem = self._sort_in(claim, pod, wanted)
            if problem is not None:
                return problem
        return wanted

    def _sort_in(self, claim: ResourceClaim, pod: PodShape, wanted: PodClaims) -> str | None:
        """Take a claim in; returns why the pod has to wait for it, if it has."""
        being_allocated = self._snapshot.catalog.pending_allocations
        index = len(wanted.claims)
        if claim.status.allocation is None:
            shared = being_allocated.shared(claim)
            if shared is not None:
                wanted.shared.add(index)
                claim = shared
            elif identity(claim) in being_allocated:
                return f"resource claim {label(claim)} is in the process of being allocated"
        allocation = claim.status.allocation
        if allocation is None:
            problem = self._request_problem(claim)
            if problem is not None:
                return problem
            wanted.pending.append(claim)
        elif index not in wanted.shared and self._is_stuck(claim):
            wanted.stuck.add(index)
        wanted.claims.append(claim)
        selector = allocation.node_selector if allocation is not None else None
        wanted.selectors.append(NodeAffinityMatcher({}, selector) if selector is not None else None)
        return None

    def _is_stuck(self, claim: ResourceClaim) -> bool:
        """Whether a device that has to get ready before the pod is bound failed to, or did not in time."""
        failed, ready = readiness(claim)
        meter = self._handle.meter
        overdue = (
            meter is not None and not ready and is_overdue(claim, self._args.binding_timeout_seconds, meter.wall_time())
        )
        return bool(failed) or overdue

    def _extended(self, pod: PodShape) -> dict[str, tuple[int, str]]:
        """The pod's extended resources that devices can provide."""
        classes, names = self._snapshot.catalog.device_classes, self._snapshot.resources.names
        if not classes:
            return {}
        wanted = [(names[column], column) for column, amount in pod.requests if amount and "/" in names[column]]
        return {name: (column, found) for name, column in wanted if (found := class_behind(name, classes))}

    def _foreign(self, pod: PodShape, extended: Collection[str]) -> tuple[str, ...]:
        """Where devices have to provide a resource, the pod's others that none can."""
        names = [self._snapshot.resources.names[column] for column, _ in pod.requests] if extended else []
        return tuple(name for name in names if can_be_devices(name) and name not in extended)

    def _request_problem(self, claim: ResourceClaim) -> str | None:
        classes = self._snapshot.catalog.device_classes
        for request in claim.spec.devices.requests:
            parts = [(request.name, request.exactly.device_class_name)] if request.exactly is not None else []
            parts += [(f"{request.name}/{item.name}", item.device_class_name) for item in request.first_available]
            for name, class_name in parts:
                if class_name not in classes:
                    return f"request {name}: device class {class_name} does not exist"
        return None

    def allocator_on(self, wanted: PodClaims, pod: PodShape, row: int) -> Allocator | None:
        """Who allocates what the pod needs on a node; None if all is allocated or comes from device plugins."""
        allocatable = self._snapshot.allocatable
        missing = frozenset(name for name, (column, _) in wanted.extended.items() if not allocatable[column, row])
        if not missing and not wanted.pending:
            return None
        known = wanted.allocators.get(missing)
        if known is None:
            needs = needs_of(pod.spec, {name: wanted.extended[name][1] for name in missing})
            claims = [*wanted.pending, claim_for(pod.namespace, needs)] if missing else wanted.pending
            known = wanted.allocators[missing] = (self._allocator(claims), needs)
        return known[0]

    def stopwatch(self) -> Callable[[], bool] | None:
        """Tells when the search on a node has taken too long; None if it may take as long as it likes."""
        meter = self._handle.meter
        if meter is None or not self._args.filter_timeout_seconds:
            return None
        end = meter.now() + self._args.filter_timeout_seconds
        return lambda: meter.now() >= end

    def _allocator(self, claims: list[ResourceClaim]) -> Allocator:
        catalog = self._snapshot.catalog
        if len(self._matches) > _REMEMBERED:
            self._matches.clear()
        allocated = (*catalog.resource_claims.values(), *catalog.pending_allocations.values())
        version = (catalog.versions.get("ResourceSlice", 0), catalog.versions.get("DeviceTaintRule", 0))
        if self._offers is None or self._offers_version != version:
            slices = slices_with_rules(catalog.resource_slices.values(), list(catalog.device_taint_rules.values()))
            self._offers, self._offers_version = Offers(slices), version
        inventory = Inventory(self._offers, allocated)
        return Allocator(inventory, claims, catalog.device_classes, self._matches)
