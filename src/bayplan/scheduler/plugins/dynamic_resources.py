"""DynamicResources: a pod's resource claims must be allocated, or be allocatable, on its node (KEP-4381).

Devices are allocated on the node as a pod is tried there (`framework.device_search`). Reserve assumes the allocation, so that nobody else gets the
devices; PreBind writes it, and the pod among the claim's users, before the pod is bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from bayplan.scheduler.framework.arguments import DynamicResourcesArgs
from bayplan.scheduler.framework.claims import (
    ClaimWriter,
    allocated_requests,
    awaited_drivers,
    extended_uid,
    is_user,
    other_users,
    readiness,
    used_by,
)
from bayplan.scheduler.framework.device_search import DeviceSearch, PodClaims
from bayplan.scheduler.framework.events import Action, EventHint, is_itself
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
from bayplan.scheduler.snapshot.allocation import AllocationError, AllocationTimeout, Choice, label
from bayplan.scheduler.snapshot.allocation_result import result_of
from bayplan.scheduler.snapshot.extended_resources import Needs, claim_for
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.pending_allocations import PendingAllocation, identity
from bayplan.scheduler.snapshot.shape import ClaimReference, claim_references

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from bayplan.api.types.core_v1 import Node
    from bayplan.api.types.resource_v1 import ResourceClaim

MOST_ALTERNATIVES: Final = 8


@dataclass(slots=True)
class _Reserved:
    """What a pod is about to use: its claims with their new allocations as far as they need one."""

    claims: list[ResourceClaim]
    allocated: dict[int, PendingAllocation] = field(default_factory=dict)
    written: list[ResourceClaim] = field(default_factory=list)
    before: list[ResourceClaim] = field(default_factory=list)
    """Claims as they were before a planner took them to be written."""
    extended: tuple[PendingAllocation, Needs] | None = None
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
    filter_alone = score_alone = "not found"
    score_prepared_at = "preFilter"
    normalizes = True
    equal_stays_equal = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, DynamicResourcesArgs) else DynamicResourcesArgs()
        self._search = DeviceSearch(self.args, handle)
        self._writer = ClaimWriter(self.name, self.snapshot)
        self._shares = 0

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        if not pod.pod.spec.resource_claims:
            return None
        found = self._search.find(pod.shape, pod.uid)
        return Reject(Status.UNRESOLVABLE, (found,)) if isinstance(found, str) else None

    # PreFilter and Filter

    def reads(self, pod: PodShape) -> Hashable | None:
        return None if pod.claims or self.snapshot.catalog.device_classes else ()

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        state.data[self.name] = None
        wanted = self._search.wanted(pod)
        if wanted is None:
            return SKIP
        if isinstance(wanted, str):
            return Reject(Status.UNRESOLVABLE, (wanted,))
        state.data[self.name] = wanted
        return None

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        node = self.snapshot.nodes[row]
        if node is None:
            return 0
        claims: PodClaims = state.data[self.name]
        labels, name = node.metadata.labels, node.metadata.name
        if not all(resource in node.status.allocatable for resource in claims.foreign):
            return self.reasons.code(Status.UNRESOLVABLE, self.name, "cannot fit resource")
        unavailable = {
            index
            for index, selector in enumerate(claims.selectors)
            if index in claims.stuck or (selector is not None and not selector.match_labels(labels, name))
        }
        allocator = self._search.allocator_on(claims, pod, row)
        if allocator is not None:
            try:
                solution = allocator.allocate(node, self._search.stopwatch())
            except AllocationTimeout:
                return self.failed(f"node {name}: timed out trying to allocate devices")
            except AllocationError as error:
                return self.failed(str(error))
            if solution is None:
                invalid = allocator.meets_invalid_pools(node)
                reason = "invalid resource pools were encountered" if invalid else "cannot allocate all claims"
                return self.reasons.code(Status.UNRESOLVABLE, self.name, reason)
            claims.solutions[row] = solution
        if unavailable:
            claims.unavailable[row] = unavailable
            return self._unavailable()
        return 0

    def _unavailable(self) -> int:
        return self.reasons.code(Status.UNRESOLVABLE, self.name, "resourceclaim not available on the node")

    # PostFilter

    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        """Give up the devices of a claim that nobody uses, if they are what keeps the pod from its nodes."""
        if self.name not in context.state.data:  # PreFilter did not get as far as this plugin.
            return PostFilterOutcome(Status.ERROR, ("not found",))
        claims: PodClaims | None = context.state.data[self.name]
        if claims is None:
            return PostFilterOutcome(Status.UNSCHEDULABLE, ("no new claims to deallocate",))
        name, uid = context.pod.pod.metadata.name, context.pod.uid
        rows = np.flatnonzero(context.codes == self._unavailable()).tolist()
        unavailable = set().union(*(claims.unavailable[row] for row in rows))
        for index in sorted(unavailable - claims.shared):
            claim = claims.claims[index]
            if not other_users(claim, name, uid):
                status = replace(claim.status, allocation=None, reserved_for=(), devices=())
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
        claims: PodClaims | None = state.data.get(self.name)
        solution = claims.solutions.get(row) if claims is not None else None
        if claims is None or solution is None:
            return 0
        chosen = iter([{choice.wish.name for choice in choices} for choices in solution])
        return sum(
            _quality(claim, set(allocated_requests(claim)) if claim.status.allocation is not None else next(chosen))
            for claim in claims.claims
        )

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=False)

    # Reserve and PreBind

    def concerns(self, pod: PodShape) -> bool:
        names = self.snapshot.resources.names
        return bool(pod.claims) or any("/" in names[column] for column, _ in pod.requests)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        claims: PodClaims | None = state.data.get(self.name)
        row = self.snapshot.row_of.get(node_name)
        node = self.snapshot.nodes[row] if row is not None else None
        if claims is None or row is None or node is None:
            return None
        reserved = state.own[self.name] = _Reserved(list(claims.claims))
        for index in claims.shared:
            reserved.allocated[index] = self.snapshot.join_allocation(claims.claims[index], pod.key)
        allocator = self._search.allocator_on(claims, pod.shape, row)
        if allocator is None:
            return None
        solution = claims.solutions.get(row)
        if solution is None:
            raise PluginError(self.name, "claim allocation not found for node")
        chosen = {identity(claim): choices for claim, choices in zip(allocator.claims, solution, strict=True)}
        for index, claim in enumerate(claims.claims):
            choices = chosen.get(identity(claim))
            if choices is not None:
                reserved.allocated[index] = self._begin(claim, choices, node, pod)
        if len(allocator.claims) > len(claims.pending):
            needs = next(item for one, item in claims.allocators.values() if one is allocator)
            claim = claim_for(pod.shape.namespace, needs, uid=extended_uid(pod))
            reserved.extended = (self._begin(claim, solution[-1], node, pod), needs)
        return None

    def _begin(self, claim: ResourceClaim, choices: list[Choice], node: Node, pod: PodInfo) -> PendingAllocation:
        """Give the claim the chosen devices, which nobody else may have from now on."""
        allocation = result_of(claim, choices, node, lambda: self._share_id(pod))
        allocated = replace(claim, status=replace(claim.status, allocation=allocation))
        return self.snapshot.begin_allocation(allocated, pod.key)

    def _share_id(self, pod: PodInfo) -> str:
        """A name for a share of a device, unlike any other: made of the pod's UID and a number."""
        self._shares += 1
        return f"{pod.uid[:23]}-{self._shares:012x}"

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is not None:
            for pending in reserved.allocated.values():
                self.snapshot.leave_allocation(identity(pending.claim), pod.key)
            reserved.allocated.clear()
            for claim in reserved.before:
                self.snapshot.put_object("ResourceClaim", claim)
            reserved.before.clear()
            if reserved.extended is not None:
                self.snapshot.end_allocation(identity(reserved.extended[0].claim))

    def conclude(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The claims are allocated, and the pod is one of their users; a claim for extended resources is nobody else's business."""
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is None:
            return
        for index, found in enumerate(reserved.claims):
            claim = self.snapshot.catalog.resource_claims.get(label(found), found)
            if not self._uses(claim, pod):
                reserved.before.append(claim)
                self.snapshot.end_allocation(identity(claim))
                pending = reserved.allocated.pop(index, None)
                # Another pod that shares the claim may have concluded before.
                current = pending.claim if pending is not None and claim.status.allocation is None else claim
                self.snapshot.put_object("ResourceClaim", used_by(current, pod.pod))

    def _uses(self, claim: ResourceClaim, pod: PodInfo) -> bool:
        return is_user(claim, pod.pod.metadata.name, pod.uid)

    async def release(self, state: CycleState, pod: PodInfo, actions: Actions) -> None:
        """Take the pod from the users of the claims that were written for it."""
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is None:
            return
        if reserved.created is not None:
            await self._writer.delete(reserved.created, actions)
        for claim in reserved.written:
            await self._writer.leave(claim, pod.pod, actions)

    def has_work(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        reserved: _Reserved | None = state.own.get(self.name)
        return reserved is not None and (
            reserved.extended is not None or not all(self._uses(claim, pod) for claim in reserved.claims)
        )

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> Reject | None:
        reserved: _Reserved | None = state.own.get(self.name)
        if reserved is None:
            return None
        for index, claim in enumerate(reserved.claims):
            if not self._uses(claim, pod):
                written = await self._writer.bind(claim, reserved.allocated.get(index), pod.pod, actions)
                reserved.claims[index] = written
                reserved.written.append(written)
                if reserved.allocated.pop(index, None) is not None:
                    self.snapshot.end_allocation(identity(written))
        if reserved.extended is not None:
            pending, needs = reserved.extended
            reserved.created = await self._writer.create(pod.pod, needs, actions)
            reserved.created = await self._writer.bind(reserved.created, pending, pod.pod, actions)
            reserved.claims.append(reserved.created)
            self.snapshot.end_allocation(identity(pending.claim))
            await self._writer.tell_pod(pod.pod, reserved.created, needs, actions)
        await self._wait_for_devices(reserved.claims, actions)
        return None

    async def _wait_for_devices(self, claims: list[ResourceClaim], actions: Actions) -> None:
        """Some devices have to be attached to the node first, as their binding conditions say. Raises PluginError."""
        drivers = {label(claim): found for claim in claims if (found := awaited_drivers(claim))}
        if not drivers:
            return
        started = self.handle.meter.now() if self.handle.meter is not None else 0.0
        try:
            ready = await actions.wait_until(
                lambda: all(map(self._is_ready, drivers)), self.args.binding_timeout_seconds
            )
        except PluginError:
            self._count_wait(drivers, "failure", started)
            raise
        self._count_wait(drivers, "success" if ready else "timeout", started)
        if not ready:
            raise PluginError(self.name, "device binding timeout: context deadline exceeded")

    def _count_wait(self, drivers: Mapping[str, set[str]], status: str, started: float) -> None:
        meter = self.handle.meter
        if meter is None:
            return
        for driver in sorted(set().union(*drivers.values())):
            meter.devices_awaited(self.handle.name, driver, status, meter.now() - started)

    def _is_ready(self, key: str) -> bool:
        """Whether all devices of a claim are ready. Raises PluginError if one failed."""
        claim: ResourceClaim | None = self.snapshot.catalog.actual("ResourceClaim", key)
        if claim is None or claim.status.allocation is None:
            raise PluginError(self.name, f"claim {key} is not allocated any more")
        failed, ready = readiness(claim)
        if failed:
            raise PluginError(self.name, f"device binding failed: {failed}")
        return ready

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        changes = Action.ADD | Action.UPDATE
        return (
            EventHint("ResourceClaim", changes | Action.DELETE, self._claim_helps),
            EventHint("ResourceSlice", changes),
            EventHint("DeviceClass", changes),
            EventHint("DeviceTaintRule", changes | Action.DELETE),
            EventHint("Pod", Action.POD_CLAIMS, is_itself),
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


def _quality(claim: ResourceClaim, chosen: set[str]) -> int:
    """The better the alternatives that were chosen for a claim's requests, the more."""
    return sum(
        MOST_ALTERNATIVES - index
        for request in claim.spec.devices.requests
        for index, item in enumerate(request.first_available)
        if f"{request.name}/{item.name}" in chosen
    )
