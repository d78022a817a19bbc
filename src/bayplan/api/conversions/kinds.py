"""The same object in another version of its group.

Objects are kept in one version per kind; another served version is converted on the way in and out. Kinds of one version, and of versions that have the same
fields, need nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.codec import decode, encode
from bayplan.api.conversions import autoscaling as conversion_autoscaling
from bayplan.api.conversions import devices as conversion_devices
from bayplan.api.conversions import pod_groups as conversion_pod_groups
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1, events_v1


class WebhookNeeded(Exception):
    """An object that only a webhook can convert: whoever can wait for one asks it, and does again what needed the object."""

    def __init__(self, obj: Any, source: Kind, target: CustomKind) -> None:
        super().__init__(f"{source.api_version} {source.kind} is to be converted to {target.api_version}")
        self.obj = obj
        self.source = source
        self.target = target
        self.purpose = ""
        """What has failed if the webhook fails, if there is more to say about it than that."""


def convert(obj: Any, source: Kind, target: Kind) -> Any:
    """The object as the target kind. Raises KeyError if the two are not versions of one kind, WebhookNeeded if a webhook has to do it."""
    if source is target:
        return obj
    if isinstance(target, CustomKind):
        if target.asks_webhook:
            raise WebhookNeeded(obj, source, target)
        return target.converted(obj)
    conversion = _CONVERSIONS.get((source.api_version, target.api_version))
    if conversion is not None:
        return conversion(obj)
    if source.storage_prefix != target.storage_prefix:
        raise KeyError(f"{target!r} is no version of {source!r}")
    obj = decode(target.type, encode(obj))  # versions that are alike
    obj.kind = obj.api_version = ""
    return obj


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


_CONVERSIONS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("events.k8s.io/v1", "v1"): event_to_core,
    ("v1", "events.k8s.io/v1"): event_from_core,
    ("autoscaling/v1", "autoscaling/v2"): conversion_autoscaling.to_v2,
    ("autoscaling/v2", "autoscaling/v1"): conversion_autoscaling.to_v1,
    ("resource.k8s.io/v1", "resource.k8s.io/v1beta1"): conversion_devices.from_v1,
    ("resource.k8s.io/v1beta1", "resource.k8s.io/v1"): conversion_devices.to_v1,
    ("scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"): conversion_pod_groups.to_v1beta1,
    ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"): conversion_pod_groups.from_v1beta1,
    ("scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1alpha3"): conversion_pod_groups.to_v1alpha3,
    ("scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2"): conversion_pod_groups.from_v1alpha3,
}
