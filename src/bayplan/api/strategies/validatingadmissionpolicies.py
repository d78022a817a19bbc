"""Validating admission policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.errors import FieldError, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.validation import formats
from bayplan.api.validation.admission_rules import (
    FAILURE_POLICIES,
    check_expression,
    check_match_conditions,
    check_match_resources,
    check_param_kind,
    check_variables,
    compiler_of,
    default_match_resources,
)
from bayplan.api.validation.fields import Errors

if TYPE_CHECKING:
    from bayplan.api.cel.compilation import Compiler

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")


class ValidatingAdmissionPolicyStrategy(Strategy):
    """Rules of validating admission policies."""

    counts_generation = True
    has_status = True
    allow_unconditional_update = False

    def default(self, obj: types.ValidatingAdmissionPolicy) -> None:
        if obj.spec.failure_policy is None:
            obj.spec.failure_policy = "Fail"
        if obj.spec.match_constraints is not None:
            default_match_resources(obj.spec.match_constraints)

    def validate(self, obj: types.ValidatingAdmissionPolicy) -> list[FieldError]:
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
        check_match_conditions(errors, "spec.matchConditions", spec.match_conditions, spec.param_kind)
        compiler = compiler_of(spec.param_kind, spec.variables)
        check_variables(errors, "spec.variables", spec.variables, compiler)
        if not spec.validations and not spec.audit_annotations:
            text = "validations or auditAnnotations must contain at least one item"
            errors.append(required("spec.validations", text))
            errors.append(required("spec.auditAnnotations", text))
        for index, validation in enumerate(spec.validations):
            _check_validation(errors, f"spec.validations[{index}]", validation, compiler)
        for index, annotation in enumerate(spec.audit_annotations):
            _check_annotation(errors, f"spec.auditAnnotations[{index}]", annotation, obj.metadata.name, compiler)
        return errors


def _check_validation(errors: Errors, path: str, validation: types.Validation, compiler: Compiler) -> None:
    if not validation.expression.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        check_expression(errors, f"{path}.expression", validation.expression, compiler, "bool")
    text = validation.message_expression
    if text.strip():
        check_expression(errors, f"{path}.messageExpression", text, compiler, "string", has_authorizer=False)
    elif text:
        errors.append(invalid(f"{path}.messageExpression", text, "must be non-empty if specified"))
    message = validation.message.strip()
    if validation.message and not message:
        errors.append(invalid(f"{path}.message", validation.message, "message must be non-empty if specified"))
    elif "\n" in message or "\r" in message:
        errors.append(invalid(f"{path}.message", validation.message, "must not contain line breaks"))
    elif "\n" in validation.expression.strip() and not message:
        errors.append(required(f"{path}.message", "message must be specified if expression contains line breaks"))
    if validation.reason is not None and validation.reason not in _REASONS:
        errors.append(unsupported(f"{path}.reason", validation.reason, _REASONS))


def _check_annotation(
    errors: Errors, path: str, annotation: types.AuditAnnotation, policy: str, compiler: Compiler
) -> None:
    if not annotation.key:
        errors.append(required(f"{path}.key"))
    else:
        full = f"{policy}/{annotation.key}"
        errors.extend(invalid(f"{path}.key", full, message) for message in formats.label_key(full))
    if not annotation.value_expression.strip():
        errors.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
    elif problem := compiler.problem(annotation.value_expression.strip(), "string", "null"):
        errors.append(invalid(f"{path}.valueExpression", annotation.value_expression, problem))


STRATEGY = ValidatingAdmissionPolicyStrategy()
