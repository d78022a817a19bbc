"""Workloads: templates of pod groups."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.pod_groups import apply_gates, check_templates


class WorkloadStrategy(Strategy):
    """Rules of workloads: templates never change."""

    counts_generation = True
    has_gated_fields = True

    def apply_gates(
        self, obj: scheduling_v1alpha2.Workload, old: scheduling_v1alpha2.Workload | None, gates: Collection[str]
    ) -> None:
        before = {template.name: template for template in old.spec.pod_group_templates} if old is not None else {}
        for template in obj.spec.pod_group_templates:
            apply_gates(template, before.get(template.name), gates)

    def validate(self, obj: scheduling_v1alpha2.Workload) -> list[FieldError]:
        errors: list[FieldError] = []
        check_templates(errors, "spec.podGroupTemplates", obj.spec.pod_group_templates)
        return errors

    def validate_update(self, obj: scheduling_v1alpha2.Workload, old: scheduling_v1alpha2.Workload) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.podGroupTemplates", obj.spec.pod_group_templates, old.spec.pod_group_templates)
        return errors


STRATEGY = WorkloadStrategy()
