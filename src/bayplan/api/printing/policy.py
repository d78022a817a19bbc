"""How disruption budgets look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers
from bayplan.api.types import policy_v1


def _shown(value: int | str | None) -> str:
    return "N/A" if value is None else str(value)


def _budget(obj: policy_v1.PodDisruptionBudget, now: float) -> list[Any]:
    spec = obj.spec
    return [
        obj.metadata.name,
        _shown(spec.min_available),
        _shown(spec.max_unavailable),
        obj.status.disruptions_allowed,
        object_age(obj, now),
    ]


PRINTERS = printers("policy", {"PodDisruptionBudget": _budget})
