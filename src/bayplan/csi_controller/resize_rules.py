"""Making volumes larger: to which size next, and what the claim's status says of it. Pure.

`status.allocatedResources` is the size that is worked towards and `status.allocatedResourceStatuses` how far that is, so that a size that turns out to be
impossible can be taken back: while the outcome of one size is not known no other one is tried.

Source of the behaviour: external-resizer `pkg/controller/expand_and_recover.go`, KEP-1790.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bayplan.api.quantity import Quantity, parse
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1

STORAGE: Final = "storage"
CONTROLLER_IN_PROGRESS: Final = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE: Final = "ControllerResizeInfeasible"
NODE_PENDING: Final = "NodeResizePending"
NODE_IN_PROGRESS: Final = "NodeResizeInProgress"
NODE_INFEASIBLE: Final = "NodeResizeInfeasible"
"""Annotation of claims whose node has nothing to do, for kubelets that would try."""
_RESIZING, _PENDING, _ERROR = "Resizing", "FileSystemResizePending", "ControllerResizeError"
_RESIZE_CONDITIONS: Final = frozenset({_RESIZING, _PENDING, _ERROR, "NodeResizeError"})


def needs_resize(claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a claim asks for more than it has."""
    has = claim.status.capacity.get(STORAGE)
    wanted = claim.spec.resources.requests.get(STORAGE)
    if claim.status.phase != "Bound" or not claim.spec.volume_name or has is None or wanted is None:
        return False
    return parse(has) < parse(wanted)


def is_bound_to(volume: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a volume is this claim's."""
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid == claim.metadata.uid


def next_size(
    claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume, *, failed_finally: bool
) -> Quantity | None:
    """The size that the driver is asked for next; None if the node is at it. failed_finally: whether the last size is known to have failed."""
    wanted = parse(claim.spec.resources.requests[STORAGE])
    has = parse(volume.spec.capacity.get(STORAGE, "0"))
    state = claim.status.allocated_resource_statuses.get(STORAGE, "")
    text = claim.status.allocated_resources.get(STORAGE)
    allocated = parse(text) if text is not None else None
    if has < wanted:
        if state in (NODE_PENDING, NODE_IN_PROGRESS):
            size = allocated or wanted
            return None if has >= size else size
        if state == NODE_INFEASIBLE or (state == CONTROLLER_IN_PROGRESS and not failed_finally):
            return allocated or wanted
        return wanted
    if state in (NODE_PENDING, NODE_IN_PROGRESS):
        return None
    return allocated or wanted


def is_same(claim: core_v1.PersistentVolumeClaim, size: Quantity) -> bool:
    """Whether this size is what is worked towards already."""
    text = claim.status.allocated_resources.get(STORAGE)
    return text is not None and parse(text) == size


def in_progress(claim: core_v1.PersistentVolumeClaim, size: Quantity, now: str) -> core_v1.PersistentVolumeClaim:
    """The claim when the driver is about to be asked."""
    again = is_same(claim, size)
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    status = changed.status
    status.conditions = _merged(status.conditions, _condition(_RESIZING, now), keep=again)
    status.allocated_resources = {**status.allocated_resources, STORAGE: str(size)}
    if not again:
        status.allocated_resource_statuses = {**status.allocated_resource_statuses, STORAGE: CONTROLLER_IN_PROGRESS}
    return changed


def failed(
    claim: core_v1.PersistentVolumeClaim, error: Exception, now: str, *, infeasible: bool
) -> core_v1.PersistentVolumeClaim:
    """The claim when the driver has refused."""
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    status = changed.status
    condition = _condition(_ERROR, now, f"failed to expand pvc with {error}")
    status.conditions = _merged(status.conditions, condition, keep=True)
    if infeasible:
        status.allocated_resource_statuses = {**status.allocated_resource_statuses, STORAGE: CONTROLLER_INFEASIBLE}
    return changed


def waits_for_node(claim: core_v1.PersistentVolumeClaim, now: str) -> core_v1.PersistentVolumeClaim:
    """The claim when the node has to do the rest."""
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    status = changed.status
    text = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
    status.conditions = _merged(status.conditions, _condition(_PENDING, now, text), keep=True)
    status.allocated_resource_statuses = {**status.allocated_resource_statuses, STORAGE: NODE_PENDING}
    return changed


def finished(claim: core_v1.PersistentVolumeClaim, size: Quantity) -> core_v1.PersistentVolumeClaim:
    """The claim when there is nothing left to do."""
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    status = changed.status
    status.capacity = {**status.capacity, STORAGE: str(size)}
    status.conditions = tuple(one for one in status.conditions if one.type not in _RESIZE_CONDITIONS)
    states = status.allocated_resource_statuses
    status.allocated_resource_statuses = {key: state for key, state in states.items() if key != STORAGE}
    return changed


def _condition(kind: str, now: str, message: str = "") -> core_v1.PersistentVolumeClaimCondition:
    return core_v1.PersistentVolumeClaimCondition(type=kind, status="True", last_transition_time=now, message=message)


def _merged(
    conditions: Iterable[core_v1.PersistentVolumeClaimCondition],
    new: core_v1.PersistentVolumeClaimCondition,
    *,
    keep: bool,
) -> tuple[core_v1.PersistentVolumeClaimCondition, ...]:
    """Conditions with a new one in the place of the same type. keep: whether others about resizing stay."""
    found: list[core_v1.PersistentVolumeClaimCondition] = []
    for one in conditions:
        if one.type == new.type:
            if one.status == new.status and one.message == new.message:
                new = one
            continue
        if keep or one.type not in _RESIZE_CONDITIONS:
            found.append(one)
    return (*found, new)
