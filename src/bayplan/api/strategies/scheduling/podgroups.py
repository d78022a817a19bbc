"""Pod groups: pods that are scheduled together or not at all. What only newer versions say of them is in an annotation (`conversion_pod_groups`)."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.api.conversions import pod_groups as conversion
from bayplan.api.errors import FieldError, invalid
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation.fields import check_conditions, check_unchanged
from bayplan.api.validation.newer_pod_groups import check_group, gate_group
from bayplan.api.validation.pod_groups import DISRUPTION_MODES, apply_gates
from bayplan.api.validation.pod_groups import check_group as check_pod_group


class PodGroupStrategy(Strategy):
    """Rules of pod groups: the spec never changes."""

    has_status = True
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    has_gated_fields = True
    checks_served_version = True

    def apply_gates(
        self, obj: scheduling_v1alpha2.PodGroup, old: scheduling_v1alpha2.PodGroup | None, gates: Collection[str]
    ) -> None:
        if conversion.has_kept(obj.metadata):
            newer = conversion.group_to_v1beta1(obj)
            gate_group(newer, conversion.group_to_v1beta1(old) if old is not None else None, gates)
            gated = conversion.group_to_v1alpha2(newer)
            obj.spec, obj.metadata.annotations = gated.spec, gated.metadata.annotations
        apply_gates(obj.spec, old.spec if old is not None else None, gates)

    def default(self, obj: scheduling_v1alpha2.PodGroup) -> None:
        if obj.spec.disruption_mode is None:
            obj.spec.disruption_mode = DISRUPTION_MODES[0]

    def validate(self, obj: scheduling_v1alpha2.PodGroup) -> list[FieldError]:
        return _kept_errors(obj) if conversion.has_kept(obj.metadata) else []

    def validate_create(self, obj: scheduling_v1alpha2.PodGroup) -> list[FieldError]:
        errors: list[FieldError] = []
        check_pod_group(errors, obj.spec, None)
        return errors

    def validate_update(self, obj: scheduling_v1alpha2.PodGroup, old: scheduling_v1alpha2.PodGroup) -> list[FieldError]:
        errors: list[FieldError] = []
        check_pod_group(errors, obj.spec, old.spec)
        check_unchanged(errors, conversion.KEPT_PATH, conversion.kept(obj), conversion.kept(old))
        return errors

    def validate_status_update(
        self, obj: scheduling_v1alpha2.PodGroup, old: scheduling_v1alpha2.PodGroup
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_conditions(errors, "status.conditions", obj.status.conditions)
        return errors


def _kept_errors(obj: scheduling_v1alpha2.PodGroup) -> list[FieldError]:
    """What is wrong with the annotation, as a client of `v1alpha2` writes it."""
    try:
        conversion.check_kept(obj)
    except conversion.KeptError as error:
        return [invalid(conversion.KEPT_PATH, conversion.kept(obj), str(error))]
    errors: list[FieldError] = []
    check_group(errors, conversion.group_to_v1beta1(obj))
    return errors


STRATEGY = PodGroupStrategy()
