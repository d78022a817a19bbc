"""Cluster roles."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import meta_v1, rbac_v1
from bayplan.api.validation.fields import check_label_selector
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.rbac import check_rules
from bayplan.api.validation.workloads import compile_or_none

_EMPTY = meta_v1.LabelSelector()


class ClusterRoleStrategy(Strategy):
    """Rules of cluster roles. The rules of an aggregated one are a controller's."""

    update_checks = UpdateChecks(whole=1)
    allow_create_on_update = True
    name_is_checked_as = "whole-path-segment"

    def validate(self, obj: rbac_v1.ClusterRole) -> list[FieldError]:
        errors: list[FieldError] = []
        check_rules(errors, obj.rules, namespaced=False)
        aggregation = obj.aggregation_rule
        if aggregation is not None:
            path = "aggregationRule.clusterRoleSelectors"
            if not aggregation.cluster_role_selectors:
                errors.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
            for index, selector in enumerate(aggregation.cluster_role_selectors):
                if selector == _EMPTY:
                    continue
                check_label_selector(errors, f"{path}[{index}]", selector)
                if compile_or_none(selector) is None:
                    errors.append(invalid(f"{path}[{index}]", None, "invalid label selector."))
        return errors


STRATEGY = ClusterRoleStrategy()
