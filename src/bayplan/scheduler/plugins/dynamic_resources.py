"""DynamicResources: a pod's resource claims must be allocated, or be allocatable, on its node (KEP-4381).

Devices are allocated on the node as a pod is tried there. Reserve assumes the allocation, so that nobody else gets the
devices; PreBind writes it, and the pod among the claim's users, before the pod is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from bayplan.api.types.resource_v1 import ResourceClaim
from bayplan.scheduler.framework.arguments import DynamicResourcesArgs
from bayplan.scheduler.framework.claims import (
    ClaimWriter,
    extended_uid,
    is_owned,
    is_reserved,
    is_user,
    readiness,
    used_by,
)
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    Actions,
    FilterPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
    default_normalize,
)
from bayplan.scheduler.framework.post_filter import PostFilterContext, PostFilterOutcome
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, PluginError, Reject, Skip, Status
from bayplan.scheduler.snapshot.allocation import (
    AllocationError,
    AllocationTimeout,
    Allocator,
    Solution,
    label,
)
from bayplan.scheduler.snapshot.allocation_result import result_of
from bayplan.scheduler.snapshot.devices import DeviceId, Inventory, Offers
from bayplan.scheduler.snapshot.extended_resources import Needs, claim_for, class_behind, needs_of
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher
from bayplan.scheduler.snapshot.shape import ClaimReference, claim_references

MOST_USERS: Final = 256
MOST_ALTERNATIVES: Final = 8
_REMEMBERED: Final = 1_000_000


@dataclass(slots=True)
class _Claims:
    """A pod's claims, and what was found for those that are not allocated yet."""

    claims: list[ResourceClaim]
    selectors: list[NodeAffinityMatcher | None]
    """Per claim: where its devices are, if it is allocated."""
    pending: list[ResourceClaim] = field(default_factory=list)
    """Those that are not allocated."""
    extended: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Extended resource that devices can provide -> (its column, device class)."""
    allocators: dict[frozenset[str], tuple[Allocator, Needs]] = field(default_factory=dict)
    """By the extended resources that a node has to provide as devices."""
    solutions: dict[int, Solution] = field(default_factory=dict)
    """Row -> what would be allocated there."""
    unavailable: set[int] = field(default_factory=set)
    """Indexes of allocated claims whose devices some node cannot reach."""


@dataclass(slots=True)
class _Reserved:
    """What a pod is about to use: its claims with their new allocations as far as they need one."""

    claims: list[ResourceClaim]
    allocated: dict[int, ResourceClaim] = field(default_factory=dict)
    written: list[ResourceClaim] = field(default_factory=list)
    before: list[ResourceClaim] = field(default_factory=list)
    """Claims as they were before a planner took them to be written."""
    extended: tuple[ResourceClaim, Needs] | None = None
    """The claim for extended resources: allocated, but not created yet."""
    created: ResourceClaim | None = None


class DynamicResources(
    PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, ReservePlugin, PreBindPlugin
):
    """Allocates devices for resource claims."""

    name = "DynamicResources"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    sparse = True
    normalizes = True
    equal_stays_equal = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, DynamicResourcesArgs) else DynamicResourcesArgs()
        self._matches: dict[tuple[str, DeviceId], tuple[Any, bool]] = {}
        self._writer = ClaimWriter(self.name, self.snapshot)
        self._shares = 0
        self._offers: Offers | None = None
        self._offers_version = -1

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        if not pod.pod.spec.resource_claims:
            return None
        found = self._find(pod.shape, pod.pod.metadata.uid)
        return Reject(Status.UNRESOLVABLE, (found,)) if isinstance(found, str) else None

    def _find(self, pod: PodShape, uid: str) -> list[ResourceClaim] | str:
        """The pod's claims, or why it has to wait for them."""
        found: list[ResourceClaim] = []
        for reference in pod.claims:
            if reference.claim is None:
                return f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet'
            if not reference.claim:
                continue
            claim = self.snapshot.catalog.resource_claims.get(f"{pod.namespace}/{reference.claim}")
            if claim is None:
                return f'resourceclaim.resource.k8s.io "{reference.claim}" not found'
            if claim.metadata.deletion_timestamp is not None:
                return f'resourceclaim "{claim.metadata.name}" is being deleted'
            if reference.is_made and not is_owned(claim, uid):
                place = f"{pod.namespace}/{pod.name}"
                return f"ResourceClaim {label(claim)} was not created for Pod {place} (Pod is not owner)"
            found.append(claim)
        return found

    # PreFilter and Filter

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        extended = self._extended(pod)
        if not pod.claims and not extended:
            return SKIP
        found = self._find(pod, pod.uid)
        if isinstance(found, str):
            return Reject(Status.UNRESOLVABLE, (found,))
        if not found and not extended:
            return SKIP
        selectors: list[NodeAffinityMatcher | None] = []
        pending: list[ResourceClaim] = []
        for claim in found:
            allocation = claim.status.allocation
            if allocation is None:
                if claim.metadata.uid in self.snapshot.catalog.pending_allocations:
                    reason = f"resource claim {label(claim)} is in the process of being allocated"
                    return Reject(Status.UNRESOLVABLE, (reason,))
                problem = self._request_problem(claim)
                if problem is not None:
                    return Reject(Status.UNRESOLVABLE, (problem,))
                pending.append(claim)
            elif len(claim.status.reserved_for) >= MOST_USERS and not is_reserved(claim, pod.uid):
                return Reject(Status.UNRESOLVABLE, ("resourceclaim in use",))
            selector = allocation.node_selector if allocation is not None else None
            selectors.append(NodeAffinityMatcher({}, selector) if selector is not None else None)
        state.data[self.name] = _Claims(found, selectors, pending, extended)
        return None

    def _extended(self, pod: PodShape) -> dict[str, tuple[int, str]]:
        """The pod's extended resources that devices can provide."""
        classes, names = self.snapshot.catalog.device_classes, self.snapshot.resources.names
        if not classes:
            return {}
        wanted = [(names[column], column) for column, amount in pod.requests if amount and "/" in names[column]]
        return {name: (column, found) for name, column in wanted if (found := class_behind(name, classes))}

    def _allocator_on(self, claims: _Claims, pod: PodShape, row: int) -> Allocator | None:
        """Who allocates what the pod needs on a node; None if all is allocated or comes from device plugins."""
        allocatable = self.snapshot.allocatable
        missing = frozenset(name for name, (column, _) in claims.extended.items() if not allocatable[column, row])
        if not missing and not claims.pending:
            return None
        known = claims.allocators.get(missing)
        if known is None:
            needs = needs_of(pod.spec, {name: claims.extended[name][1] for name in missing})
            wanted = [*claims.pending, claim_for(pod.namespace, needs)] if missing else claims.pending
            known = claims.allocators[missing] = (self._allocator(wanted), needs)
        return known[0]

    def _stopwatch(self) -> Callable[[], bool] | None:
        """Tells when the search on a node has taken too long; None if it may take as long as it likes."""
        meter, seconds = self.handle.meter, self.args.filter_timeout_seconds
        if meter is None or not seconds:
            return None
        end = meter.now() + seconds
        return lambda: meter.now() >= end

    def _request_problem(self, claim: ResourceClaim) -> str | None:
        classes = self.snapshot.catalog.device_classes
        for request in claim.spec.devices.requests:
            parts = [(request.name, request.exactly.device_class_name)] if request.exactly is not None else []
            parts += [(f"{request.name}/{item.name}", item.device_class_name) for item in request.first_available]
            for name, class_name in parts:
                if class_name not in classes:
                    return f"request {name}: device class {class_name} does not exist"
        return None

    def _allocator(self, claims: list[ResourceClaim]) -> Allocator:
        catalog = self.snapshot.catalog
        if len(self._matches) > _REMEMBERED:
            self._matches.clear()
        allocated = (*catalog.resource_claims.values(), *catalog.pending_allocations.values())
        version = catalog.versions.get("ResourceSlice", 0)
        if self._offers is None or self._offers_version != version:
            self._offers, self._offers_version = Offers(catalog.resource_slices.values()), version
        inventory = Inventory(self._offers, allocated)
        return Allocator(inventory, claims, catalog.device_classes, self._matches)

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        node = self.snapshot.nodes[row]
        if node is None:
            return 0
        claims: _Claims = state.data[self.name]
        labels, name = node.metadata.labels, node.metadata.name
        unavailable = {
            index
            for index, selector in enumerate(claims.selectors)
            if selector is not None and not selector.match_labels(labels, name)
        }
        allocator = self._allocator_on(claims, pod, row)
        if allocator is not None:
            try:
                solution = allocator.allocate(node, self._stopwatch())
            except AllocationTimeout:
                return self.reasons.code(Status.UNRESOLVABLE, self.name, "timed out trying to allocate devices")
            except AllocationError as error:
                raise PluginError(self.name, str(error)) from error
            if solution is None:
                invalid = allocator.meets_invalid_pools(node)
                reason = "invalid resource pools were encountered" if invalid else "cannot allocate all claims"
                return self.reasons.code(Status.UNRESOLVABLE, self.name, reason)
            claims.solutions[row] = solution
        if unavailable:
            claims.unavailable |= unavailable
            return self.reasons.code(Status.UNRESOLVABLE, self.name, "resourceclaim not available on the node")
        return 0

    # PostFilter

    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        """Give up the devices of a claim that nobody uses, if they are what keeps the pod from its nodes."""
        if context.rejected_early and context.rejected_by != self.name:
            return PostFilterOutcome(Status.ERROR, ("not found",))
        claims: _Claims | None = context.state.data.get(self.name)
        if claims is None:
            return PostFilterOutcome(Status.UNSCHEDULABLE, ("no new claims to deallocate",))
        uid = context.pod.uid
        for index in sorted(claims.unavailable):
            claim = claims.claims[index]
            if all(user.uid == uid for user in claim.status.reserved_for):
                status = replace(claim.status, allocation=None, reserved_for=())
                reasons = ("deallocation of ResourceClaim completed",)
                return PostFilterOutcome(Status.UNSCHEDULABLE, reasons, deallocates=(replace(claim, status=status),))
        return PostFilterOutcome(Status.UNSCHEDULABLE, ("still not schedulable",))

    # Score: the better the alternatives that a node can offer, the better the node

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        if state.data.get(self.name) is None:
            return np.zeros(self.snapshot.select(rows), dtype=np.int64)
        answers = [self.score_row(state, pod, row) for row in self.snapshot.rows_of(rows)]
        return np.array(answers, dtype=np.int64)

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        claims: _Claims | None = state.data.get(self.name)
        solution = claims.solutions.get(row) if claims is not None else None
        if claims is None or solution is None:
            return 0
        score = 0
        for claim, choices in zip(claims.pending, solution, strict=False):
            chosen = {choice.wish.name for choice in choices}
            for request in claim.spec.devices.requests:
                for index, item in enumerate(request.first_available):
                    if f"{request.name}/{item.name}" in chosen:
                        score += MOST_ALTERNATIVES - index
        return score

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=False)

    # Reserve and PreBind

    def concerns(self, pod: PodShape) -> bool:
        names = self.snapshot.resources.names
        return bool(pod.claims) or any("/" in names[column] for column, _ in pod.requests)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        claims: _Claims | None = state.data.get(self.name)
        row = self.snapshot.row_of.get(node_name)
        node = self.snapshot.nodes[row] if row is not None else None
        if claims is None or row is None or node is None:
            return None
        reserved = state.own[self.name] = _Reserved(list(claims.claims))
        allocator = self._allocator_on(claims, pod.shape, row)
        if allocator is None:
            return None
        solution = claims.solutions.get(row)
        if solution is None:
            raise PluginError(self.name, "claim allocation not found for node")
        by_uid = {claim.metadata.uid: choices for claim, choices in zip(allocator.claims, solution, strict=True)}
        for index, claim in enumerate(claims.claims):
            choices = by_uid.get(claim.metadata.uid)
            if choices is None:
                continue
            allocation = result_of(claim, choices, node, lambda: self._share_id(pod))
            allocated = replace(claim, status=replace(claim.status, allocation=allocation))
            reserved.allocated[index] = allocated
            self.snapshot.begin_allocation(allocated)
        if len(allocator.claims) > len(claims.pending):
            needs = next(item for one, item in claims.allocators.values() if one is allocator)
            claim = claim_for(pod.shape.namespace, needs, uid=extended_uid(pod))
            allocation = result_of(claim, solution[-1], node, lambda: self._share_id(pod))
            claim = replace(claim, status=replace(claim.status, allocation=allocation))
            reserved.extended = (claim, needs)
            self.snapshot.begin_allocation(claim)
        return None

    def _share_id(self, pod: PodInfo) -> str:
        """A name for a share of a device, unlike any other: made of the pod's UID and a number."""
        self._shares += 1
        return f"{pod.uid[:23]}-{self._shares:012x}"

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is not None:
            for claim in reserved.allocated.values():
                self.snapshot.end_allocation(claim.metadata.uid)
            reserved.allocated.clear()
            for claim in reserved.before:
                self.snapshot.put_object("ResourceClaim", claim)
            reserved.before.clear()
            if reserved.extended is not None:
                self.snapshot.end_allocation(reserved.extended[0].metadata.uid)

    def conclude(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The claims are allocated, and the pod is one of their users; a claim for extended resources is nobody else's business."""
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is None:
            return
        for index, found in enumerate(reserved.claims):
            claim = self.snapshot.catalog.resource_claims.get(label(found), found)
            if not is_user(claim, pod.pod):
                reserved.before.append(claim)
                self.snapshot.end_allocation(claim.metadata.uid)
                self.snapshot.put_object("ResourceClaim", used_by(reserved.allocated.pop(index, claim), pod.pod))

    async def release(self, state: CycleState, pod: PodInfo, actions: Actions) -> None:
        """Take the pod from the users of the claims that were written for it."""
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is not None and reserved.created is not None:
            await self._writer.delete(reserved.created, actions)
        for claim in reserved.written if reserved is not None else ():
            await self._writer.leave(claim, pod.uid, actions)

    def has_work(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        reserved: _Reserved | None = state.own.get(self.name)
        return reserved is not None and (
            reserved.extended is not None or any(not is_reserved(claim, pod.uid) for claim in reserved.claims)
        )

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> Reject | None:
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is None:
            return None
        for index, claim in enumerate(reserved.claims):
            if not is_reserved(claim, pod.uid):
                written = await self._writer.bind(claim, reserved.allocated.get(index), pod.pod, actions)
                reserved.claims[index] = written
                reserved.written.append(written)
                if reserved.allocated.pop(index, None) is not None:
                    self.snapshot.end_allocation(written.metadata.uid)
        if reserved.extended is not None:
            allocated, needs = reserved.extended
            reserved.created = await self._writer.create(pod.pod, needs, actions)
            reserved.created = await self._writer.bind(reserved.created, allocated, pod.pod, actions)
            reserved.claims.append(reserved.created)
            self.snapshot.end_allocation(allocated.metadata.uid)
            await self._writer.tell_pod(pod.pod, reserved.created, needs, actions)
        return await self._wait_for_devices(reserved.claims, actions)

    async def _wait_for_devices(self, claims: list[ResourceClaim], actions: Actions) -> Reject | None:
        """Some devices have to be attached to the node first, as their binding conditions say."""
        keys = [
            label(claim)
            for claim in claims
            if claim.status.allocation is not None
            and any(item.binding_conditions for item in claim.status.allocation.devices.results)
        ]
        if not keys or await actions.wait_until(
            lambda: all(map(self._is_ready, keys)), self.args.binding_timeout_seconds
        ):
            return None
        return Reject(Status.UNSCHEDULABLE, ("device binding timeout",))

    def _is_ready(self, key: str) -> bool:
        """Whether all devices of a claim are ready. Raises PluginError if one failed."""
        claim: ResourceClaim | None = self.snapshot.catalog.actual("ResourceClaim", key)
        if claim is None or claim.status.allocation is None:
            raise PluginError(self.name, f"claim {key} is not allocated any more")
        failed, ready = readiness(claim)
        if failed:
            raise PluginError(self.name, f"claim {key}: device {failed} failed to bind")
        return ready

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        changes = Action.ADD | Action.UPDATE
        return (
            EventHint("ResourceClaim", changes | Action.DELETE, self._claim_helps),
            EventHint("ResourceSlice", changes),
            EventHint("DeviceClass", changes),
            EventHint("Pod", Action.POD_CLAIMS, _is_itself),
        )

    def _claim_helps(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """The pod's own claim changed, or another one gave devices up."""
        if old is not None and old.status.allocation is not None and (new is None or new.status.allocation is None):
            return True
        claim = new if new is not None else old
        references: tuple[ClaimReference, ...] = claim_references(pod.pod)
        return claim.metadata.namespace == pod.shape.namespace and any(
            item.claim == claim.metadata.name for item in references
        )


def _is_itself(pod: PodInfo, old: Any, new: Any) -> bool:
    return bool(new.metadata.uid == pod.uid)
