"""How priority classes look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers
from bayplan.api.types import scheduling_v1


def _priority_class(obj: scheduling_v1.PriorityClass, now: float) -> list[Any]:
    return [obj.metadata.name, obj.value, obj.global_default, object_age(obj, now), obj.preemption_policy or ""]


PRINTERS = printers("scheduling", {"PriorityClass": _priority_class})
