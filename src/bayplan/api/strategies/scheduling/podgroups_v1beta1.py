"""Pod groups as Kubernetes 1.37 has them: what a gang needs may change. They are kept in `v1alpha2`."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1alpha3, scheduling_v1beta1
from bayplan.api.validation.newer_pod_groups import PodGroup, check_group, check_group_update


class NewerPodGroupStrategy(Strategy):
    """Rules of pod groups in `v1beta1` and `v1alpha3`."""

    def default(self, obj: PodGroup) -> None:
        if obj.spec.disruption_mode is None:
            types = scheduling_v1beta1 if isinstance(obj, scheduling_v1beta1.PodGroup) else scheduling_v1alpha3
            obj.spec.disruption_mode = types.DisruptionMode(single=types.SingleDisruptionMode())

    def validate(self, obj: PodGroup) -> list[FieldError]:
        errors: list[FieldError] = []
        check_group(errors, obj)
        return errors

    def validate_update(self, obj: PodGroup, old: PodGroup) -> list[FieldError]:
        errors: list[FieldError] = []
        check_group_update(errors, obj, old)
        return errors


STRATEGY = NewerPodGroupStrategy()
