"""Which size a volume is to have on its node, and what its claim says of the way there (operationexecutor/node_expander.go). Functions of data."""

from __future__ import annotations

from typing import Any, Final

from bayplan.api.codec import to_tree
from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import core_v1
from bayplan.api.volume_attachments import NODE_EXPANSION_NOT_REQUIRED

STORAGE: Final = "storage"
PENDING, IN_PROGRESS, INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
SHARED: Final = "ReadWriteMany"
SUCCESS, FAILURE = "FileSystemResizeSuccessful", "FileSystemResizeFailed"
"""Reasons of events."""
_FAILED: Final = "NodeResizeError"
_DONE_CONDITIONS: Final = frozenset({"Resizing", "FileSystemResizePending", "ControllerResizeError", _FAILED})


def wanted_size(persistent: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim | None) -> Quantity | None:
    """The size that the node is to bring a volume to; None if there is nothing to do, or nothing yet."""
    if claim is None or STORAGE not in persistent.spec.capacity:
        return None
    status = claim.status
    target = status.allocated_resources.get(STORAGE) or persistent.spec.capacity[STORAGE]
    wanted = parse(target)
    has = parse(status.capacity.get(STORAGE, "0"))
    if status.allocated_resource_statuses.get(STORAGE) in (PENDING, IN_PROGRESS):
        return wanted
    pending = any(each.type == "FileSystemResizePending" and each.status == "True" for each in status.conditions)
    old_controller = not status.allocated_resource_statuses and pending
    return wanted if old_controller and has < wanted else None


def given_size(persistent: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim) -> Quantity | None:
    """The same for a volume that no controller makes larger: its administrator does, and then says so in the volume alone."""
    status = claim.status
    if status.allocated_resource_statuses or status.allocated_resources:
        return wanted_size(persistent, claim)
    size = parse(persistent.spec.capacity.get(STORAGE, "0"))
    return size if parse(status.capacity.get(STORAGE, "0")) < size else None


def is_other_size_requested(claim: core_v1.PersistentVolumeClaim, wanted: Quantity) -> bool:
    """Whether the user asks for another size by now than the one that the node tries: the controller is to decide anew."""
    return parse(claim.spec.resources.requests.get(STORAGE, "0")) != wanted


def shared_size(
    persistent: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim, known: Quantity
) -> Quantity | None:
    """The size that this node is to bring a volume to which others have brought there already, so that the claim says that it is done; None if there is none.

    known: what the volume has on this node.
    """
    if SHARED not in claim.spec.access_modes or NODE_EXPANSION_NOT_REQUIRED in claim.metadata.annotations:
        return None
    size = parse(persistent.spec.capacity.get(STORAGE, "0"))
    is_done = (
        not claim.status.allocated_resource_statuses.get(STORAGE)
        and parse(claim.status.capacity.get(STORAGE, "0")) >= size
    )
    return size if is_done and known < size else None


def finished(claim: core_v1.PersistentVolumeClaim, size: Quantity) -> dict[str, Any]:
    """What changes of a claim's status when its volume has its size, as a merge patch."""
    kept = [each for each in claim.status.conditions if each.type not in _DONE_CONDITIONS]
    return {
        "capacity": {STORAGE: str(size)},
        "allocatedResourceStatuses": {STORAGE: None},
        "conditions": [to_tree(each) for each in kept] or None,
    }


def failed(claim: core_v1.PersistentVolumeClaim, text: str, now: str, *, infeasible: bool) -> dict[str, Any]:
    """What changes of a claim's status when a driver has refused to make its volume larger. now: RFC 3339."""
    kept = [each for each in claim.status.conditions if each.type != _FAILED]
    condition = {"type": _FAILED, "status": "True", "lastTransitionTime": now, "message": text}
    change: dict[str, Any] = {"conditions": [*map(to_tree, kept), condition]}
    if infeasible:
        change["allocatedResourceStatuses"] = {STORAGE: INFEASIBLE}
    return change
