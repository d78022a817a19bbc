"""Pod disruption budgets."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import policy_v1
from bayplan.api.validation.fields import (
    check_at_most_hundred_percent,
    check_conditions,
    check_int_or_percent,
    check_label_selector,
    check_not_negative,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.meta import UpdateChecks

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(Strategy):
    """Rules of pod disruption budgets."""

    status_checks = UpdateChecks(change=0)
    knows_finalizers = False
    counts_generation = True
    has_status = True
    allow_unconditional_update = False

    def metadata_rule(self, obj: policy_v1.PodDisruptionBudget) -> str | None:
        return None

    def validate(self, obj: policy_v1.PodDisruptionBudget) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if spec.min_available is not None and spec.max_unavailable is not None:
            errors.append(invalid("spec", go_struct(spec), "minAvailable and maxUnavailable cannot be both set"))
        for name, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
            if value is not None:
                check_int_or_percent(errors, f"spec.{name}", value)
                check_at_most_hundred_percent(errors, f"spec.{name}", value)
        check_label_selector(errors, "spec.selector", spec.selector)
        policy = spec.unhealthy_pod_eviction_policy
        if policy is not None and policy not in _POLICIES:
            errors.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return errors

    def validate_status_update(
        self, obj: policy_v1.PodDisruptionBudget, old: policy_v1.PodDisruptionBudget
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_conditions(errors, "status.conditions", obj.status.conditions)
        for field, value in (
            ("disruptionsAllowed", obj.status.disruptions_allowed),
            ("currentHealthy", obj.status.current_healthy),
            ("desiredHealthy", obj.status.desired_healthy),
            ("expectedPods", obj.status.expected_pods),
        ):
            check_not_negative(errors, f"status.{field}", value)
        return errors


STRATEGY = PodDisruptionBudgetStrategy()
