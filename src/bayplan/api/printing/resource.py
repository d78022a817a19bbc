"""How the kinds of dynamic resource allocation look in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.printing.base import NONE, age, name_and_age, object_age, printers
from bayplan.api.types import resource_v1, resource_v1alpha3

_NO_FIGURES: Final = ("-",) * 5


def _claim_state(claim: resource_v1.ResourceClaim) -> str:
    deleted = claim.metadata.deletion_timestamp is not None
    states = ["deleted"] if deleted else []
    if claim.status.allocation is not None:
        states.append("allocated")
        if claim.status.reserved_for:
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _claim(obj: resource_v1.ResourceClaim, now: float) -> list[Any]:
    return [obj.metadata.name, _claim_state(obj), object_age(obj, now)]


def _slice(obj: resource_v1.ResourceSlice, now: float) -> list[Any]:
    return [obj.metadata.name, obj.spec.node_name or "", obj.spec.driver, obj.spec.pool.name, object_age(obj, now)]


def _taint_rule(obj: resource_v1alpha3.DeviceTaintRule, now: float) -> list[Any]:
    taint = obj.spec.taint
    added = age(taint.time_added, now) if taint.time_added else ""
    return [obj.metadata.name, taint.key, taint.value, taint.effect, added, object_age(obj, now)]


def _pool_status(obj: resource_v1alpha3.ResourcePoolStatusRequest, now: float) -> list[Any]:
    status = obj.status
    if status is None:
        return [obj.metadata.name, obj.spec.driver, *_NO_FIGURES, 0, "Pending", NONE]
    ended = next(
        (one for one in status.conditions if one.type in ("Complete", "Failed") and one.status == "True"), None
    )
    state, count, pools = ended.type if ended is not None else "Pending", status.pool_count or 0, status.pools
    completed = age(ended.last_transition_time, now) if ended is not None and state == "Complete" else NONE
    figures = _NO_FIGURES if state == "Failed" else _figures(pools)
    if state == "Complete" and count > len(pools):
        state = f"Complete ({len(pools)}/{count} pools)"
    return [obj.metadata.name, obj.spec.driver, *figures, count, state, completed]


def _figures(pools: Sequence[resource_v1alpha3.PoolStatus]) -> tuple[str, ...]:
    """Devices, and pools that have errors, of all pools together."""
    sums = (
        sum(one.total_devices or 0 for one in pools),
        sum(one.available_devices or 0 for one in pools),
        sum(one.allocated_devices or 0 for one in pools),
        sum(one.unavailable_devices or 0 for one in pools),
        sum(one.validation_error is not None for one in pools),
    )
    return tuple(map(str, sums))


PRINTERS = printers(
    "resource",
    {
        "DeviceClass": name_and_age,
        "ResourceClaim": _claim,
        "ResourceClaimTemplate": name_and_age,
        "ResourceSlice": _slice,
        "DeviceTaintRule": _taint_rule,
        "ResourcePoolStatusRequest": _pool_status,
    },
)
