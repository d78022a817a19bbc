"""The rules of a kind, applied to an object that is about to be written: what this way in may change, admission, validation."""

from __future__ import annotations

import contextlib
from typing import Any

from bayplan.api.conversions.kinds import convert
from bayplan.api.errors import FieldError, TooManyErrors, invalid_object, stopping_at_many_errors
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import Strategy
from bayplan.api.validation.meta import UpdateChecks, validate_object_meta, validate_updated_meta
from bayplan.apiserver.admission.chain import UPDATE, AdmissionRequest
from bayplan.apiserver.allocation import Allocation
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.context import Call
from bayplan.apiserver.verbs.admin_access import admin_access_problems
from bayplan.apiserver.verbs.claim_status_access import claim_status_problems
from bayplan.apiserver.verbs.given_values import as_given
from bayplan.apiserver.writes.emptied_lists import emptied_map_errors, empties_webhooks

_HIGHEST_GENERATION = (1 << 63) - 1


async def allocate(call: Call, obj: Any, old: Any | None) -> Allocation:
    """Give an object what the server gives out. The result is committed when the object is written, and undone if it is not."""
    return await call.context.allocators.allocate(obj, old, dry_run=call.dry_run)


def check(call: Call, obj: Any, old: Any | None) -> None:
    """Raises ApiError (422) if the object or the change breaks rules."""
    strategy, metadata = call.strategy, obj.metadata
    checked, before = obj, old
    if call.kind is not call.stored and strategy.checks_served_version:
        strategy = strategy_for(call.kind)
        checked = convert(obj, call.stored, call.kind)
        before = convert(old, call.stored, call.kind) if old is not None else None
    rule = strategy.metadata_rule(checked)
    errors: list[FieldError] = []
    stopped = False
    try:
        with stopping_at_many_errors():
            errors = _metadata_errors(call, obj, old, strategy, rule)
        with stopping_at_many_errors() if strategy.tells_every_error else contextlib.nullcontext():
            of_rules, of_change = _object_errors(call, checked, before, obj, strategy)
        comes_second = strategy.metadata_comes_second and rule is not None
        errors = [*of_rules, *errors, *of_change] if comes_second else [*errors, *of_rules, *of_change]
    except TooManyErrors as many:
        errors, stopped = errors + many.errors, True
    if not errors and old is None and (rule in (None, "any") or not strategy.checks_generated_names):
        errors = validate_object_meta(
            metadata, namespaced=call.stored.namespaced, name_rule="path-segment", standard_finalizers=False
        )
    if errors:
        if call.kind is call.stored:
            errors = as_given(errors, obj, call.request)
        kind = obj.kind if call.stored.is_custom and obj.kind else call.stored.kind  # as the object says
        raise invalid_object(kind, call.stored.group, metadata.name, errors, stopped=stopped)


def _metadata_errors(call: Call, obj: Any, old: Any | None, strategy: Strategy, rule: str | None) -> list[FieldError]:
    if old is not None:
        checks = strategy.update_checks if rule is not None else UpdateChecks(change=0)
        return _updated_meta(call, strategy, obj, old, checks)
    if rule is None:
        return []
    return validate_object_meta(
        obj.metadata,
        namespaced=call.stored.namespaced,
        name_rule=rule,
        standard_finalizers=strategy.knows_finalizers and not call.stored.is_custom,
        generated_names=strategy.checks_generated_names,
        name_errors=strategy.name_errors(obj),
    )


def _object_errors(
    call: Call, checked: Any, before: Any | None, obj: Any, strategy: Strategy
) -> tuple[list[FieldError], list[FieldError]]:
    """What breaks the rules of the kind, in the two parts in which it is told: `checked` in the version that they are about, `obj` in the stored one."""
    of_object = strategy.validate(checked)
    if before is None:
        of_change = strategy.validate_create(checked)
        first = admin_access_problems(call, obj)
    else:
        emptied = emptied_map_errors(call.stored, checked, before, call.request.body)
        of_change, first = [*strategy.validate_update(checked, before), *emptied], []
    return ([*first, *of_change], of_object) if strategy.changes_come_first else ([*first, *of_object], of_change)


def _updated_meta(call: Call, strategy: Strategy, obj: Any, old: Any, checks: UpdateChecks) -> list[FieldError]:
    """What is wrong with the metadata of an update, which the rules of the kind look at so often."""
    return validate_updated_meta(
        obj.metadata,
        old.metadata,
        checks,
        namespaced=call.stored.namespaced,
        name_rule=strategy.name_is_checked_as,
        standard_finalizers=strategy.knows_finalizers and not call.stored.is_custom,
    )


async def apply_rules(call: Call, obj: Any, old: Any, *, subresource: str) -> Allocation | None:
    """Admit a defaulted object, restore what this way in may not change, and validate. Returns what was allocated, if anything is for this kind.

    Admission comes first, as in Kubernetes: what it changes is restored and counted like what the client changes.
    """
    strategy = call.strategy
    admission = call.context.admission.plan(call.stored, UPDATE, subresource)
    request = AdmissionRequest(call, UPDATE, obj, old, subresource)
    if admission.mutating:
        await admission.admit(request)
    if strategy.has_gated_fields and not subresource:
        strategy.apply_gates(obj, old, call.context.settings.feature_gates)
    _prepare(strategy, obj, old, subresource, call.context.clock.now(), call.request.body)
    allocation = None
    if not subresource and call.context.allocators.serves(call.stored):
        allocation = await allocate(call, obj, old)
    try:
        if subresource:
            is_claim = call.stored.kind == "ResourceClaim" and not call.stored.is_custom
            refused = await decided(claim_status_problems, call, obj, old) if is_claim else []
            _check_subresource(call, obj, old, subresource, refused)
        else:
            check(call, obj, old)
        call.warnings[:] = dict.fromkeys([*call.warnings, *_warnings(strategy, obj, old, subresource)])
        if admission.validating:
            await admission.validate(request)
    except BaseException:
        if allocation is not None:
            await allocation.undo()
        raise
    return allocation


def _warnings(strategy: Strategy, obj: Any, old: Any, subresource: str) -> list[str]:
    if subresource:
        return strategy.status_warnings(obj) if subresource == "status" else []
    return strategy.warnings(obj, old)


def _prepare(strategy: Strategy, obj: Any, old: Any, subresource: str, now: float, body: bytes) -> None:
    if subresource == "status":
        strategy.prepare_status_update(obj, old)
        strategy.renew_status_times(obj, old, now)
        _keep_metadata(strategy, obj.metadata, old.metadata)
        return
    if subresource:
        strategy.prepare_subresource_update(subresource, obj, old)
    else:
        strategy.prepare_update(obj, old)
        strategy.renew_times(obj, old, now)
    if strategy.counts_generation and (strategy.spec_changed(obj, old) or empties_webhooks(obj, body)):
        obj.metadata.generation = next_generation(old.metadata.generation)


def next_generation(generation: int) -> int:
    """The generation after one more change: 64 bits with a sign, which overflow as Go's do. Clients create objects of some kinds with any generation."""
    return generation + 1 if generation < _HIGHEST_GENERATION else -_HIGHEST_GENERATION - 1


def _check_subresource(call: Call, obj: Any, old: Any, subresource: str, refused: list[FieldError]) -> None:
    stopped = False
    try:
        with stopping_at_many_errors() if call.strategy.tells_every_error else contextlib.nullcontext():
            errors = _subresource_errors(call, obj, old, subresource, refused)
    except TooManyErrors as many:
        errors, stopped = many.errors, True
    if errors:
        raise invalid_object(call.kind.kind, call.kind.group, obj.metadata.name, errors, stopped=stopped)


def _subresource_errors(
    call: Call, obj: Any, old: Any, subresource: str, refused: list[FieldError]
) -> list[FieldError]:
    strategy = call.strategy
    rules = (
        strategy.validate_status_update(obj, old)
        if subresource == "status"
        else strategy.validate_subresource_update(subresource, obj, old)
    )
    checks = strategy.update_checks if subresource == "resize" else strategy.status_checks
    return [*_updated_meta(call, strategy, obj, old, checks), *refused, *rules]


def _keep_metadata(strategy: Strategy, new: Any, old: Any) -> None:
    """Restore what a status update does not change of metadata: nothing, for most kinds."""
    reset = strategy.reset_by_status.get("f:metadata")
    if reset is None:
        return
    for field, attribute in _FREE_METADATA.items():
        if not reset or field in reset:
            setattr(new, attribute, getattr(old, attribute))


_FREE_METADATA = {
    "f:annotations": "annotations",
    "f:finalizers": "finalizers",
    "f:labels": "labels",
    "f:ownerReferences": "owner_references",
}
