"""ValidatingAdmissionPolicy: policies in the Common Expression Language that refuse requests, warn, or have it noted in the audit log.

Source: Kubernetes' `apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.extensions.policy_metrics import PolicyMetrics
from bayplan.apiserver.policies.active import ActivePolicies, Binding, Policy, as_seen, invocations
from bayplan.apiserver.policies.inputs import bindings_of
from bayplan.apiserver.policies.matching import is_exempt
from bayplan.apiserver.policies.verdicts import CompiledPolicy, Denial

if TYPE_CHECKING:
    from bayplan.apiserver.audit.record import AuditRecord

_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = "Invalid"
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_MOST_FAILURES = 50
_LONGEST_ANNOTATION = 10 * 1024
"""Bytes."""
_UNPROCESSABLE = 422


class ValidatingAdmissionPolicy(AdmissionPlugin):
    """See the module."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self) -> None:
        self._policies = ActivePolicies("ValidatingAdmissionPolicy", CompiledPolicy)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        """All but policies themselves."""
        return not is_exempt(kind)

    def validate(self, request: AdmissionRequest) -> None:
        """Ask all policies; the first that denies is told. Raises ApiError."""
        policies = self._policies.current(request.call.context)
        if not policies:
            return
        seen = as_seen(request)
        notes = _Notes()
        denials = [denial for policy in policies for denial in _denials(policy, seen, notes)]
        if notes.has_any and request.call.request.audit is not None:
            notes.publish(request.call.request.audit)
        if denials:
            raise _refusal(request, *denials[0])


class _Notes:
    """What policies want noted in the audit log."""

    def __init__(self) -> None:
        self._failures: list[dict[str, Any]] = []
        self._annotations: dict[str, list[str]] = {}

    @property
    def has_any(self) -> bool:
        """Whether there is anything to be noted."""
        return bool(self._failures or self._annotations)

    def failed(self, policy: str, binding: Binding, denial: Denial) -> None:
        """A binding wants a failure noted."""
        self._failures.append(
            {
                "message": denial.message,
                "policy": policy,
                "binding": binding.name,
                "expressionIndex": denial.index,
                "validationActions": list(binding.spec.validation_actions),
            }
        )

    def annotate(self, policy: str, annotations: Mapping[str, str]) -> None:
        """What a policy says itself: several bindings may have several values."""
        for key, value in annotations.items():
            values = self._annotations.setdefault(f"{policy}/{key}", [])
            shortened = value.encode()[:_LONGEST_ANNOTATION].decode(errors="ignore")
            if shortened not in values:
                values.append(shortened)

    def publish(self, record: AuditRecord) -> None:
        """Write it down."""
        for key, values in self._annotations.items():
            record.annotate_admission(key, ", ".join(values))
        if self._failures:
            record.annotate(_FAILURE, msgspec.json.encode(self._failures[:_MOST_FAILURES]).decode())


def _denials(policy: Policy[CompiledPolicy], request: AdmissionRequest, notes: _Notes) -> Iterator[tuple[str, Denial]]:
    """What a policy has against a request, with whose name it is told; warnings are given on the way."""
    given: dict[str, Any] | None = None
    for one in invocations(policy, request):
        shown = f"ValidatingAdmissionPolicy '{policy.name}'"
        if one.binding is not None:
            shown += f" with binding '{one.binding.name}'"
        if one.problem:
            yield shown, Denial(one.problem)
        elif one.binding is not None and one.kind is not None:
            given = given or bindings_of(request, one.kind)
            annotations: dict[str, str] = {}
            ignored: list[str] = []
            context = request.call.context
            started = context.clock.monotonic()
            denials = policy.compiled.judge({**given, "params": one.param}, annotations, ignored)
            if denials or ignored:
                seconds = context.clock.monotonic() - started
                _measure(context.admission_metrics.policies, policy.name, one.binding, denials, ignored, seconds)
            for denial in denials:
                if "Audit" in one.binding.spec.validation_actions and not denial.always_denies:
                    notes.failed(policy.name, one.binding, denial)
                yield from _acted_on(one.binding, shown, denial, request)
            notes.annotate(policy.name, annotations)


def _measure(
    metrics: PolicyMetrics, policy: str, binding: Binding, denials: list[Denial], ignored: list[str], seconds: float
) -> None:
    """Count what came of a policy's expressions. seconds: what all of them took."""
    for problem in ignored:
        metrics.validated(policy, binding.name, problem, "allow", seconds)
    for denial in denials:
        problem = "" if denial.reason else denial.message
        for action in ("Deny",) if denial.always_denies else binding.spec.validation_actions:
            metrics.validated(policy, binding.name, problem, action.lower(), seconds)


def _acted_on(binding: Binding, shown: str, denial: Denial, request: AdmissionRequest) -> Iterator[tuple[str, Denial]]:
    """What a binding makes of a denial."""
    actions = ("Deny",) if denial.always_denies else binding.spec.validation_actions
    if "Warn" in actions:
        request.call.warnings.append(f"Validation failed for {shown}: {denial.message}")
    if "Deny" in actions:
        yield shown, denial


def _refusal(request: AdmissionRequest, shown: str, denial: Denial) -> ApiError:
    message = f"{shown} denied request: {denial.message}"
    kind = request.call.kind
    error = forbidden_error(kind.plural, kind.group, request.name, message)
    reason = denial.reason or _INVALID
    error.status.reason, error.status.code = reason, _CODES.get(reason, _UNPROCESSABLE)
    if error.status.details is not None:
        error.status.details.causes = (meta_v1.StatusCause(message=message),)
    return error
