"""Bindings of validating admission policies."""

from __future__ import annotations

from bayplan.api.errors import FieldError, duplicate, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.validation.admission_rules import check_match_resources, check_param_ref, default_match_resources
from bayplan.api.validation.fields import Errors, check_format, repeats
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

_ACTIONS = ("Audit", "Deny", "Warn")
_DENY_AND_WARN = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


class ValidatingAdmissionPolicyBindingStrategy(Strategy):
    """Rules of bindings of validating admission policies."""

    update_checks = UpdateChecks(whole=1, change=0)
    knows_finalizers = False
    counts_generation = True
    allow_unconditional_update = False

    def default(self, obj: types.ValidatingAdmissionPolicyBinding) -> None:
        if obj.spec.match_resources is not None:
            default_match_resources(obj.spec.match_resources)

    def validate(self, obj: types.ValidatingAdmissionPolicyBinding) -> list[FieldError]:
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
        _check_actions(errors, "spec.validationActions", spec.validation_actions)
        return errors


def _check_actions(errors: Errors, path: str, actions: tuple[str, ...]) -> None:
    again = repeats(actions)
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(unsupported(f"{path}[{index}]", action, _ACTIONS))
        if index in again:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        errors.append(invalid(path, actions, _DENY_AND_WARN))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))


STRATEGY = ValidatingAdmissionPolicyBindingStrategy()
