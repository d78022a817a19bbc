"""Workloads as Kubernetes 1.37 has them: templates of pod groups, or trees of templates. They are kept in `v1alpha2`."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.validation.newer_pod_groups import Workload, check_workload, check_workload_update


class NewerWorkloadStrategy(Strategy):
    """Rules of workloads in `v1beta1` and `v1alpha3`."""

    def validate(self, obj: Workload) -> list[FieldError]:
        errors: list[FieldError] = []
        check_workload(errors, obj)
        return errors

    def validate_update(self, obj: Workload, old: Workload) -> list[FieldError]:
        errors: list[FieldError] = []
        check_workload_update(errors, obj, old)
        return errors


STRATEGY = NewerWorkloadStrategy()
