"""How the kinds of dynamic resource allocation look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import name_and_age, object_age, printers
from bayplan.api.types import resource_v1


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


PRINTERS = printers(
    "resource",
    {
        "DeviceClass": name_and_age,
        "ResourceClaim": _claim,
        "ResourceClaimTemplate": name_and_age,
        "ResourceSlice": _slice,
    },
)
