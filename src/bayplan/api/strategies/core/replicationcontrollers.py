"""Replication controllers."""

from __future__ import annotations

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError, required
from bayplan.api.selectors import labels as selectors
from bayplan.api.strategies.apps.replicasets import REPLICA_COUNTS
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import check_not_negative
from bayplan.api.validation.pods.pod_spec import check_pod_template
from bayplan.api.validation.pods.pod_warnings import owner_name_warnings, template_warnings
from bayplan.api.validation.workloads import (
    check_counts,
    check_not_above_replicas,
    check_runs_for_ever,
    check_template_labels,
)


class ReplicationControllerStrategy(Strategy):
    """Rules of replication controllers."""

    name_is_checked_as = "long-name"
    checks_generated_names = False
    counts_generation = True
    has_status = True
    orphans_dependents = True
    selectable_field_names = frozenset(("status.replicas",))

    def default(self, obj: core_v1.ReplicationController) -> None:
        spec = obj.spec
        if spec.template is not None:
            default_pod_template(spec.template)
            labels = spec.template.metadata.labels
            if labels:
                if not spec.selector:
                    spec.selector = dict(labels)
                if not obj.metadata.labels:
                    obj.metadata.labels = dict(labels)
        if spec.replicas is None:
            spec.replicas = 1

    def validate(self, obj: core_v1.ReplicationController) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_not_negative(errors, "spec.minReadySeconds", spec.min_ready_seconds)
        if not spec.selector:
            errors.append(required("spec.selector"))
        check_not_negative(errors, "spec.replicas", spec.replicas)
        if spec.template is None:
            errors.append(required("spec.template"))
            return errors
        if spec.selector:
            check_template_labels(errors, selectors.from_map(spec.selector), spec.template)
        check_pod_template(errors, "spec.template", spec.template)
        check_runs_for_ever(errors, spec.template, "ReplicationController")
        return errors

    def validate_status_update(
        self, obj: core_v1.ReplicationController, old: core_v1.ReplicationController
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_counts(errors, obj.status, REPLICA_COUNTS)
        check_not_above_replicas(errors, obj.status, REPLICA_COUNTS[1:4])
        return errors

    def warnings(self, obj: core_v1.ReplicationController, old: core_v1.ReplicationController | None) -> list[str]:
        if old is not None and old.metadata.generation == obj.metadata.generation:
            return []
        named = owner_name_warnings(obj.metadata.name) if old is None else []
        template = obj.spec.template if old is None else old.spec.template  # Kubernetes looks at the former one, too
        return named + (template_warnings("spec.template", template) if template is not None else [])

    def selectable_fields(self, obj: core_v1.ReplicationController) -> dict[str, str]:
        return {"status.replicas": str(obj.status.replicas)}


STRATEGY = ReplicationControllerStrategy()
