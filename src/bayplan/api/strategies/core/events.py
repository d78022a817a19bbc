"""Events of both groups. Those of `core` are checked loosely, for the sake of old clients."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.conversions.kinds import event_to_core
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1, events_v1
from bayplan.api.validation.fields import Errors, check_format, check_unchanged
from bayplan.api.validation.values import formats

Event = core_v1.Event | events_v1.Event

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_ATTRIBUTES = ("kind", "namespace", "name", "uid", "api_version", "resource_version", "field_path")
_TEXT_LIMIT = 128
_MESSAGE_LIMIT = 1024


class EventStrategy(Strategy):
    """Rules of events."""

    allow_create_on_update = True
    checks_served_version = True
    metadata_comes_second = True
    selectable_field_names = frozenset(
        (*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "source", "type")
    )

    def stored_field_names(self, group: str) -> Mapping[str, str] | None:
        return _NEW_FIELD_NAMES if group == "events.k8s.io" else None

    def metadata_rule(self, obj: Event) -> str | None:
        return None if isinstance(obj, core_v1.Event) else self.name_is_checked_as

    def validate(self, obj: Event) -> list[FieldError]:
        errors: list[FieldError] = []
        if isinstance(obj, core_v1.Event):
            _check_legacy(errors, obj, "reportingComponent")
        else:
            _check_legacy(errors, event_to_core(obj), "reportingController")
        return errors

    def validate_create(self, obj: Event) -> list[FieldError]:
        errors: list[FieldError] = []
        if isinstance(obj, events_v1.Event):
            _check_new(errors, obj)
        return errors

    def validate_update(self, obj: Event, old: Event) -> list[FieldError]:
        errors: list[FieldError] = []
        if isinstance(obj, events_v1.Event) and isinstance(old, events_v1.Event):
            for field, attribute in _IMMUTABLE:
                check_unchanged(errors, field, getattr(obj, attribute), getattr(old, attribute))
            if obj.series != old.series:
                _check_series(errors, obj.series)
        return errors

    def selectable_fields(self, obj: Event) -> dict[str, str]:
        if isinstance(obj, core_v1.Event):
            reference, source, reporter = obj.involved_object, obj.source, obj.reporting_component
        else:
            reference, source, reporter = obj.regarding, obj.deprecated_source, obj.reporting_controller
        fields = {
            f"involvedObject.{name}": getattr(reference, one) for name, one in zip(_REFERENCE, _ATTRIBUTES, strict=True)
        }
        fields |= {"reason": obj.reason, "reportingComponent": reporter, "type": obj.type}
        fields["source"] = source.component or reporter
        return fields


_IMMUTABLE = (
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecated_source"),
    ("firstTimestamp", "deprecated_first_timestamp"),
    ("lastTimestamp", "deprecated_last_timestamp"),
    ("count", "deprecated_count"),
    ("reason", "reason"),  # twice, as in Kubernetes
    ("type", "type"),
    ("eventTime", "event_time"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reporting_controller"),
    ("reportingInstance", "reporting_instance"),
)


_NEW_FIELD_NAMES = {
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _REFERENCE},
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}


def _check_legacy(errors: Errors, event: core_v1.Event, reporter_field: str) -> None:
    namespace, involved = event.metadata.namespace, event.involved_object.namespace
    text = "does not match event.namespace"
    if event.event_time is None:
        matches = namespace == involved if involved else namespace in ("", "default")
        if not matches:
            errors.append(invalid("involvedObject.namespace", involved, text))
        return
    if not involved and namespace not in ("default", "kube-system"):
        errors.append(invalid("involvedObject.namespace", involved, text))
    _check_texts(
        errors, reporter_field, event.reporting_component, event.reporting_instance, event.action, event.reason
    )
    if formats.size(event.message) > _MESSAGE_LIMIT:
        errors.append(invalid("message", "", f"can have at most {_MESSAGE_LIMIT} characters"))


def _check_texts(errors: Errors, reporter_field: str, reporter: str, instance: str, action: str, reason: str) -> None:
    if not reporter:
        errors.append(required(reporter_field))
    check_format(errors, reporter_field, reporter, formats.label_key)
    for field, value in (("reportingInstance", instance), ("action", action), ("reason", reason)):
        if not value:
            errors.append(required(field))
        elif formats.size(value) > _TEXT_LIMIT:
            errors.append(invalid(field, "", f"can have at most {_TEXT_LIMIT} characters"))


def _check_new(errors: Errors, event: events_v1.Event) -> None:
    _check_series(errors, event.series)
    if event.event_time is None:
        errors.append(required("eventTime"))
    if event.type not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event.type}"))
    for field, value in (
        ("firstTimestamp", event.deprecated_first_timestamp),
        ("lastTimestamp", event.deprecated_last_timestamp),
        ("count", event.deprecated_count or None),
        ("source", event.deprecated_source.component or event.deprecated_source.host or None),
    ):
        if value is not None:
            errors.append(invalid(field, "", "needs to be unset"))


def _check_series(errors: Errors, series: events_v1.EventSeries | None) -> None:
    if series is None:
        return
    if series.count < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if series.last_observed_time is None:
        errors.append(required("series.lastObservedTime"))


STRATEGY = EventStrategy()
