"""How autoscalers look in tables, read through either version."""

from __future__ import annotations

from typing import Any

from bayplan.api.conversions.autoscaling import to_v2
from bayplan.api.printing.base import NONE, UNKNOWN, UNSET, Printer, columns, object_age, quantity_text
from bayplan.api.types import autoscaling_v1, autoscaling_v2

_SHOWN = 2
"""How many metrics are shown."""


def _metric(spec: autoscaling_v2.MetricSpec, status: autoscaling_v2.MetricStatus | None) -> str:
    """Current and wanted value of one metric: `cpu: 40%/80%`."""
    name = spec.type[:1].lower() + spec.type[1:]
    attribute = {"containerResource": "container_resource"}.get(name, name)
    source = getattr(spec, attribute, None)
    if source is None:
        return "<unknown type>"
    found = getattr(status, attribute, None)
    current = None if found is None else found.current
    target = source.target
    if attribute in ("resource", "container_resource"):
        if target.average_value is not None:
            shown = (
                UNKNOWN if current is None or current.average_value is None else quantity_text(current.average_value)
            )
            return f"{source.name}: {shown}/{quantity_text(target.average_value)}"
        shown = UNKNOWN if current is None or current.average_utilization is None else f"{current.average_utilization}%"
        return f"{source.name}: {shown}/{'<auto>' if target.average_utilization is None else f'{target.average_utilization}%'}"
    if attribute == "pods":
        return f"{UNKNOWN if current is None else quantity_text(current.average_value)}/{quantity_text(target.average_value)}"
    if target.average_value is not None:
        shown = UNKNOWN if current is None or current.average_value is None else quantity_text(current.average_value)
        return f"{shown}/{quantity_text(target.average_value)} (avg)"
    return f"{UNKNOWN if current is None else quantity_text(current.value)}/{quantity_text(target.value)}"


def _metrics(hpa: autoscaling_v2.HorizontalPodAutoscaler) -> str:
    metrics, current = hpa.spec.metrics, hpa.status.current_metrics
    shown = [_metric(spec, current[index] if index < len(current) else None) for index, spec in enumerate(metrics)]
    text = ", ".join(shown[:_SHOWN])
    return f"{text} + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else text or NONE


def _autoscaler(obj: autoscaling_v2.HorizontalPodAutoscaler, now: float) -> list[Any]:
    spec = obj.spec
    return [
        obj.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        _metrics(obj),
        UNSET if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        obj.status.current_replicas,
        object_age(obj, now),
    ]


def _autoscaler_v1(obj: autoscaling_v1.HorizontalPodAutoscaler, now: float) -> list[Any]:
    return _autoscaler(to_v2(obj), now)


_COLUMNS = columns("autoscaling/HorizontalPodAutoscaler")

PRINTERS = {
    "HorizontalPodAutoscaler": Printer(_COLUMNS, _autoscaler),
    "HorizontalPodAutoscaler/v1": Printer(_COLUMNS, _autoscaler_v1),
}
