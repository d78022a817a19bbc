"""Workloads: templates of pod groups. What only newer versions say of them is in an annotation (`conversion_pod_groups`)."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.api.conversions import pod_groups as conversion
from bayplan.api.errors import FieldError, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.newer_pod_groups import check_workload, gate_workload
from bayplan.api.validation.pod_groups import apply_gates
from bayplan.api.validation.pod_groups import check_workload as check_templates


class WorkloadStrategy(Strategy):
    """Rules of workloads: templates never change."""

    has_gated_fields = True
    checks_served_version = True

    def apply_gates(
        self, obj: scheduling_v1alpha2.Workload, old: scheduling_v1alpha2.Workload | None, gates: Collection[str]
    ) -> None:
        if conversion.has_kept(obj.metadata):
            newer = conversion.workload_to_v1beta1(obj)
            gate_workload(newer, conversion.workload_to_v1beta1(old) if old is not None else None, gates)
            gated = conversion.workload_to_v1alpha2(newer)
            obj.spec, obj.metadata.annotations = gated.spec, gated.metadata.annotations
        before = {template.name: template for template in old.spec.pod_group_templates} if old is not None else {}
        for template in obj.spec.pod_group_templates:
            apply_gates(template, before.get(template.name), gates)

    def validate(self, obj: scheduling_v1alpha2.Workload) -> list[FieldError]:
        return _kept_errors(obj) if conversion.has_kept(obj.metadata) else []

    def validate_create(self, obj: scheduling_v1alpha2.Workload) -> list[FieldError]:
        errors: list[FieldError] = []
        if not conversion.has_kept(obj.metadata):
            check_templates(errors, obj.spec, None)
        return errors

    def validate_update(self, obj: scheduling_v1alpha2.Workload, old: scheduling_v1alpha2.Workload) -> list[FieldError]:
        errors: list[FieldError] = []
        check_templates(errors, obj.spec, old.spec)
        check_unchanged(errors, conversion.KEPT_PATH, conversion.kept(obj), conversion.kept(old))
        return errors


def _kept_errors(obj: scheduling_v1alpha2.Workload) -> list[FieldError]:
    """What is wrong with a workload that says more than `v1alpha2` can, as a client of that writes it."""
    try:
        conversion.check_kept(obj)
    except conversion.KeptError as error:
        return [invalid(conversion.KEPT_PATH, conversion.kept(obj), str(error))]
    errors: list[FieldError] = []
    check_workload(errors, conversion.workload_to_v1beta1(obj))
    return errors


STRATEGY = WorkloadStrategy()
