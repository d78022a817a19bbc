"""Mutating admission policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.errors import FieldError, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.validation.admission_rules import (
    FAILURE_POLICIES,
    check_match_conditions,
    check_match_resources,
    check_mutated_operations,
    check_param_kind,
    check_variables,
    compiler_of,
    default_match_resources,
    expression_error,
)
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.meta import UpdateChecks

if TYPE_CHECKING:
    from bayplan.api.cel.compilation import Compiler

_MAKES = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}
"""What the expression of each type of patch evaluates to."""
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")


class MutatingAdmissionPolicyStrategy(Strategy):
    """Rules of mutating admission policies."""

    update_checks = UpdateChecks(whole=1, change=0)
    knows_finalizers = False
    counts_generation = True
    allow_unconditional_update = False

    def default(self, obj: types.MutatingAdmissionPolicy) -> None:
        if obj.spec.failure_policy is None:
            obj.spec.failure_policy = "Fail"
        if obj.spec.match_constraints is not None:
            default_match_resources(obj.spec.match_constraints)

    def validate(self, obj: types.MutatingAdmissionPolicy) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if spec.failure_policy not in FAILURE_POLICIES:
            errors.append(unsupported("spec.failurePolicy", spec.failure_policy, FAILURE_POLICIES))
        if spec.param_kind is not None:
            check_param_kind(errors, "spec.paramKind", spec.param_kind)
        if spec.match_constraints is None:
            errors.append(required("spec.matchConstraints"))
        else:
            check_match_resources(errors, "spec.matchConstraints", spec.match_constraints, needs_rules=True)
            check_mutated_operations(
                errors, "spec.matchConstraints.resourceRules", spec.match_constraints.resource_rules
            )
        check_match_conditions(errors, "spec.matchConditions", spec.match_conditions, spec.param_kind)
        compiler = compiler_of(spec.param_kind, has_variables=True)
        check_variables(errors, "spec.variables", spec.variables, compiler)
        if not spec.mutations:
            errors.append(required("spec.mutations", "mutations must contain at least one item"))
        for index, mutation in enumerate(spec.mutations):
            _check_mutation(errors, f"spec.mutations[{index}]", mutation, compiler)
        policy = spec.reinvocation_policy
        if not policy:
            errors.append(required("spec.reinvocationPolicy"))
        elif policy not in ("IfNeeded", "Never"):
            errors.append(unsupported("spec.reinvocationPolicy", policy, ("IfNeeded", "Never")))
        return errors


def _check_mutation(errors: Errors, path: str, mutation: types.Mutation, compiler: Compiler) -> None:
    kinds = {
        "ApplyConfiguration": ("applyConfiguration", mutation.apply_configuration),
        "JSONPatch": ("jsonPatch", mutation.json_patch),
    }
    if not mutation.patch_type:
        errors.append(required(f"{path}.patchType"))
        return
    if mutation.patch_type not in kinds:
        errors.append(unsupported(f"{path}.patchType", mutation.patch_type, _PATCH_TYPES))
        return
    name, patch = kinds.pop(mutation.patch_type)
    if patch is None:
        errors.append(required(f"{path}.{name}", f"must be specified when patchType is {mutation.patch_type}"))
    elif not patch.expression.strip():
        errors.append(required(f"{path}.{name}.expression"))
    elif problem := compiler.patch_problem(patch.expression, _MAKES[mutation.patch_type]):
        errors.append(expression_error(f"{path}.{name}.expression", patch.expression, problem))
    ((other, unwanted),) = kinds.values()
    if unwanted is not None:
        text = f"must not be specified when patchType is {mutation.patch_type}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", text))


STRATEGY = MutatingAdmissionPolicyStrategy()
