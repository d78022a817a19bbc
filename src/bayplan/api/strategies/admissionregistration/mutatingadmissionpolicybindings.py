"""Bindings of mutating admission policies."""

from __future__ import annotations

from bayplan.api.errors import FieldError, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.validation.admission_rules import (
    check_match_resources,
    check_mutated_operations,
    check_param_ref,
    default_match_resources,
)
from bayplan.api.validation.fields import check_format
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats


class MutatingAdmissionPolicyBindingStrategy(Strategy):
    """Rules of bindings of mutating admission policies."""

    update_checks = UpdateChecks(whole=1, change=0)
    knows_finalizers = False
    counts_generation = True
    allow_unconditional_update = False

    def default(self, obj: types.MutatingAdmissionPolicyBinding) -> None:
        if obj.spec.match_resources is not None:
            default_match_resources(obj.spec.match_resources)

    def validate(self, obj: types.MutatingAdmissionPolicyBinding) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if not spec.policy_name:
            errors.append(required("spec.policyName"))
        else:
            check_format(errors, "spec.policyName", spec.policy_name, formats.dns_subdomain)
        if spec.param_ref is not None:
            check_param_ref(errors, "spec.paramRef", spec.param_ref)
        if spec.match_resources is not None:
            check_match_resources(errors, "spec.matchResources", spec.match_resources, needs_rules=False)
            check_mutated_operations(errors, "spec.matchResources.resourceRules", spec.match_resources.resource_rules)
        return errors


STRATEGY = MutatingAdmissionPolicyBindingStrategy()
