"""ValidatingAdmissionPolicy: policies in the Common Expression Language that refuse requests, or warn.

There is no audit log that failures could be noted in (action `Audit`). Source: Kubernetes' `apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.policies.active import ActivePolicies, Binding, Policy, as_seen, invocations
from bayplan.apiserver.policies.inputs import bindings_of
from bayplan.apiserver.policies.matching import is_exempt
from bayplan.apiserver.policies.verdicts import CompiledPolicy, Denial

_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = "Invalid"
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
        denials = [denial for policy in policies for denial in _denials(policy, seen)]
        if denials:
            raise _refusal(request, *denials[0])


def _denials(policy: Policy[CompiledPolicy], request: AdmissionRequest) -> Iterator[tuple[str, Denial]]:
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
            for denial in policy.compiled.judge({**given, "params": one.param}):
                yield from _acted_on(one.binding, shown, denial, request)


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
