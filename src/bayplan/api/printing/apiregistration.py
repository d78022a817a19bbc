"""How aggregated APIs look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers
from bayplan.api.types import apiregistration_v1


def _available(service: apiregistration_v1.APIService) -> str:
    condition = next((one for one in service.status.conditions if one.type == "Available"), None)
    if condition is None:
        return "Unknown"
    return condition.status if condition.status == "True" else f"{condition.status} ({condition.reason})"


def _service(obj: apiregistration_v1.APIService, now: float) -> list[Any]:
    target = obj.spec.service
    shown = "Local" if target is None else f"{target.namespace}/{target.name}"
    return [obj.metadata.name, shown, _available(obj), object_age(obj, now)]


PRINTERS = printers("apiregistration", {"APIService": _service})
