"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: other people's services that change or refuse requests.

Source of the behaviour: Kubernetes' `apiserver/pkg/admission/plugin/webhook/{mutating,validating}`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from bayplan.api.codec import DecodeError, decode_reporting, encode, to_tree
from bayplan.api.errors import forbidden_error, internal_error
from bayplan.api.kinds import Kind
from bayplan.api.patching.json_patches import PatchError, apply_json_patch
from bayplan.apiserver.admission.chain import CONNECT, CREATE, DELETE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.extensions.webhook_notes import HookNotes
from bayplan.apiserver.admission.seen import in_version, is_whole, resource_of, take_over
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.custom_resources.conversion import resolved
from bayplan.apiserver.simulated.webhooks import is_skipped
from bayplan.apiserver.webhooks.calling import SimulatedTarget, WebhookFailure, ask
from bayplan.apiserver.webhooks.matching import Hook, Hooks, is_exempt, version_asked
from bayplan.apiserver.webhooks.reviews import Answer, Question, Tree, refusal

if TYPE_CHECKING:
    from bayplan.apiserver.tracing import Tracing

logger = logging.getLogger(__name__)

_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}
_PATCH = "PATCH"


class MutatingAdmissionWebhook(AdmissionPlugin):
    """Asks one after the other; each sees what those before it changed."""

    name = "MutatingAdmissionWebhook"

    def __init__(self) -> None:
        self._hooks = Hooks("MutatingWebhookConfiguration")

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        """All but the configurations themselves."""
        return not is_exempt(kind)

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Ask, if there is anybody to ask. Raises ApiError."""
        hooks = self._hooks.current(request.call.context)
        return _mutate(request, hooks) if _are_asked(hooks, request) else None


class ValidatingAdmissionWebhook(AdmissionPlugin):
    """Asks all at the same time; any may refuse."""

    name = "ValidatingAdmissionWebhook"

    def __init__(self) -> None:
        self._hooks = Hooks("ValidatingWebhookConfiguration")

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        """All but the configurations themselves."""
        return not is_exempt(kind)

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Ask, if there is anybody to ask. Raises ApiError."""
        hooks = self._hooks.current(request.call.context)
        return _validate(request, hooks) if _are_asked(hooks, request) else None


def _are_asked(hooks: Sequence[Hook], request: AdmissionRequest) -> bool:
    """Whether a request is one of those that any webhook wants to see, as it is now. Raises ApiError."""
    return any(version_asked(hook, request) is not None for hook in hooks)


async def _mutate(request: AdmissionRequest, hooks: Sequence[Hook]) -> None:
    """Two rounds at most: if a webhook changes something, those before it that want to see that are asked again."""
    again: list[Hook] = []
    asked: list[Hook] = []
    for index, hook in enumerate(hooks):
        called, changed = await _mutate_by(request, hook, HookNotes(request, hook, index))
        if changed:
            again += [one for one in asked if one not in again]
        if called and getattr(hook.webhook, "reinvocation_policy", None) == "IfNeeded":
            asked.append(hook)
    for hook in again:
        await _mutate_by(request, hook, HookNotes(request, hook, hooks.index(hook), again=1))


async def _mutate_by(request: AdmissionRequest, hook: Hook, notes: HookNotes) -> tuple[bool, bool]:
    """Whether a webhook was asked, and whether it changed the object. Raises ApiError."""
    kind = await _version_asked(hook, request)
    if kind is None:
        return False, False
    changed = False
    try:
        changed = await _ask_to_mutate(request, hook, kind, notes)
    finally:
        notes.mutated(changed=changed)
    return True, changed


async def _ask_to_mutate(request: AdmissionRequest, hook: Hook, kind: Kind, notes: HookNotes) -> bool:
    """Whether a webhook changes the object. Raises ApiError."""
    obj = await _in_version(request, request.obj, kind)
    answer = await _answer(request, hook, kind, obj, notes, mutating=True)
    if answer is None or not answer.patch:
        return False
    if obj is None:
        detail = "attempted to modify the object, which is not supported for this operation"
        raise internal_error(f'admission webhook "{hook.name}" {detail}')
    try:
        patched = apply_json_patch(obj, list(answer.patch))
        gates = request.call.context.settings.feature_gates
        new, _ = decode_reporting(_class_of(request, kind), encode(patched), gates)
    except (PatchError, DecodeError) as error:
        raise internal_error(str(error)) from error
    notes.patched(answer.patch)
    changed: bool = to_tree(new) != to_tree(_decoded(request, kind, obj))
    if changed:
        await resolved(request.call, partial(take_over, request, new, kind))
    return changed


async def _validate(request: AdmissionRequest, hooks: Sequence[Hook]) -> None:
    calls: list[Callable[[], Awaitable[Answer | None]]] = []
    for hook in hooks:
        kind = await _version_asked(hook, request)
        if kind is not None:
            obj, notes = await _in_version(request, request.obj, kind), HookNotes(request, hook, len(calls))
            calls.append(partial(_answer, request, hook, kind, obj, notes, mutating=False))
    found = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one


async def _in_version(request: AdmissionRequest, obj: Any, kind: Kind) -> Tree | None:
    """An object in the version that a webhook wants to see; None for none. Raises ApiError."""
    return await resolved(request.call, partial(in_version, request, obj, kind))


async def _version_asked(hook: Hook, request: AdmissionRequest) -> Kind | None:
    """The version that a webhook wants to see; None if it is not to be asked, for its conditions among other things.

    Raises ApiError (403) if a condition cannot be evaluated, unless failures do not matter.
    """
    kind = version_asked(hook, request)
    if kind is None or hook.conditions is None:
        return kind
    from bayplan.apiserver.policies.inputs import bindings_of  # few webhooks have conditions

    bindings = await resolved(request.call, partial(bindings_of, request, kind))
    applies, problem = await decided(hook.conditions.applies, bindings)
    if problem and not hook.ignores_failures:
        called = request.call.kind
        raise forbidden_error(called.plural, called.group, request.name, problem)
    return kind if applies else None


async def _answer(
    request: AdmissionRequest, hook: Hook, kind: Kind, obj: Tree | None, notes: HookNotes, *, mutating: bool
) -> Answer | None:
    """What a webhook says; None if it could not be asked and that does not matter, as if it is in simulated pods. Raises ApiError if it refuses."""
    call = request.call
    old = await _in_version(request, request.old, kind)
    seen = resource_of(request, kind)
    clock = call.context.clock
    asked_at = clock.monotonic()
    metrics, operation = call.context.admission_metrics, request.operation
    try:
        with _span(call.context.tracing, hook, mutating=mutating):
            answer = await ask(call.context, hook, _question(request), seen, obj, old, mutating=mutating)
    except WebhookFailure as failure:
        is_refused = failure.simulated is None and not hook.ignores_failures
        seconds = clock.monotonic() - asked_at
        metrics.called(hook.name, operation, seconds, 500, mutating=mutating, rejected=is_refused)
        if failure.simulated is not None and is_skipped(hook.annotations, call.context.settings.simulated_webhooks):
            _skip(request, hook, failure.simulated)
            notes.skipped(mutating=mutating)
            return None
        if not hook.ignores_failures:
            metrics.rejected(hook.name, operation, "calling_webhook_error", 0, mutating=mutating)
            raise failure.as_error from failure
        logger.warning("%s; its failure policy is to go on", failure)
        notes.failed_open(mutating=mutating)
        metrics.failed_open(hook.name, mutating=mutating)
        return None
    finally:
        notes.took(clock.monotonic() - asked_at, mutating=mutating)
    notes.said(answer.audit_annotations)
    call.warnings.extend(answer.warnings)
    refused = None if answer.allowed else refusal(hook.name, answer.status)
    code = 200 if refused is None else refused.code
    seconds = clock.monotonic() - asked_at
    metrics.called(hook.name, operation, seconds, code, mutating=mutating, rejected=refused is not None)
    if refused is not None:
        metrics.rejected(hook.name, operation, "no_error", refused.code, mutating=mutating)
        raise refused
    return answer


def _span(tracing: Tracing | None, hook: Hook, *, mutating: bool) -> AbstractContextManager[None]:
    """What traces a call, if anything does."""
    if tracing is None:
        return nullcontext()
    return tracing.span(f"Call {'mutating' if mutating else 'validating'} webhook", {"webhook": hook.name})


def _skip(request: AdmissionRequest, hook: Hook, simulated: SimulatedTarget) -> None:
    """Tell the client, and once the readers of events, that a webhook was not called."""
    warning = f'admission webhook "{hook.name}" was not called and counts as allowing the request: {simulated.fact}'
    if warning not in request.call.warnings:
        request.call.warnings.append(warning)
    message = f'webhook "{hook.name}" is not called and counts as allowing requests: {simulated}'
    request.call.context.simulated_reports.note(hook.source, message)


def _question(request: AdmissionRequest) -> Question:
    call = request.call
    http = call.request
    options: Tree = {"kind": _OPTIONS.get(request.operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"}
    if http.method == _PATCH:
        options["kind"] = "PatchOptions"
    for name in ("fieldManager", "fieldValidation", "propagationPolicy"):
        if http.query.get(name):
            options[name] = http.query[name]
    if call.dry_run:
        options["dryRun"] = ["All"]
    return Question(
        resource_of(request, call.kind),
        request.subresource,
        request.object_name,
        request.namespace if request.kind.namespaced or request.kind.kind != "Namespace" else request.object_name,
        request.operation,
        http.user,
        call.dry_run,
        None if request.operation == CONNECT else options,
    )


def _class_of(request: AdmissionRequest, kind: Kind) -> type[Any]:
    found: type[Any] = kind.type if is_whole(request) else type(request.obj)
    return found


def _decoded(request: AdmissionRequest, kind: Kind, tree: Tree) -> Any:
    return decode_reporting(_class_of(request, kind), encode(tree))[0]
