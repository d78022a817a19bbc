"""Deployments."""

from __future__ import annotations

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apps_v1
from bayplan.api.validation.fields import (
    check_at_most_hundred_percent,
    check_int_or_percent,
    check_not_negative,
    check_unchanged,
    int_or_percent_value,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.pods.pod_warnings import owner_name_warnings, template_warnings
from bayplan.api.validation.workloads import (
    check_collision_count,
    check_counts,
    check_not_above_replicas,
    check_runs_for_ever,
    check_selector_and_template,
    spelled_out,
)

_COUNTS = (
    ("observed_generation", "observedGeneration"),
    ("replicas", "replicas"),
    ("updated_replicas", "updatedReplicas"),
    ("ready_replicas", "readyReplicas"),
    ("available_replicas", "availableReplicas"),
    ("unavailable_replicas", "unavailableReplicas"),
    ("terminating_replicas", "terminatingReplicas"),
)
_PATH = "spec.strategy.rollingUpdate"


class DeploymentStrategy(Strategy):
    """Rules of deployments."""

    reset_by_status = of_paths(("f:spec",), ("f:metadata", "f:labels"))
    counts_generation = True
    has_status = True

    def default(self, obj: apps_v1.Deployment) -> None:
        spec = obj.spec
        default_pod_template(spec.template)
        if spec.replicas is None:
            spec.replicas = 1
        if not spec.strategy.type:
            spec.strategy.type = "RollingUpdate"
        if spec.strategy.type == "RollingUpdate":
            rolling = spec.strategy.rolling_update
            if rolling is None:
                rolling = spec.strategy.rolling_update = apps_v1.RollingUpdateDeployment()
            if rolling.max_unavailable is None:
                rolling.max_unavailable = "25%"
            if rolling.max_surge is None:
                rolling.max_surge = "25%"
        if spec.revision_history_limit is None:
            spec.revision_history_limit = 10
        if spec.progress_deadline_seconds is None:
            spec.progress_deadline_seconds = 600

    def spec_changed(self, obj: apps_v1.Deployment, old: apps_v1.Deployment) -> bool:
        return obj.spec != old.spec or obj.metadata.annotations != old.metadata.annotations

    def validate(self, obj: apps_v1.Deployment) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_not_negative(errors, "spec.replicas", spec.replicas)
        if check_selector_and_template(errors, spec.selector, spec.template, "deployment"):
            check_runs_for_ever(errors, spec.template, "ReplicaSet")
        _check_strategy(errors, spec.strategy)
        check_not_negative(errors, "spec.minReadySeconds", spec.min_ready_seconds)
        check_not_negative(errors, "spec.revisionHistoryLimit", spec.revision_history_limit)
        deadline = spec.progress_deadline_seconds
        if deadline is not None:
            check_not_negative(errors, "spec.progressDeadlineSeconds", deadline)
            if deadline <= spec.min_ready_seconds:
                errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        return errors

    def validate_update(self, obj: apps_v1.Deployment, old: apps_v1.Deployment) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.selector", obj.spec.selector, old.spec.selector)
        return errors

    def validate_status_update(self, obj: apps_v1.Deployment, old: apps_v1.Deployment) -> list[FieldError]:
        errors: list[FieldError] = []
        check_counts(errors, obj.status, _COUNTS)
        check_not_above_replicas(errors, obj.status, (_COUNTS[2], _COUNTS[3], _COUNTS[4]))
        check_collision_count(errors, obj.status.collision_count, old.status.collision_count)
        return errors

    def warnings(self, obj: apps_v1.Deployment, old: apps_v1.Deployment | None) -> list[str]:
        if old is not None and old.metadata.generation == obj.metadata.generation:
            return []
        named = owner_name_warnings(obj.metadata.name) if old is None else []
        return named + template_warnings("spec.template", obj.spec.template)


def _check_strategy(errors: list[FieldError], strategy: apps_v1.DeploymentStrategy) -> None:
    rolling = strategy.rolling_update
    if strategy.type == "Recreate":
        if rolling is not None:
            errors.append(forbidden(_PATH, "may not be specified when strategy `type` is 'Recreate'"))
    elif strategy.type != "RollingUpdate":
        errors.append(
            unsupported(
                "spec.strategy",
                go_struct(spelled_out(strategy, "max_unavailable", "max_surge")),
                ("Recreate", "RollingUpdate"),
            )
        )
    elif rolling is None:
        errors.append(required(_PATH, "this should be defaulted and never be nil"))
    else:
        for name, value in (("maxUnavailable", rolling.max_unavailable), ("maxSurge", rolling.max_surge)):
            if value is not None:
                check_int_or_percent(errors, f"{_PATH}.{name}", value)
        if not int_or_percent_value(rolling.max_unavailable) and not int_or_percent_value(rolling.max_surge):
            errors.append(
                invalid(f"{_PATH}.maxUnavailable", rolling.max_unavailable, "may not be 0 when `maxSurge` is 0")
            )
        if rolling.max_unavailable is not None:
            check_at_most_hundred_percent(errors, f"{_PATH}.maxUnavailable", rolling.max_unavailable)


STRATEGY = DeploymentStrategy()
