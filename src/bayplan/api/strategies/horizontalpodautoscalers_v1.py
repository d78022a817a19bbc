"""Horizontal pod autoscalers of autoscaling/v1. Their rules are those of the version in which they are kept."""

from __future__ import annotations

from bayplan.api.strategies.base import Strategy
from bayplan.api.types import autoscaling_v1


class HorizontalPodAutoscalerV1Strategy(Strategy):
    """Defaults of the old version; everything else is done after the conversion."""

    has_status = True

    def default(self, obj: autoscaling_v1.HorizontalPodAutoscaler) -> None:
        if obj.spec.min_replicas is None:
            obj.spec.min_replicas = 1


STRATEGY = HorizontalPodAutoscalerV1Strategy()
