"""How leases, and candidates for them, look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers
from bayplan.api.types import coordination_v1, coordination_v1beta1


def _lease(obj: coordination_v1.Lease, now: float) -> list[Any]:
    return [obj.metadata.name, obj.spec.holder_identity or "", object_age(obj, now)]


def _candidate(obj: coordination_v1beta1.LeaseCandidate, now: float) -> list[Any]:
    spec = obj.spec
    return [obj.metadata.name, spec.lease_name, spec.binary_version, spec.emulation_version, object_age(obj, now)]


PRINTERS = printers("coordination", {"Lease": _lease, "LeaseCandidate": _candidate})
