"""Giving volumes other attributes: which class next, and what the claim's status says of it. Pure.

Source of the behaviour: external-resizer `pkg/modifycontroller`, KEP-3751.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1
from bayplan.csi.errors import CsiError

PENDING: Final = "Pending"
IN_PROGRESS: Final = "InProgress"
INFEASIBLE: Final = "Infeasible"
MODIFYING, FAILED = "ModifyingVolume", "ModifyVolumeError"
_OURS: Final = frozenset({MODIFYING, FAILED})


@dataclass(frozen=True, slots=True)
class Target:
    """The class to bring a volume to. `is_new`: whether the claim has to say first that it is worked on."""

    name: str
    is_new: bool


def target_of(claim: core_v1.PersistentVolumeClaim, *, uncertain: bool) -> Target | None:
    """What to do for a claim; None for nothing. uncertain: whether the driver may still be at the last target."""
    wanted = claim.spec.volume_attributes_class_name or ""
    state = claim.status.modify_volume_status
    if state is None and wanted == (claim.status.current_volume_attributes_class_name or ""):
        return None
    in_progress = state is not None and state.status == IN_PROGRESS
    if state is not None and in_progress and (uncertain or not wanted):
        return Target(state.target_volume_attributes_class_name, is_new=False)
    return Target(wanted, is_new=True) if wanted else None


def is_rolled_back(claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a claim wants no class any more, but still says that it is modified."""
    state = claim.status.modify_volume_status
    if claim.spec.volume_attributes_class_name or (state is not None and state.status == IN_PROGRESS):
        return False
    return any(one.type == MODIFYING for one in claim.status.conditions)


def pending(claim: core_v1.PersistentVolumeClaim, target: str) -> core_v1.PersistentVolumeClaim:
    """The claim while its class is not there."""
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    changed.status.modify_volume_status = core_v1.ModifyVolumeStatus(
        target_volume_attributes_class_name=target, status=PENDING
    )
    return changed


def in_progress(claim: core_v1.PersistentVolumeClaim, target: str, now: str) -> core_v1.PersistentVolumeClaim:
    """The claim when the driver is about to be asked."""
    text = f'Modifying volume to "{target}" is in progress.'
    return _told(claim, target, IN_PROGRESS, [_condition(MODIFYING, now, "", text)])


def failed(
    claim: core_v1.PersistentVolumeClaim, target: str, error: CsiError, now: str
) -> core_v1.PersistentVolumeClaim:
    """The claim when the driver has refused, or has not answered."""
    text = f'Modifying volume to "{target}" is still in progress.'
    if error.is_final:
        text = f'Modifying volume to "{target}" failed. Waiting for retry.'
    state = INFEASIBLE if error.code == "INVALID_ARGUMENT" else IN_PROGRESS
    reason = "".join(word.capitalize() for word in error.code.split("_"))
    conditions = [_condition(MODIFYING, now, "", text), _condition(FAILED, now, reason, error.message)]
    return _told(claim, target, state, conditions)


def completed(claim: core_v1.PersistentVolumeClaim, target: str) -> core_v1.PersistentVolumeClaim:
    """The claim when its volume has the attributes."""
    changed = without_conditions(claim)
    changed.status.modify_volume_status = None
    changed.status.current_volume_attributes_class_name = target
    return changed


def without_conditions(claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolumeClaim:
    """The claim without what it says of being modified."""
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    changed.status.conditions = tuple(one for one in changed.status.conditions if one.type not in _OURS)
    return changed


def _told(
    claim: core_v1.PersistentVolumeClaim,
    target: str,
    state: str,
    conditions: list[core_v1.PersistentVolumeClaimCondition],
) -> core_v1.PersistentVolumeClaim:
    changed = without_conditions(claim)
    changed.status.modify_volume_status = core_v1.ModifyVolumeStatus(
        target_volume_attributes_class_name=target, status=state
    )
    known = {one.type: one for one in claim.status.conditions}
    for one in conditions:
        before = known.get(one.type)
        if before is not None:
            one.last_transition_time = before.last_transition_time
    changed.status.conditions = (*changed.status.conditions, *conditions)
    return changed


def _condition(kind: str, now: str, reason: str, message: str) -> core_v1.PersistentVolumeClaimCondition:
    return core_v1.PersistentVolumeClaimCondition(
        type=kind, status="True", last_transition_time=now, reason=reason, message=message
    )
