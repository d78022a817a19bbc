"""Rules for horizontal pod autoscalers."""

from __future__ import annotations

from typing import Any

from bayplan.api import quantity
from bayplan.api.errors import forbidden, invalid, required, unsupported
from bayplan.api.types import autoscaling_v2
from bayplan.api.validation import formats
from bayplan.api.validation.fields import Errors, check_format, check_label_selector, check_not_negative

_METRICS = ("ContainerResource", "External", "Object", "Pods", "Resource")
_MAX_PERIOD = 1800
_MAX_WINDOW = 3600


def check_autoscaler(errors: Errors, spec: autoscaling_v2.HorizontalPodAutoscalerSpec) -> None:
    """`spec` of an autoscaler."""
    minimum = spec.min_replicas
    if minimum is not None and minimum < 1:
        errors.append(invalid("spec.minReplicas", minimum, "must be greater than or equal to 1"))
    if spec.max_replicas < 1:
        errors.append(invalid("spec.maxReplicas", spec.max_replicas, "must be greater than 0"))
    if minimum is not None and spec.max_replicas < minimum:
        errors.append(invalid("spec.maxReplicas", spec.max_replicas, "must be greater than or equal to `minReplicas`"))
    _check_reference(errors, "spec.scaleTargetRef", spec.scale_target_ref)
    for index, metric in enumerate(spec.metrics):
        _check_metric(errors, f"spec.metrics[{index}]", metric)
    if spec.behavior is not None:
        for name, rules in (("scaleUp", spec.behavior.scale_up), ("scaleDown", spec.behavior.scale_down)):
            if rules is not None:
                _check_rules(errors, f"spec.behavior.{name}", rules)


def _check_reference(errors: Errors, path: str, reference: autoscaling_v2.CrossVersionObjectReference) -> None:
    for field, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            check_format(errors, f"{path}.{field}", value, formats.path_segment)
    version = reference.api_version
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif not version and reference.kind != "ReplicationController" and reference.kind:
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _check_rules(errors: Errors, path: str, rules: autoscaling_v2.HPAScalingRules) -> None:
    window = rules.stabilization_window_seconds
    if window is not None and window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW:
        errors.append(
            invalid(f"{path}.stabilizationWindowSeconds", window, f"must be less than or equal to {_MAX_WINDOW}")
        )
    if rules.select_policy is not None and rules.select_policy not in ("Disabled", "Max", "Min"):
        errors.append(unsupported(f"{path}.selectPolicy", rules.select_policy, ("Disabled", "Max", "Min")))
    if not rules.policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(rules.policies or ()):
        where = f"{path}.policies[{index}]"
        if policy.type not in ("Percent", "Pods"):
            errors.append(unsupported(f"{where}.type", policy.type, ("Percent", "Pods")))
        if policy.value <= 0:
            errors.append(invalid(f"{where}.value", policy.value, "must be greater than zero"))
        if policy.period_seconds <= 0:
            errors.append(invalid(f"{where}.periodSeconds", policy.period_seconds, "must be greater than zero"))
        if policy.period_seconds > _MAX_PERIOD:
            text = f"must be less than or equal to {_MAX_PERIOD}"
            errors.append(invalid(f"{where}.periodSeconds", policy.period_seconds, text))
    if rules.tolerance is not None and quantity.parse(rules.tolerance).sign() < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.tolerance", quantity.canonical(rules.tolerance), text))


def _check_metric(errors: Errors, path: str, metric: autoscaling_v2.MetricSpec) -> None:
    sources: dict[str, Any] = {
        "object": metric.object,
        "pods": metric.pods,
        "resource": metric.resource,
        "containerResource": metric.container_resource,
        "external": metric.external,
    }
    given = [name for name, source in sources.items() if source is not None]
    if not metric.type:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    elif metric.type not in _METRICS:
        errors.extend([unsupported(f"{path}.type", metric.type, _METRICS)] * 2)  # Kubernetes says it twice
    else:
        expected = metric.type[0].lower() + metric.type[1:]
        if expected not in given:
            errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
            return
        for name in given:
            if name != expected:
                text = "must populate the given metric source only"
                errors.append(forbidden(f"{path}.{name}", text))
    for name in given[:1]:
        _check_source(errors, f"{path}.{name}", name, sources[name])


def _check_source(errors: Errors, path: str, name: str, source: Any) -> None:
    target: autoscaling_v2.MetricTarget = source.target
    if name == "object":
        _check_reference(errors, f"{path}.describedObject", source.described_object)
    if name in ("object", "pods", "external"):
        if not source.metric.name:
            errors.append(required(f"{path}.metric.name", "must specify a metric name"))
        else:
            check_format(errors, f"{path}.metric.name", source.metric.name, formats.path_segment)
        check_label_selector(errors, f"{path}.metric.selector", source.metric.selector)
    elif not source.name:
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if name == "containerResource" and not source.container:
        errors.append(required(f"{path}.container", "must specify a container"))
    _check_target(errors, f"{path}.target", target)
    value, average, utilization = target.value, target.average_value, target.average_utilization
    if name in ("object", "external"):
        if value is None and average is None:
            text = "must set either a target value for metric or a per-pod target"
            errors.append(required(f"{path}.target.averageValue", text))
        if name == "external" and value is not None and average is not None:
            errors.append(
                forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")
            )
    elif name == "pods":
        if average is None or quantity.parse(average).sign() <= 0:
            errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    else:
        if utilization is None and average is None:
            text = "must set either a target raw value or a target utilization"
            errors.append(required(f"{path}.target.averageUtilization", text))
        if utilization is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            errors.append(forbidden(f"{path}.target.averageValue", text))


def _check_target(errors: Errors, path: str, target: autoscaling_v2.MetricTarget) -> None:
    if not target.type:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    elif target.type not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{path}.type", target.type, "must be either Utilization, Value, or AverageValue"))
    for name, value in (("value", target.value), ("averageValue", target.average_value)):
        if value is not None and quantity.parse(value).sign() <= 0:
            errors.append(invalid(f"{path}.{name}", quantity.canonical(value), "must be positive"))
    if target.average_utilization is not None and target.average_utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", target.average_utilization, "must be greater than 0"))


def check_autoscaler_status(errors: Errors, status: autoscaling_v2.HorizontalPodAutoscalerStatus) -> None:
    """`status` of an autoscaler."""
    check_not_negative(errors, "status.currentReplicas", status.current_replicas)
    check_not_negative(errors, "status.desiredReplicas", status.desired_replicas)
