"""Horizontal pod autoscalers of autoscaling/v1. Their rules are those of the version in which they are kept."""

from __future__ import annotations

from bayplan.api.strategies.base import Strategy
from bayplan.api.types import autoscaling_v1

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"


class HorizontalPodAutoscalerV1Strategy(Strategy):
    """Defaults of the old version; everything else is done after the conversion."""

    has_status = True

    def default(self, obj: autoscaling_v1.HorizontalPodAutoscaler) -> None:
        if obj.spec.min_replicas is None:
            obj.spec.min_replicas = 1
        if obj.spec.target_cpu_utilization_percentage is None and _METRICS not in obj.metadata.annotations:
            obj.spec.target_cpu_utilization_percentage = 80


STRATEGY = HorizontalPodAutoscalerV1Strategy()
