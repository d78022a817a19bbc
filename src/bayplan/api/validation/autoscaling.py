"""Rules for horizontal pod autoscalers."""

from __future__ import annotations

from typing import Any

from bayplan.api import quantity
from bayplan.api.errors import forbidden, invalid, required, unsupported
from bayplan.api.types import autoscaling_v2
from bayplan.api.validation.fields import Errors, check_format, check_not_negative
from bayplan.api.validation.resources import container_resource_messages
from bayplan.api.validation.values import formats

_METRICS = ("ContainerResource", "External", "Object", "Pods", "Resource")
_MAX_PERIOD = 1800
_MAX_WINDOW = 3600


def check_autoscaler(
    errors: Errors,
    spec: autoscaling_v2.HorizontalPodAutoscalerSpec,
    old: autoscaling_v2.HorizontalPodAutoscalerSpec | None = None,
) -> None:
    """`spec` of an autoscaler. What an update leaves as it was (`old`) may have forms that are no longer allowed."""
    minimum = spec.min_replicas
    lowest = 0 if old is not None and old.min_replicas == 0 else 1
    if minimum is not None and minimum < lowest:
        errors.append(invalid("spec.minReplicas", minimum, f"must be greater than or equal to {lowest}"))
    if not spec.max_replicas:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif spec.max_replicas < 0:
        errors.append(invalid("spec.maxReplicas", spec.max_replicas, "must be greater than or equal to 1"))
    if minimum is not None and spec.max_replicas < minimum:
        errors.append(invalid("spec.maxReplicas", spec.max_replicas, "must be greater than or equal to `minReplicas`"))
    target, before = spec.scale_target_ref, old.scale_target_ref if old is not None else None
    _check_names(errors, "spec.scaleTargetRef", target)
    if before is None or (before.api_version, before.kind) != (target.api_version, target.kind):
        _check_version(errors, "spec.scaleTargetRef", target, needs_group=target.kind != "ReplicationController")
    for index, metric in enumerate(spec.metrics):
        _check_metric(errors, f"spec.metrics[{index}]", metric)
    if minimum == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    if spec.behavior is not None:
        for name, rules in (("scaleUp", spec.behavior.scale_up), ("scaleDown", spec.behavior.scale_down)):
            if rules is not None:
                _check_rules(errors, f"spec.behavior.{name}", rules)


def _check_names(errors: Errors, path: str, reference: autoscaling_v2.CrossVersionObjectReference) -> None:
    for field, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            check_format(errors, f"{path}.{field}", value, formats.path_segment)


def _check_version(
    errors: Errors, path: str, reference: autoscaling_v2.CrossVersionObjectReference, *, needs_group: bool
) -> None:
    version = reference.api_version
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and not version.rpartition("/")[0]:
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
        "external": metric.external,
        "pods": metric.pods,
        "resource": metric.resource,
        "containerResource": metric.container_resource,
    }
    given = [name for name, source in sources.items() if source is not None]
    if not metric.type:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if metric.type not in _METRICS:
        errors.append(unsupported(f"{path}.type", metric.type, _METRICS))
    for name in given[:1]:
        _check_source(errors, f"{path}.{name}", name, sources[name])
    expected = metric.type[:1].lower() + metric.type[1:]
    if metric.type not in _METRICS:
        errors.append(unsupported(f"{path}.type", metric.type, _METRICS))  # Kubernetes says it twice
    elif expected not in given:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        errors.extend(
            forbidden(f"{path}.{name}", "must populate the given metric source only")
            for name in given
            if metric.type not in _METRICS or name != expected
        )


def _check_source(errors: Errors, path: str, name: str, source: Any) -> None:
    """One source of a metric; `name` says which."""
    if name == "object":
        _check_names(errors, f"{path}.describedObject", source.described_object)
        _check_version(errors, f"{path}.describedObject", source.described_object, needs_group=False)
    if name in ("object", "pods", "external"):
        if not source.metric.name:
            errors.append(required(f"{path}.metric.name", "must specify a metric name"))
        else:
            check_format(errors, f"{path}.metric.name", source.metric.name, formats.path_segment)
    elif not source.name:
        errors.append(required(f"{path}.name", "must specify a resource name"))
    elif name == "containerResource":
        check_format(errors, f"{path}.name", source.name, container_resource_messages)
    if name == "containerResource" and not source.container:
        errors.append(required(f"{path}.container", "must specify a container"))
    elif name == "containerResource":
        check_format(errors, f"{path}.container", source.container, formats.dns_label)
    _check_target(errors, f"{path}.target", source.target)
    _check_amounts(errors, f"{path}.target", name, source.target)


def _check_amounts(errors: Errors, path: str, name: str, target: autoscaling_v2.MetricTarget) -> None:
    """The amounts that a kind of source needs, and those that it may not have together."""
    value, average, utilization = target.value, target.average_value, target.average_utilization
    if name == "object" and value is None and average is None:
        errors.append(required(f"{path}.averageValue", "must set either a target value or averageValue"))
    if name == "external":
        if value is None and average is None:
            text = "must set either a target value for metric or a per-pod target"
            errors.append(required(f"{path}.averageValue", text))
        if value is not None and average is not None:
            errors.append(forbidden(f"{path}.value", "may not set both a target value for metric and a per-pod target"))
    if name == "pods" and average is None:
        errors.append(required(f"{path}.averageValue", "must specify a positive target averageValue"))
    if name in ("resource", "containerResource"):
        if utilization is None and average is None:
            text = "must set either a target raw value or a target utilization"
            errors.append(required(f"{path}.averageUtilization", text))
        if utilization is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            errors.append(forbidden(f"{path}.averageValue", text))


def _check_target(errors: Errors, path: str, target: autoscaling_v2.MetricTarget) -> None:
    if not target.type:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if target.type not in ("Utilization", "Value", "AverageValue"):
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
