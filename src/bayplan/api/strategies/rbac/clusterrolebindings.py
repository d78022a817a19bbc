"""Cluster role bindings."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import rbac_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.rbac import check_binding, check_role_unchanged, default_binding


class ClusterRoleBindingStrategy(Strategy):
    """Rules of cluster role bindings: the role never changes."""

    update_checks = UpdateChecks(whole=1)
    allow_create_on_update = True
    name_is_checked_as = "whole-path-segment"

    def default(self, obj: rbac_v1.ClusterRoleBinding) -> None:
        default_binding(obj)

    def validate(self, obj: rbac_v1.ClusterRoleBinding) -> list[FieldError]:
        errors: list[FieldError] = []
        check_binding(errors, obj, ("ClusterRole",), namespaced=False)
        return errors

    def validate_update(self, obj: rbac_v1.ClusterRoleBinding, old: rbac_v1.ClusterRoleBinding) -> list[FieldError]:
        errors: list[FieldError] = []
        check_role_unchanged(errors, obj, old)
        return errors


STRATEGY = ClusterRoleBindingStrategy()
