"""Daemon sets."""

from __future__ import annotations

import re

from bayplan.api.codec import DecodeError
from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError, invalid, quoted, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apps_v1
from bayplan.api.validation.fields import (
    check_label_selector,
    check_not_negative,
    check_unchanged,
    null_if_empty,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.pods.pod_spec import check_pod_template
from bayplan.api.validation.pods.pod_warnings import template_warnings
from bayplan.api.validation.workloads import (
    MISMATCH,
    check_collision_count,
    check_counts,
    check_rolling_amount,
    check_runs_for_ever,
    compile_or_none,
    spelled_out,
)

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_NUMBER = re.compile(r"([+-]?)(?=[0-9])0*([0-9]*)")
_INT64 = 1 << 63
_COUNTS = (
    ("current_number_scheduled", "currentNumberScheduled"),
    ("number_misscheduled", "numberMisscheduled"),
    ("desired_number_scheduled", "desiredNumberScheduled"),
    ("number_ready", "numberReady"),
    ("observed_generation", "observedGeneration"),
    ("updated_number_scheduled", "updatedNumberScheduled"),
    ("number_available", "numberAvailable"),
    ("number_unavailable", "numberUnavailable"),
)
_PATH = "spec.updateStrategy.rollingUpdate"


class DaemonSetStrategy(Strategy):
    """Rules of daemon sets. An annotation counts the versions of the template."""

    changes_come_first = True
    counts_generation = True
    has_status = True

    def default(self, obj: apps_v1.DaemonSet) -> None:
        _count_template(obj)
        spec = obj.spec
        default_pod_template(spec.template)
        if not spec.update_strategy.type:
            spec.update_strategy.type = "RollingUpdate"
        if spec.update_strategy.type == "RollingUpdate":
            rolling = spec.update_strategy.rolling_update
            if rolling is None:
                rolling = spec.update_strategy.rolling_update = apps_v1.RollingUpdateDaemonSet()
            if rolling.max_unavailable is None:
                rolling.max_unavailable = 1
            if rolling.max_surge is None:
                rolling.max_surge = 0
        if spec.revision_history_limit is None:
            spec.revision_history_limit = 10

    def prepare_create(self, obj: apps_v1.DaemonSet) -> None:
        super().prepare_create(obj)
        if int(obj.metadata.annotations[_TEMPLATE_GENERATION]) < 1:
            obj.metadata.annotations[_TEMPLATE_GENERATION] = "1"

    def prepare_status_update(self, obj: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> None:
        super().prepare_status_update(obj, old)
        if _TEMPLATE_GENERATION in old.metadata.annotations:
            obj.metadata.annotations[_TEMPLATE_GENERATION] = old.metadata.annotations[_TEMPLATE_GENERATION]

    def prepare_update(self, obj: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> None:
        super().prepare_update(obj, old)
        before = old.metadata.annotations.get(_TEMPLATE_GENERATION, "1")
        count = int(before)
        if obj.spec.template != old.spec.template:
            count += 1
        obj.metadata.annotations[_TEMPLATE_GENERATION] = str(count)

    def validate(self, obj: apps_v1.DaemonSet) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_label_selector(errors, "spec.selector", spec.selector)
        compiled = compile_or_none(spec.selector)
        labels = spec.template.metadata.labels
        if compiled is not None and not compiled.is_everything() and not compiled.matches(labels):
            errors.append(invalid("spec.template.metadata.labels", null_if_empty(labels), MISMATCH))
        if spec.selector is not None and not spec.selector.match_labels and not spec.selector.match_expressions:
            errors.append(invalid("spec.selector", spec.selector, "empty selector is invalid for daemonset"))
        check_pod_template(errors, "spec.template", spec.template)
        check_runs_for_ever(errors, spec.template, "DaemonSet")
        check_not_negative(errors, "spec.minReadySeconds", spec.min_ready_seconds)
        _check_update_strategy(errors, spec.update_strategy)
        check_not_negative(errors, "spec.revisionHistoryLimit", spec.revision_history_limit)
        return errors

    def validate_update(self, obj: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.selector", obj.spec.selector, old.spec.selector)
        return errors

    def validate_status_update(self, obj: apps_v1.DaemonSet, old: apps_v1.DaemonSet) -> list[FieldError]:
        errors: list[FieldError] = []
        check_counts(errors, obj.status, _COUNTS)
        check_collision_count(errors, obj.status.collision_count, old.status.collision_count)
        return errors

    def warnings(self, obj: apps_v1.DaemonSet, old: apps_v1.DaemonSet | None) -> list[str]:
        return template_warnings("spec.template", obj.spec.template, old.spec.template if old is not None else None)


def _count_template(obj: apps_v1.DaemonSet) -> None:
    """The annotation as Kubernetes reads and writes it: a number, 0 where it is left out. Raises DecodeError for anything else."""
    given = obj.metadata.annotations.get(_TEMPLATE_GENERATION)
    text = "0" if given is None else str(_read_number(given))
    if text != given:
        obj.metadata.annotations = {**obj.metadata.annotations, _TEMPLATE_GENERATION: text}


def _read_number(text: str) -> int:
    """A 64-bit number as Go reads it. Raises DecodeError."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise DecodeError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
    number = int(f"{found[1]}{found[2] or 0}") if len(found[2]) <= len(str(_INT64)) else _INT64
    if not -_INT64 <= number < _INT64:
        raise DecodeError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return number


def _check_update_strategy(errors: list[FieldError], strategy: apps_v1.DaemonSetUpdateStrategy) -> None:
    if strategy.type == "OnDelete":
        return
    if strategy.type != "RollingUpdate":
        errors.append(
            unsupported(
                "spec.updateStrategy",
                go_struct(spelled_out(strategy, "max_unavailable", "max_surge")),
                ("RollingUpdate", "OnDelete"),
            )
        )
        return
    rolling = strategy.rolling_update
    if rolling is None:
        errors.append(required(_PATH))
        return
    unavailable = check_rolling_amount(errors, f"{_PATH}.maxUnavailable", rolling.max_unavailable)
    surge = check_rolling_amount(errors, f"{_PATH}.maxSurge", rolling.max_surge)
    if unavailable and surge:
        errors.append(invalid(f"{_PATH}.maxSurge", rolling.max_surge, "may not be set when maxUnavailable is non-zero"))
    elif not unavailable and not surge:
        errors.append(required(f"{_PATH}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


STRATEGY = DaemonSetStrategy()
