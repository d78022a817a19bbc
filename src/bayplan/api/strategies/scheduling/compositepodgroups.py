"""Composite groups: groups of pod groups that are placed together. Only Kubernetes 1.37 has them."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.api.errors import FieldError
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1alpha3
from bayplan.api.validation.fields import check_conditions
from bayplan.api.validation.newer_pod_groups import Composite, check_composite, check_composite_update, gate_composite


class CompositePodGroupStrategy(Strategy):
    """Rules of composite groups: the spec never changes."""

    counts_generation = True
    has_status = True
    allow_unconditional_update = False
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    has_gated_fields = True

    def default(self, obj: Composite) -> None:
        if obj.spec.disruption_mode is None:
            single = scheduling_v1alpha3.SingleCompositeDisruptionMode()
            obj.spec.disruption_mode = scheduling_v1alpha3.CompositeDisruptionMode(single=single)

    def apply_gates(self, obj: Composite, old: Composite | None, gates: Collection[str]) -> None:
        gate_composite(obj, old, gates)

    def validate(self, obj: Composite) -> list[FieldError]:
        errors: list[FieldError] = []
        check_composite(errors, obj)
        return errors

    def validate_update(self, obj: Composite, old: Composite) -> list[FieldError]:
        errors: list[FieldError] = []
        check_composite_update(errors, obj, old)
        return errors

    def validate_status_update(self, obj: Composite, old: Composite) -> list[FieldError]:
        errors: list[FieldError] = []
        check_conditions(errors, "status.conditions", obj.status.conditions)
        return errors


STRATEGY = CompositePodGroupStrategy()
