"""The same object in another version of its group.

Objects are kept in one version per kind; another served version is converted on the way in and out. Kinds of one version need nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.kinds import Kind
from bayplan.api.types import autoscaling_v1, autoscaling_v2, core_v1, events_v1

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"


def convert(obj: Any, source: Kind, target: Kind) -> Any:
    """The object as the target kind. Raises KeyError if the two are not versions of one kind."""
    if source is target:
        return obj
    return _CONVERSIONS[source.api_version, target.api_version](obj)


def event_to_core(event: events_v1.Event) -> core_v1.Event:
    """The same event as the core group shows it."""
    return core_v1.Event(
        metadata=event.metadata,
        involved_object=event.regarding,
        related=event.related,
        message=event.note,
        reason=event.reason,
        type=event.type,
        action=event.action,
        reporting_component=event.reporting_controller,
        reporting_instance=event.reporting_instance,
        event_time=event.event_time,
        series=core_v1.EventSeries(count=event.series.count, last_observed_time=event.series.last_observed_time)
        if event.series
        else None,
        source=event.deprecated_source,
        count=event.deprecated_count,
        first_timestamp=event.deprecated_first_timestamp,
        last_timestamp=event.deprecated_last_timestamp,
    )


def event_from_core(event: core_v1.Event) -> events_v1.Event:
    """The same event as `events.k8s.io` shows it."""
    return events_v1.Event(
        metadata=event.metadata,
        regarding=event.involved_object,
        related=event.related,
        note=event.message,
        reason=event.reason,
        type=event.type,
        action=event.action,
        reporting_controller=event.reporting_component,
        reporting_instance=event.reporting_instance,
        event_time=event.event_time,
        series=events_v1.EventSeries(count=event.series.count, last_observed_time=event.series.last_observed_time)
        if event.series
        else None,
        deprecated_source=event.source,
        deprecated_count=event.count,
        deprecated_first_timestamp=event.first_timestamp,
        deprecated_last_timestamp=event.last_timestamp,
    )


def _is_cpu_utilization(metric: autoscaling_v2.MetricSpec) -> bool:
    resource = metric.resource
    return (
        metric.type == "Resource"
        and resource is not None
        and resource.name == "cpu"
        and resource.target.average_utilization is not None
    )


def hpa_to_v1(hpa: autoscaling_v2.HorizontalPodAutoscaler) -> autoscaling_v1.HorizontalPodAutoscaler:
    """v1 knows one CPU target; everything else travels in annotations."""
    annotations = dict(hpa.metadata.annotations)
    spec, status = hpa.spec, hpa.status
    cpu = next((metric.resource for metric in spec.metrics if _is_cpu_utilization(metric)), None)
    others = [metric for metric in spec.metrics if metric.resource is not cpu or cpu is None]
    current = next(
        (
            metric.resource
            for metric in status.current_metrics
            if metric.resource is not None and metric.resource.name == "cpu"
        ),
        None,
    )
    for name, value in ((_METRICS, others), (_BEHAVIOR, spec.behavior), (_CONDITIONS, status.conditions)):
        if value:
            annotations[name] = msgspec.json.encode(value).decode()
    rest = [metric for metric in status.current_metrics if metric.resource is not current or current is None]
    if rest:
        annotations[_CURRENT_METRICS] = msgspec.json.encode(rest).decode()
    return autoscaling_v1.HorizontalPodAutoscaler(
        metadata=msgspec.structs.replace(hpa.metadata, annotations=annotations),
        spec=autoscaling_v1.HorizontalPodAutoscalerSpec(
            scale_target_ref=msgspec.convert(
                spec.scale_target_ref, autoscaling_v1.CrossVersionObjectReference, from_attributes=True
            ),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            target_cpu_utilization_percentage=cpu.target.average_utilization if cpu else None,
        ),
        status=autoscaling_v1.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_cpu_utilization_percentage=current.current.average_utilization if current else None,
        ),
    )


def hpa_to_v2(hpa: autoscaling_v1.HorizontalPodAutoscaler) -> autoscaling_v2.HorizontalPodAutoscaler:
    """v2 shows what v1 keeps in annotations."""
    annotations = dict(hpa.metadata.annotations)
    metrics: tuple[autoscaling_v2.MetricSpec, ...] = ()
    conditions: tuple[autoscaling_v2.HorizontalPodAutoscalerCondition, ...] = ()
    current: tuple[autoscaling_v2.MetricStatus, ...] = ()
    behavior = None
    if text := annotations.pop(_METRICS, ""):
        metrics = msgspec.json.decode(text, type=tuple[autoscaling_v2.MetricSpec, ...])
    if text := annotations.pop(_BEHAVIOR, ""):
        behavior = msgspec.json.decode(text, type=autoscaling_v2.HorizontalPodAutoscalerBehavior)
    if text := annotations.pop(_CONDITIONS, ""):
        conditions = msgspec.json.decode(text, type=tuple[autoscaling_v2.HorizontalPodAutoscalerCondition, ...])
    if text := annotations.pop(_CURRENT_METRICS, ""):
        current = msgspec.json.decode(text, type=tuple[autoscaling_v2.MetricStatus, ...])
    spec, status = hpa.spec, hpa.status
    if spec.target_cpu_utilization_percentage is not None:
        target = autoscaling_v2.MetricTarget(
            type="Utilization", average_utilization=spec.target_cpu_utilization_percentage
        )
        cpu = autoscaling_v2.ResourceMetricSource(name="cpu", target=target)
        metrics = (autoscaling_v2.MetricSpec(type="Resource", resource=cpu), *metrics)
    if status.current_cpu_utilization_percentage is not None:
        value = autoscaling_v2.MetricValueStatus(average_utilization=status.current_cpu_utilization_percentage)
        current = (
            autoscaling_v2.MetricStatus(
                type="Resource", resource=autoscaling_v2.ResourceMetricStatus(name="cpu", current=value)
            ),
            *current,
        )
    return autoscaling_v2.HorizontalPodAutoscaler(
        metadata=msgspec.structs.replace(hpa.metadata, annotations=annotations),
        spec=autoscaling_v2.HorizontalPodAutoscalerSpec(
            scale_target_ref=msgspec.convert(
                spec.scale_target_ref, autoscaling_v2.CrossVersionObjectReference, from_attributes=True
            ),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            metrics=metrics,
            behavior=behavior,
        ),
        status=autoscaling_v2.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_metrics=current,
            conditions=conditions,
        ),
    )


_CONVERSIONS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("events.k8s.io/v1", "v1"): event_to_core,
    ("v1", "events.k8s.io/v1"): event_from_core,
    ("autoscaling/v1", "autoscaling/v2"): hpa_to_v2,
    ("autoscaling/v2", "autoscaling/v1"): hpa_to_v1,
}
