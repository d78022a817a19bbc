"""Writing resource claims: allocation and users before a pod is bound, and taking both back.

A claim's status is written with the version it was read at; if somebody else was faster, it is read and written again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from bayplan.api.errors import quoted
from bayplan.api.types.core_v1 import PodExtendedResourceClaimStatus
from bayplan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.verdicts import ActionError, PluginError
from bayplan.scheduler.snapshot.allocation import label
from bayplan.scheduler.snapshot.catalog import is_older
from bayplan.scheduler.snapshot.extended_resources import Needs, claim_of, left_over
from bayplan.scheduler.snapshot.pending_allocations import PendingAllocation
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.support.timestamps import parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from asyncio import Lock

    from bayplan.api.types.core_v1 import Pod

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_ATTEMPTS: Final = 5


def used_by(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim with the pod as one more user."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    return replace(claim, status=replace(claim.status, reserved_for=(*claim.status.reserved_for, user)))


def other_users(claim: ResourceClaim, name: str, uid: str) -> tuple[ResourceClaimConsumerReference, ...]:
    """The claim's users without one pod. Pods are told apart by UID; those that no API server has seen, by name."""
    return tuple(
        user
        for user in claim.status.reserved_for
        if user.uid != uid or (not uid and (user.resource, user.name) != ("pods", name))
    )


def is_user(claim: ResourceClaim, name: str, uid: str) -> bool:
    """Whether a pod is among the claim's users; see `other_users`."""
    return len(other_users(claim, name, uid)) < len(claim.status.reserved_for)


def awaited_drivers(claim: ResourceClaim) -> set[str]:
    """The drivers that have to say that their devices are ready before a pod with this claim is bound."""
    allocation = claim.status.allocation
    return {item.driver for item in allocation.devices.results if item.binding_conditions} if allocation else set()


def allocated_requests(claim: ResourceClaim) -> list[str]:
    """The requests, or alternatives of requests, for which a claim has devices."""
    allocation = claim.status.allocation
    return [item.request for item in allocation.devices.results] if allocation is not None else []


def readiness(claim: ResourceClaim) -> tuple[str, bool]:
    """How a device of an allocated claim failed, if one did, and whether all are ready, as their binding conditions say.

    Devices are looked at in order, up to the first that is not ready.
    """
    devices = {(item.driver, item.pool, item.device): item for item in claim.status.devices}
    for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
        if not result.binding_conditions:
            continue
        device = devices.get((result.driver, result.pool, result.device))
        if device is None:
            return "", False
        true = {item.type: item for item in device.conditions if item.status == "True"}
        failed = next((true[name] for name in result.binding_failure_conditions if name in true), None)
        if failed is not None:
            return f"claim={claim.metadata.name}, reason={failed.reason}, message={quoted(failed.message)}", False
        if not true.keys() >= set(result.binding_conditions):
            return "", False
    return "", True


def is_overdue(claim: ResourceClaim, seconds: float, now: float) -> bool:
    """Whether devices that have to get ready had `seconds` for it since they were allocated; `now`: since the epoch."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not awaited_drivers(claim):
        return False
    return parse_rfc3339(allocation.allocation_timestamp) + seconds < now


def forget_user(snapshot: Snapshot, pod: PodInfo) -> None:
    """Where no controller runs: a pod that is gone uses its claims no more, and a claim that nobody uses is allocated no more."""
    name, uid = pod.pod.metadata.name, pod.uid
    for reference in pod.shape.claims:
        claim = snapshot.catalog.resource_claims.get(f"{pod.shape.namespace}/{reference.claim}")
        if claim is not None and is_user(claim, name, uid):
            users = other_users(claim, name, uid)
            allocation = claim.status.allocation if users else None
            status = replace(claim.status, reserved_for=users, allocation=allocation)
            snapshot.put_object("ResourceClaim", replace(claim, status=status))
    snapshot.end_allocation(extended_uid(pod))


def extended_uid(pod: PodInfo) -> str:
    """The identity under which a pod's extended resources are allocated before there is a claim for them."""
    return f"{pod.uid or pod.key}/extended-resources"


def same_devices(one: ResourceClaim, other: ResourceClaim) -> bool:
    """Whether two states of a claim have the same devices allocated for the same requests."""
    return _devices(one) == _devices(other)


def _devices(claim: ResourceClaim) -> list[tuple[str | None, ...]]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [(item.request, item.driver, item.pool, item.device, item.share_id) for item in results]


def _stamped(claim: ResourceClaim, actions: Actions) -> ResourceClaim:
    """The claim with the time of its allocation, which is now if it has none."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is not None:
        return claim
    allocation = replace(allocation, allocation_timestamp=rfc3339(actions.now()))
    return replace(claim, status=replace(claim.status, allocation=allocation))


class ClaimWriter:
    """Writes for one plugin, in whose name it raises PluginError. All methods raise ActionError as well.

    Pods that share a claim write it one after the other, each what the one before has left.
    """

    def __init__(self, plugin: str, snapshot: Snapshot) -> None:
        self._plugin = plugin
        self._snapshot = snapshot
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    async def bind(
        self, claim: ResourceClaim, pending: PendingAllocation | None, pod: Pod, actions: Actions
    ) -> ResourceClaim:
        """Write the allocation (None: the claim has one already) and the pod as a user.

        A pod with which this one shares the allocation may have written it.
        """

        async def write(current: ResourceClaim) -> ResourceClaim:
            self._check(current, claim.metadata.uid, pending)
            return await self._write(current, pending, pod, actions)

        return await self._in_turn(claim, actions, write)

    async def leave(self, claim: ResourceClaim, pod: Pod, actions: Actions) -> None:
        """Take a pod from the users of a claim."""
        name, uid = pod.metadata.name, pod.metadata.uid

        async def write(current: ResourceClaim) -> ResourceClaim:
            if current.metadata.uid != claim.metadata.uid or not is_user(current, name, uid):
                return current
            status = replace(current.status, reserved_for=other_users(current, name, uid))
            return await self._update_status(replace(current, status=status), actions)

        await self._in_turn(claim, actions, write)

    async def _in_turn(
        self, claim: ResourceClaim, actions: Actions, write: Callable[[ResourceClaim], Awaitable[ResourceClaim]]
    ) -> ResourceClaim:
        """Write a claim as it is known now; if somebody else was faster, once more as it has become."""
        from asyncio import Lock  # slow to import, and seldom needed

        metadata = claim.metadata
        async with self._turns.setdefault(label(claim), Lock()):
            known = self._snapshot.catalog.actual("ResourceClaim", label(claim))
            current = claim if known is None or is_older(known, claim) else known
            for attempt in range(_ATTEMPTS):
                try:
                    return await write(current)
                except ActionError as error:
                    if error.code != 409 or attempt == _ATTEMPTS - 1:
                        raise
                current = await actions.get(ResourceClaim, metadata.name, metadata.namespace)
        raise AssertionError("the last attempt returns or raises")

    def _check(self, claim: ResourceClaim, uid: str, pending: PendingAllocation | None) -> None:
        is_allocated = claim.status.allocation is not None
        is_ours = pending is not None and pending.is_written and same_devices(claim, pending.claim)
        problem = ""
        if claim.metadata.deletion_timestamp is not None or claim.metadata.uid != uid:
            problem = "deleted"
        elif pending is not None and is_allocated and not is_ours:
            problem = "allocated elsewhere"
        elif (pending is None or pending.is_written) and not is_allocated:
            problem = "deallocated elsewhere"
        if problem:
            raise PluginError(self._plugin, f"claim {label(claim)} got {problem} in the meantime")

    async def _write(
        self, claim: ResourceClaim, pending: PendingAllocation | None, pod: Pod, actions: Actions
    ) -> ResourceClaim:
        if pending is None or pending.is_written:
            return await self._update_status(used_by(_stamped(claim, actions), pod), actions)
        if FINALIZER not in claim.metadata.finalizers:
            finalizers = (*claim.metadata.finalizers, FINALIZER)
            claim = await actions.update(replace(claim, metadata=replace(claim.metadata, finalizers=finalizers)))
        claim = replace(claim, status=replace(claim.status, allocation=pending.claim.status.allocation))
        written = await self._update_status(used_by(_stamped(claim, actions), pod), actions)
        pending.is_written = True
        return written

    async def _update_status(self, claim: ResourceClaim, actions: Actions) -> ResourceClaim:
        written: ResourceClaim = await actions.update(claim, subresource="status")
        known = self._snapshot.catalog.actual("ResourceClaim", label(written))
        if known is None or is_older(known, written):
            self._snapshot.put_object("ResourceClaim", written)
        return written

    async def create(self, pod: Pod, needs: Needs, actions: Actions) -> ResourceClaim:
        """Create the claim for a pod's extended resources; what an earlier attempt has left goes away."""
        stale = left_over(pod, self._snapshot.catalog.resource_claims.values())
        if stale is not None:
            await self.delete(stale, actions)
        created: ResourceClaim = await actions.create(claim_of(pod, needs))
        return created

    async def tell_pod(self, pod: Pod, claim: ResourceClaim, needs: Needs, actions: Actions) -> None:
        """Write into the pod's status which claim its extended resources come from."""
        told = PodExtendedResourceClaimStatus(request_mappings=needs.mappings, resource_claim_name=claim.metadata.name)
        metadata = pod.metadata
        for attempt in range(_ATTEMPTS):
            seen: Pod = await actions.get(type(pod), metadata.name, metadata.namespace)
            status = replace(seen.status, extended_resource_claim_status=told)
            try:
                await actions.update(replace(seen, status=status), subresource="status")
                return
            except ActionError as error:
                if error.code != 409 or attempt == _ATTEMPTS - 1:
                    raise

    async def delete(self, claim: ResourceClaim, actions: Actions) -> None:
        """Delete a claim that nobody uses."""
        fresh = await actions.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
        finalizers = tuple(item for item in fresh.metadata.finalizers if item != FINALIZER)
        status = replace(fresh.status, allocation=None, reserved_for=())
        fresh = await actions.update(replace(fresh, status=status), subresource="status")
        fresh = await actions.update(replace(fresh, metadata=replace(fresh.metadata, finalizers=finalizers)))
        await actions.delete(fresh)
