"""Horizontal pod autoscalers of autoscaling/v2, the version in which they are kept."""

from __future__ import annotations

from bayplan.api.defaults.quantities import canonical
from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import autoscaling_v2
from bayplan.api.validation.autoscaling import check_autoscaler, check_autoscaler_status

_DEFAULT_UTILIZATION = 80
_UP_WINDOW = 0


class HorizontalPodAutoscalerStrategy(Strategy):
    """Rules of horizontal pod autoscalers."""

    has_status = True

    def default(self, obj: autoscaling_v2.HorizontalPodAutoscaler) -> None:
        spec = obj.spec
        if spec.min_replicas is None:
            spec.min_replicas = 1
        if not spec.metrics:
            target = autoscaling_v2.MetricTarget(type="Utilization", average_utilization=_DEFAULT_UTILIZATION)
            cpu = autoscaling_v2.ResourceMetricSource(name="cpu", target=target)
            spec.metrics = (autoscaling_v2.MetricSpec(type="Resource", resource=cpu),)
        for metric in spec.metrics:
            for source in (metric.object, metric.pods, metric.resource, metric.container_resource, metric.external):
                if source is not None:
                    _canonical_target(source.target)
        if spec.behavior is not None:
            _default_behavior(spec.behavior)

    def validate_create(self, obj: autoscaling_v2.HorizontalPodAutoscaler) -> list[FieldError]:
        errors: list[FieldError] = []
        check_autoscaler(errors, obj.spec)
        return errors

    def validate_update(
        self, obj: autoscaling_v2.HorizontalPodAutoscaler, old: autoscaling_v2.HorizontalPodAutoscaler
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_autoscaler(errors, obj.spec, old.spec)
        return errors

    def validate_status_update(
        self, obj: autoscaling_v2.HorizontalPodAutoscaler, old: autoscaling_v2.HorizontalPodAutoscaler
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_autoscaler_status(errors, obj.status)
        return errors


def _canonical_target(target: autoscaling_v2.MetricTarget) -> None:
    if target.value is not None:
        target.value = canonical(target.value)
    if target.average_value is not None:
        target.average_value = canonical(target.average_value)


def _default_behavior(behavior: autoscaling_v2.HorizontalPodAutoscalerBehavior) -> None:
    policy = autoscaling_v2.HPAScalingPolicy
    percent = policy(type="Percent", value=100, period_seconds=15)
    up, down = behavior.scale_up, behavior.scale_down
    if up is None:
        up = behavior.scale_up = autoscaling_v2.HPAScalingRules()
    if up.stabilization_window_seconds is None:
        up.stabilization_window_seconds = _UP_WINDOW
    if down is None:
        down = behavior.scale_down = autoscaling_v2.HPAScalingRules()
    for rules, policies in ((up, (policy(type="Pods", value=4, period_seconds=15), percent)), (down, (percent,))):
        if rules.select_policy is None:
            rules.select_policy = "Max"
        if rules.policies is None:  # an empty list stays, and is refused
            rules.policies = policies
        if rules.tolerance is not None:
            rules.tolerance = canonical(rules.tolerance)


STRATEGY = HorizontalPodAutoscalerStrategy()
