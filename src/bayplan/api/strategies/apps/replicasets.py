"""Replica sets."""

from __future__ import annotations

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apps_v1
from bayplan.api.validation.fields import check_not_negative, check_unchanged
from bayplan.api.validation.pods.pod_warnings import owner_name_warnings, template_warnings
from bayplan.api.validation.workloads import (
    check_counts,
    check_not_above_replicas,
    check_runs_for_ever,
    check_selector_and_template,
)

REPLICA_COUNTS = (
    ("replicas", "replicas"),
    ("fully_labeled_replicas", "fullyLabeledReplicas"),
    ("ready_replicas", "readyReplicas"),
    ("available_replicas", "availableReplicas"),
    ("observed_generation", "observedGeneration"),
)


class ReplicaSetStrategy(Strategy):
    """Rules of replica sets."""

    counts_generation = True
    has_status = True

    def default(self, obj: apps_v1.ReplicaSet) -> None:
        default_pod_template(obj.spec.template)
        if obj.spec.replicas is None:
            obj.spec.replicas = 1

    def validate(self, obj: apps_v1.ReplicaSet) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_not_negative(errors, "spec.replicas", spec.replicas)
        check_not_negative(errors, "spec.minReadySeconds", spec.min_ready_seconds)
        if check_selector_and_template(errors, spec.selector, spec.template, "deployment"):
            check_runs_for_ever(errors, spec.template, "ReplicaSet")
        return errors

    def validate_update(self, obj: apps_v1.ReplicaSet, old: apps_v1.ReplicaSet) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.selector", obj.spec.selector, old.spec.selector)
        return errors

    def validate_status_update(self, obj: apps_v1.ReplicaSet, old: apps_v1.ReplicaSet) -> list[FieldError]:
        errors: list[FieldError] = []
        check_counts(errors, obj.status, REPLICA_COUNTS)
        check_not_above_replicas(errors, obj.status, REPLICA_COUNTS[1:4])
        return errors

    def warnings(self, obj: apps_v1.ReplicaSet, old: apps_v1.ReplicaSet | None) -> list[str]:
        if old is not None and old.metadata.generation == obj.metadata.generation:
            return []
        named = owner_name_warnings(obj.metadata.name) if old is None else []
        return named + template_warnings("spec.template", obj.spec.template)


STRATEGY = ReplicaSetStrategy()
