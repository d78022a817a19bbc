"""Autoscalers between `autoscaling/v1` and `autoscaling/v2`.

v1 knows one CPU target; everything else travels in annotations, in the forms in which Kubernetes writes them: metrics as v1 would name their fields,
behavior as the server's own Go structs spell it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api.types import autoscaling_v1, autoscaling_v2

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"

Tree = dict[str, Any]
_BEHAVIOR_FIELDS = ("scaleUp", "scaleDown")
_RULE_FIELDS = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY_FIELDS = ("type", "value", "periodSeconds")


def to_v1(hpa: autoscaling_v2.HorizontalPodAutoscaler) -> autoscaling_v1.HorizontalPodAutoscaler:
    """The same autoscaler in v1."""
    annotations = dict(hpa.metadata.annotations)
    spec, status = hpa.spec, hpa.status
    cpu = next((metric for metric in spec.metrics if _is_cpu(metric)), None)
    current = next((metric for metric in status.current_metrics if _is_current_cpu(metric)), None)
    kept = {
        METRICS: [_metric_to_v1(_tree(metric), "target") for metric in spec.metrics if metric is not cpu],
        BEHAVIOR: _behavior_to_go(_tree(spec.behavior)) if spec.behavior is not None else None,
        CURRENT_METRICS: [_metric_to_v1(_tree(metric), "current") for metric in status.current_metrics],
        CONDITIONS: [_tree(condition) for condition in status.conditions],
    }
    annotations |= {name: msgspec.json.encode(value).decode() for name, value in kept.items() if value}
    target = cpu.resource.target.average_utilization if cpu is not None and cpu.resource is not None else None
    used = current.resource.current.average_utilization if current is not None and current.resource else None
    return autoscaling_v1.HorizontalPodAutoscaler(
        metadata=msgspec.structs.replace(hpa.metadata, annotations=annotations),
        spec=autoscaling_v1.HorizontalPodAutoscalerSpec(
            scale_target_ref=msgspec.convert(
                spec.scale_target_ref, autoscaling_v1.CrossVersionObjectReference, from_attributes=True
            ),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            target_cpu_utilization_percentage=target,
        ),
        status=autoscaling_v1.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_cpu_utilization_percentage=used,
        ),
    )


def to_v2(hpa: autoscaling_v1.HorizontalPodAutoscaler) -> autoscaling_v2.HorizontalPodAutoscaler:
    """The same autoscaler in v2. Annotations that cannot be read count as absent, as in Kubernetes."""
    annotations = dict(hpa.metadata.annotations)
    spec, status = hpa.spec, hpa.status
    metrics = _read(annotations.pop(METRICS, ""), list[Tree]) or []
    behavior = _read(annotations.pop(BEHAVIOR, ""), Tree)
    noted = _read(annotations.pop(CURRENT_METRICS, ""), list[Tree])
    current = noted or []
    conditions = _read(annotations.pop(CONDITIONS, ""), list[Tree]) or []
    if spec.target_cpu_utilization_percentage is not None:
        own = {"name": "cpu", "targetAverageUtilization": spec.target_cpu_utilization_percentage}
        metrics = [{"type": "Resource", "resource": own}, *metrics]
    if noted is None and status.current_cpu_utilization_percentage is not None:  # what is noted says more
        own = {"name": "cpu", "currentAverageUtilization": status.current_cpu_utilization_percentage}
        current = [{"type": "Resource", "resource": own}, *current]
    return autoscaling_v2.HorizontalPodAutoscaler(
        metadata=msgspec.structs.replace(hpa.metadata, annotations=annotations),
        spec=autoscaling_v2.HorizontalPodAutoscalerSpec(
            scale_target_ref=msgspec.convert(
                spec.scale_target_ref, autoscaling_v2.CrossVersionObjectReference, from_attributes=True
            ),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            metrics=_typed([_metric_to_v2(one, "target") for one in metrics], autoscaling_v2.MetricSpec),
            behavior=_behavior_from_go(behavior),
        ),
        status=autoscaling_v2.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_metrics=_typed([_metric_to_v2(one, "current") for one in current], autoscaling_v2.MetricStatus),
            conditions=_typed(conditions, autoscaling_v2.HorizontalPodAutoscalerCondition),
        ),
    )


def _is_cpu(metric: autoscaling_v2.MetricSpec) -> bool:
    resource = metric.resource
    if metric.type != "Resource" or resource is None or resource.name != "cpu":
        return False
    return resource.target.average_utilization is not None


def _is_current_cpu(metric: autoscaling_v2.MetricStatus) -> bool:
    resource = metric.resource
    if metric.type != "Resource" or resource is None or resource.name != "cpu":
        return False
    return resource.current.average_utilization is not None


def _tree(obj: Any) -> Tree:
    tree: Tree = msgspec.json.decode(msgspec.json.encode(obj))
    return tree


def _read(text: str, wanted: Any) -> Any:
    """What an annotation holds; None if it holds nothing of the kind."""
    try:
        return msgspec.json.decode(text, type=wanted) if text else None
    except msgspec.DecodeError:
        return None


def _typed(trees: list[Tree], cls: type[Any]) -> tuple[Any, ...]:
    try:
        found: tuple[Any, ...] = msgspec.convert(trees, tuple[cls, ...])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return ()
    return found


def _metric_to_v1(metric: Tree, side: str) -> Tree:
    """A metric with v1's names. `side` is `target` (of a spec) or `current` (of a status)."""
    result: Tree = {"type": metric["type"]}
    for name in ("object", "pods", "resource", "containerResource", "external"):
        if name in metric:
            result[name] = _source_to_v1(name, metric[name], side)
    return result


def _source_to_v1(name: str, source: Tree, side: str) -> Tree:
    amount, metric = source.get(side, {}), source.get("metric", {})
    average, value = amount.get("averageValue"), amount.get("value")
    if name == "object":
        fields: Tree = {"target": source["describedObject"], "metricName": metric["name"], f"{side}Value": value or "0"}
        return _given({**fields, "selector": metric.get("selector"), "averageValue": average})
    if name == "pods":
        fields = {"metricName": metric["name"], f"{side}AverageValue": average or "0"}
        return _given({**fields, "selector": metric.get("selector")})
    if name == "external":
        fields = {"metricName": metric["name"], "metricSelector": metric.get("selector")}
        shown = value or ("0" if side == "current" else None)
        return _given({**fields, f"{side}Value": shown, f"{side}AverageValue": average})
    if side == "current":
        average = average or "0"
    fields = {"name": source["name"], f"{side}AverageUtilization": amount.get("averageUtilization")}
    return _given({**fields, f"{side}AverageValue": average, "container": source.get("container")})


def _metric_to_v2(metric: Tree, side: str) -> Tree:
    result: Tree = {"type": metric.get("type", "")}
    for name in ("object", "pods", "resource", "containerResource", "external"):
        if isinstance(metric.get(name), dict):
            result[name] = _source_to_v2(name, metric[name], side)
    return result


def _source_to_v2(name: str, source: Tree, side: str) -> Tree:
    utilization, value = source.get(f"{side}AverageUtilization"), source.get(f"{side}Value")
    average = source.get("averageValue" if name == "object" else f"{side}AverageValue")
    if average is not None:
        value = None
    amount = _given({"value": value, "averageValue": average, "averageUtilization": utilization})
    if side == "target":
        kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
        amount["type"] = next((kind for field, kind in kinds.items() if field in amount), "")
    if name in ("resource", "containerResource"):
        return _given({"name": source.get("name", ""), side: amount, "container": source.get("container")})
    selector = source.get("metricSelector" if name == "external" else "selector")
    result: Tree = {"metric": _given({"name": source.get("metricName", ""), "selector": selector}), side: amount}
    if name == "object":
        result["describedObject"] = source.get("target") or {}
    return result


def _given(fields: Tree) -> Tree:
    return {name: value for name, value in fields.items() if value is not None}


def _behavior_to_go(behavior: Tree) -> Tree:
    """As Go writes structs without tags: capital names, nothing left out."""
    return {_capital(name): _rules_to_go(behavior.get(name)) for name in _BEHAVIOR_FIELDS}


def _rules_to_go(rules: Tree | None) -> Tree | None:
    if rules is None:
        return None
    shown: Tree = {_capital(name): rules.get(name) for name in _RULE_FIELDS}
    if rules.get("policies") is not None:
        shown["Policies"] = [{_capital(name): one[name] for name in _POLICY_FIELDS} for one in rules["policies"]]
    return shown


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _behavior_from_go(behavior: Mapping[str, Any] | None) -> autoscaling_v2.HorizontalPodAutoscalerBehavior | None:
    if behavior is None:
        return None
    try:
        return msgspec.convert(_uncapital(behavior), autoscaling_v2.HorizontalPodAutoscalerBehavior)
    except msgspec.ValidationError:
        return None


def _uncapital(value: Any) -> Any:
    """Small first letters in names, and no nulls."""
    if isinstance(value, Mapping):
        return {key[:1].lower() + key[1:]: _uncapital(item) for key, item in value.items() if item is not None}
    return [_uncapital(item) for item in value] if isinstance(value, list) else value
