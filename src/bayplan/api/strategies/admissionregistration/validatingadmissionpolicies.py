"""Validating admission policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.errors import FieldError, duplicate, invalid, required, unsupported
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.validation.admission_rules import (
    FAILURE_POLICIES,
    check_expression,
    check_match_conditions,
    check_match_resources,
    check_param_kind,
    check_variables,
    compiler_of,
    default_match_resources,
    expression_error,
)
from bayplan.api.validation.fields import Errors, check_conditions
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

if TYPE_CHECKING:
    from bayplan.api.cel.compilation import Compiler

_MAX_ANNOTATIONS = 20
_LONGEST_EXPRESSION = 5 * 1024
"""Bytes of the expression for the value of an audit annotation."""
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")


class ValidatingAdmissionPolicyStrategy(Strategy):
    """Rules of validating admission policies."""

    update_checks = UpdateChecks(whole=1, change=0)
    status_checks = UpdateChecks(change=0)
    knows_finalizers = False
    counts_generation = True
    has_status = True
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
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
        compiler = compiler_of(spec.param_kind, has_variables=bool(spec.variables))
        check_variables(errors, "spec.variables", spec.variables, compiler)
        if not spec.validations and not spec.audit_annotations:
            text = "validations or auditAnnotations must contain at least one item"
            errors.append(required("spec.validations", text))
            errors.append(required("spec.auditAnnotations", text))
        for index, validation in enumerate(spec.validations):
            _check_validation(errors, f"spec.validations[{index}]", validation, compiler)
        _check_annotations(errors, "spec.auditAnnotations", spec.audit_annotations, obj.metadata.name, compiler)
        return errors

    def validate_status_update(
        self, obj: types.ValidatingAdmissionPolicy, old: types.ValidatingAdmissionPolicy
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        checked = obj.status.type_checking
        for index, warning in enumerate(checked.expression_warnings if checked is not None else ()):
            path = f"status.typeChecking.expressionWarnings[{index}]"
            if not warning.warning:
                errors.append(required(f"{path}.warning"))
            if not warning.field_ref.strip():
                errors.append(required(f"{path}.fieldRef"))
        check_conditions(errors, "status.conditions", obj.status.conditions)
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
        errors.append(invalid(f"{path}.message", validation.message, "must be non-empty if specified"))
    elif "\n" in message or "\r" in message:
        errors.append(invalid(f"{path}.message", validation.message, "must not contain line breaks"))
    if validation.reason is not None and validation.reason not in _REASONS:
        errors.append(unsupported(f"{path}.reason", validation.reason, _REASONS))


def _check_annotations(
    errors: Errors, path: str, annotations: tuple[types.AuditAnnotation, ...], policy: str, compiler: Compiler
) -> None:
    if len(annotations) > _MAX_ANNOTATIONS:
        errors.append(invalid(path, annotations, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"))
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        _check_annotation(errors, f"{path}[{index}]", annotation, policy, compiler)
        if annotation.key in keys:
            errors.append(duplicate(f"{path}[{index}].key", annotation.key))
        keys.add(annotation.key)


def _check_annotation(
    errors: Errors, path: str, annotation: types.AuditAnnotation, policy: str, compiler: Compiler
) -> None:
    if not policy:
        errors.append(invalid(f"{path}.key", annotation.key, "requires metadata.name be non-empty"))
    else:
        full = f"{policy}/{annotation.key}"
        errors.extend(invalid(f"{path}.key", full, message) for message in formats.label_key(full))
    if not annotation.value_expression.strip():
        errors.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
    elif len(annotation.value_expression.strip().encode()) > _LONGEST_EXPRESSION:
        errors.append(required(f"{path}.valueExpression", f"must not exceed {_LONGEST_EXPRESSION} bytes in length"))
    elif problem := compiler.problem(annotation.value_expression.strip(), "string", "null"):
        errors.append(expression_error(f"{path}.valueExpression", annotation.value_expression, problem))


STRATEGY = ValidatingAdmissionPolicyStrategy()
