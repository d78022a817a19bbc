"""How leases look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers
from bayplan.api.types import coordination_v1


def _lease(obj: coordination_v1.Lease, now: float) -> list[Any]:
    return [obj.metadata.name, obj.spec.holder_identity or "", object_age(obj, now)]


PRINTERS = printers("coordination", {"Lease": _lease})
