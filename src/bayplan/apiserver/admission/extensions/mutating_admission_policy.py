"""MutatingAdmissionPolicy: policies in the Common Expression Language that change objects.

One is asked after the other; each sees what those before it made of the object. If one changes something, those before it that want to see that are asked
again, once. Source: Kubernetes' `apiserver/pkg/admission/plugin/policy/mutating`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.codec import DecodeError, decode_reporting, encode
from bayplan.api.conversions.kinds import WebhookNeeded
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import ApiError, forbidden_error, internal_error
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.seen import in_version, take_over
from bayplan.apiserver.managed_fields.diff import type_of
from bayplan.apiserver.policies.active import ActivePolicies, Invocation, Policy, invocations
from bayplan.apiserver.policies.inputs import bindings_of
from bayplan.apiserver.policies.matching import is_exempt
from bayplan.apiserver.policies.mutations import CompiledMutations, MutationError, Tree

_INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a policy could not be followed."""

    message: str
    reason: str = ""


class MutatingAdmissionPolicy(AdmissionPlugin):
    """See the module."""

    name = "MutatingAdmissionPolicy"

    def __init__(self) -> None:
        self._policies = ActivePolicies("MutatingAdmissionPolicy", CompiledMutations)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        """All but policies themselves."""
        return not is_exempt(kind)

    def admit(self, request: AdmissionRequest) -> None:
        """Follow all policies. Raises ApiError for failures that matter."""
        policies = self._policies.current(request.call.context)
        obj = request.obj
        if not policies or obj is None or not isinstance(obj, request.kind.type):
            return
        before = (obj.metadata, obj.content) if isinstance(obj, CustomObject) else None
        try:
            self._follow_all(policies, request)
        except WebhookNeeded:
            if before is not None:
                obj.metadata, obj.content = before
            raise  # and this is done again

    def _follow_all(self, policies: Sequence[Policy[CompiledMutations]], request: AdmissionRequest) -> None:
        calls = [(policy, one) for policy in policies for one in invocations(policy, request)]
        failures: list[_Failure] = []
        again: list[tuple[Policy[CompiledMutations], Invocation]] = []
        before: list[tuple[Policy[CompiledMutations], Invocation]] = []
        for policy, one in calls:
            asked, changed = _follow(policy, one, request, failures)
            if changed:
                again += [each for each in before if each not in again]
            if asked and policy.compiled.may_be_repeated:
                before.append((policy, one))
        for policy, one in again:
            _follow(policy, one, request, failures)
        if failures:
            raise _refusal(request, failures)


def _follow(
    policy: Policy[CompiledMutations], one: Invocation, request: AdmissionRequest, failures: list[_Failure]
) -> tuple[bool, bool]:
    """Whether a policy applies, and whether it changed the object. What goes wrong is noted, if it matters."""
    named = f"'{policy.name}' with binding '{one.binding.name}'" if one.binding is not None else f'"{policy.name}"'
    shown = f"policy {named} denied request:"
    if one.problem or one.kind is None:
        failures.append(_Failure(f"{shown} {one.problem}"))
        return False, False
    applies, problem = policy.compiled.applies({**bindings_of(request, one.kind), "params": one.param})
    problems = [problem] if problem else []
    changed = False
    clock, metrics = request.call.context.clock, request.call.context.admission_metrics
    for index in range(len(policy.compiled.mutations) if applies else 0):
        bindings = {**bindings_of(request, one.kind), "params": one.param}
        tree = in_version(request, request.obj, one.kind) or {}
        started, problem = clock.monotonic(), ""
        try:
            new = policy.compiled.mutated(index, tree, type_of(one.kind.type), bindings)
        except MutationError as error:
            problem = str(error)
            problems.append(problem)
            continue
        finally:
            name = one.binding.name if one.binding is not None else ""
            metrics.policies.mutated(policy.name, name, problem, clock.monotonic() - started)
        if new != tree:
            changed = True
            take_over(request, _decoded(request, new, one.kind), one.kind)
    if not policy.compiled.ignores_failures:
        failures += [_Failure(f"{shown} {text}", _INVALID) for text in problems]
    return applies, changed


def _decoded(request: AdmissionRequest, tree: Tree, kind: Kind) -> Any:
    """An object of a tree. Raises ApiError (500) for what is none of the kind, or has fields that built-in kinds do not have."""
    gates = request.call.context.settings.feature_gates
    try:
        found, dropped = decode_reporting(kind.type, encode(tree), gates)
    except DecodeError as error:
        raise internal_error(str(error)) from error
    if dropped and not kind.is_custom:
        raise internal_error(f"strict decoding error: {', '.join(dropped)}")
    return found


def _refusal(request: AdmissionRequest, failures: list[_Failure]) -> ApiError:
    kind = request.call.kind
    error = forbidden_error(kind.plural, kind.group, request.name, "admission request denied by policy")
    error.status.message = failures[0].message
    error.status.reason = failures[0].reason or error.status.reason
    if error.status.details is not None:
        error.status.details.causes = tuple(meta_v1.StatusCause(message=one.message) for one in failures)
    return error
