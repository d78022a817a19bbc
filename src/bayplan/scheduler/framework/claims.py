"""Writing resource claims: allocation and users before a pod is bound, and taking both back.

A claim's status is written with the version it was read at; if somebody else was faster, it is read and written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bayplan.api.types.core_v1 import PodExtendedResourceClaimStatus
from bayplan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.verdicts import ActionError, PluginError
from bayplan.scheduler.snapshot.allocation import label
from bayplan.scheduler.snapshot.catalog import is_older
from bayplan.scheduler.snapshot.extended_resources import Needs, claim_of, left_over
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_ATTEMPTS: Final = 5


def used_by(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim with the pod as one more user."""
    return replace(claim, status=replace(claim.status, reserved_for=(*claim.status.reserved_for, _reference(pod))))


def is_user(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod is among the claim's users; pods that no API server has seen are told apart by name."""
    return _reference(pod) in claim.status.reserved_for


def is_owned(claim: ResourceClaim, uid: str) -> bool:
    """Whether a pod of this UID controls the claim, which was made for it."""
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references)


def is_reserved(claim: ResourceClaim, uid: str) -> bool:
    """Whether a pod of this UID is among the claim's users."""
    return any(user.uid == uid for user in claim.status.reserved_for)


def readiness(claim: ResourceClaim) -> tuple[str, bool]:
    """The device of an allocated claim that failed, if one did, and whether all are ready, as their binding conditions say."""
    ready = True
    devices = {(item.driver, item.pool, item.device): item for item in claim.status.devices}
    for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
        device = devices.get((result.driver, result.pool, result.device))
        true = {item.type for item in device.conditions if item.status == "True"} if device is not None else set()
        if true.intersection(result.binding_failure_conditions):
            return result.device, False
        ready = ready and true.issuperset(result.binding_conditions)
    return "", ready


def _reference(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def forget_user(snapshot: Snapshot, pod: PodInfo) -> None:
    """Where no controller runs: a pod that is gone uses its claims no more, and a claim that nobody uses is allocated no more."""
    for reference in pod.shape.claims:
        claim = snapshot.catalog.resource_claims.get(f"{pod.shape.namespace}/{reference.claim}")
        if claim is not None and is_user(claim, pod.pod):
            users = tuple(user for user in claim.status.reserved_for if user != _reference(pod.pod))
            allocation = claim.status.allocation if users else None
            status = replace(claim.status, reserved_for=users, allocation=allocation)
            snapshot.put_object("ResourceClaim", replace(claim, status=status))
    snapshot.end_allocation(extended_uid(pod))


def extended_uid(pod: PodInfo) -> str:
    """The UID under which a pod's extended resources are allocated before there is a claim for them."""
    return f"{pod.uid}/extended-resources"


class ClaimWriter:
    """Writes for one plugin, in whose name it raises PluginError. All methods raise ActionError as well."""

    def __init__(self, plugin: str, snapshot: Snapshot) -> None:
        self._plugin = plugin
        self._snapshot = snapshot

    async def bind(
        self, claim: ResourceClaim, allocated: ResourceClaim | None, pod: Pod, actions: Actions
    ) -> ResourceClaim:
        """Write the allocation of `allocated` (None: it is written already) and the pod as a user."""
        for attempt in range(_ATTEMPTS):
            self._check(claim, allocated)
            try:
                return await self._write(claim, allocated, pod, actions)
            except ActionError as error:
                if error.code != 409 or attempt == _ATTEMPTS - 1:
                    raise
            claim = await actions.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
        raise AssertionError("the last attempt returns or raises")

    def _check(self, claim: ResourceClaim, allocated: ResourceClaim | None) -> None:
        problem = ""
        if claim.metadata.deletion_timestamp is not None:
            problem = "deleted"
        elif allocated is not None and claim.status.allocation is not None:
            problem = "allocated elsewhere"
        elif allocated is None and claim.status.allocation is None:
            problem = "deallocated elsewhere"
        if problem:
            raise PluginError(self._plugin, f"claim {label(claim)} got {problem} in the meantime")

    async def _write(
        self, claim: ResourceClaim, allocated: ResourceClaim | None, pod: Pod, actions: Actions
    ) -> ResourceClaim:
        allocation = allocated.status.allocation if allocated is not None else claim.status.allocation
        if allocated is not None and FINALIZER not in claim.metadata.finalizers:
            finalizers = (*claim.metadata.finalizers, FINALIZER)
            claim = await actions.update(replace(claim, metadata=replace(claim.metadata, finalizers=finalizers)))
        allocated_claim = replace(claim, status=replace(claim.status, allocation=allocation))
        written: ResourceClaim = await actions.update(used_by(allocated_claim, pod), subresource="status")
        known = self._snapshot.catalog.actual("ResourceClaim", label(written))
        if known is None or is_older(known, written):
            self._snapshot.put_object("ResourceClaim", written)
        return written

    async def leave(self, claim: ResourceClaim, uid: str, actions: Actions) -> None:
        """Take a pod from the users of a claim."""
        users = tuple(user for user in claim.status.reserved_for if user.uid != uid)
        await actions.update(replace(claim, status=replace(claim.status, reserved_for=users)), subresource="status")

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
