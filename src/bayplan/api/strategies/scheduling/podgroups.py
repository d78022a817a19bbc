"""Pod groups: pods that are scheduled together or not at all."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.api.errors import FieldError
from bayplan.api.feature_gates import WORKLOAD_PREEMPTION
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation.fields import check_conditions, check_unchanged
from bayplan.api.validation.pod_groups import apply_gates, check_gated, check_policy


class PodGroupStrategy(Strategy):
    """Rules of pod groups: the spec never changes."""

    counts_generation = True
    has_status = True
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    has_gated_fields = True

    def apply_gates(
        self, obj: scheduling_v1alpha2.PodGroup, old: scheduling_v1alpha2.PodGroup | None, gates: Collection[str]
    ) -> None:
        apply_gates(obj.spec, old.spec if old is not None else None, gates)
        if old is None and WORKLOAD_PREEMPTION in gates and obj.spec.disruption_mode is None:
            obj.spec.disruption_mode = "Pod"

    def validate(self, obj: scheduling_v1alpha2.PodGroup) -> list[FieldError]:
        errors: list[FieldError] = []
        check_policy(errors, "spec.schedulingPolicy", obj.spec.scheduling_policy)
        check_gated(errors, "spec", obj.spec)
        return errors

    def validate_update(self, obj: scheduling_v1alpha2.PodGroup, old: scheduling_v1alpha2.PodGroup) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec", obj.spec, old.spec)
        return errors

    def validate_status_update(
        self, obj: scheduling_v1alpha2.PodGroup, old: scheduling_v1alpha2.PodGroup
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_conditions(errors, "status.conditions", obj.status.conditions)
        return errors


STRATEGY = PodGroupStrategy()
