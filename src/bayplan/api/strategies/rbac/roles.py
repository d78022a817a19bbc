"""Roles."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import rbac_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.rbac import check_rules


class RoleStrategy(Strategy):
    """Rules of roles."""

    update_checks = UpdateChecks(whole=1)
    allow_create_on_update = True
    name_is_checked_as = "whole-path-segment"

    def validate(self, obj: rbac_v1.Role) -> list[FieldError]:
        errors: list[FieldError] = []
        check_rules(errors, obj.rules, namespaced=True)
        return errors


STRATEGY = RoleStrategy()
