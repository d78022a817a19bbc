"""The rules of a kind, applied to an object that is about to be written: what this way in may change, admission, validation."""

from __future__ import annotations

from typing import Any

from bayplan.api.conversion import convert
from bayplan.api.errors import FieldError, invalid_object
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import Strategy
from bayplan.api.validation.meta import validate_object_meta, validate_object_meta_update
from bayplan.apiserver.admission.chain import UPDATE, AdmissionRequest
from bayplan.apiserver.allocation import Allocation
from bayplan.apiserver.context import Call


async def allocate(call: Call, obj: Any, old: Any | None) -> Allocation:
    """Give an object what the server gives out. The result is committed when the object is written, and undone if it is not."""
    return await call.context.allocators.allocate(obj, old, dry_run=call.dry_run)


def check(call: Call, obj: Any, old: Any | None) -> None:
    """Raises ApiError (422) if the object or the change breaks rules."""
    strategy, metadata = call.strategy, obj.metadata
    errors: list[FieldError] = validate_object_meta(
        metadata,
        namespaced=call.stored.namespaced,
        name_rule=strategy.name_is_checked_as,
        standard_finalizers=not call.stored.is_custom,
    )
    checked, before = obj, old
    if call.kind is not call.stored and strategy.checks_served_version:
        strategy = strategy_for(call.kind)
        checked = convert(obj, call.stored, call.kind)
        before = convert(old, call.stored, call.kind) if old is not None else None
    errors += strategy.validate(checked)
    if old is None:
        errors += strategy.validate_create(checked)
    else:
        errors += validate_object_meta_update(metadata, old.metadata, standard_finalizers=not call.stored.is_custom)
        errors += strategy.validate_update(checked, before)
    if errors:
        raise invalid_object(call.stored.kind, call.stored.group, metadata.name, errors)


async def apply_rules(call: Call, obj: Any, old: Any, *, subresource: str) -> Allocation | None:
    """Default, restore what this way in may not change, admit and validate. Returns what was allocated, if anything is for this kind."""
    strategy = call.strategy
    strategy.default(obj)
    _prepare(strategy, obj, old, subresource)
    admission = call.context.admission.plan(call.stored, UPDATE, subresource)
    request = AdmissionRequest(call, UPDATE, obj, old, subresource)
    if admission.mutating:
        await admission.admit(request)
    allocation = None
    if not subresource and call.context.allocators.serves(call.stored):
        allocation = await allocate(call, obj, old)
    try:
        if subresource:
            _check_subresource(call, obj, old, subresource)
        else:
            check(call, obj, old)
        if admission.validating:
            await admission.validate(request)
        call.warnings[:] = dict.fromkeys([*call.warnings, *strategy.warnings(obj, old)])
    except BaseException:
        if allocation is not None:
            await allocation.undo()
        raise
    return allocation


def _prepare(strategy: Strategy, obj: Any, old: Any, subresource: str) -> None:
    if subresource == "status":
        strategy.prepare_status_update(obj, old)
        _keep_metadata(strategy, obj.metadata, old.metadata)
        return
    if subresource:
        strategy.prepare_subresource_update(subresource, obj, old)
    else:
        strategy.prepare_update(obj, old)
    if strategy.counts_generation and strategy.spec_changed(obj, old):
        obj.metadata.generation = old.metadata.generation + 1


def _check_subresource(call: Call, obj: Any, old: Any, subresource: str) -> None:
    strategy = call.strategy
    rules = (
        strategy.validate_status_update(obj, old)
        if subresource == "status"
        else strategy.validate_subresource_update(subresource, obj, old)
    )
    errors = [*validate_object_meta_update(obj.metadata, old.metadata), *rules]
    if errors:
        raise invalid_object(call.kind.kind, call.kind.group, obj.metadata.name, errors)


def _keep_metadata(strategy: Strategy, new: Any, old: Any) -> None:
    """A status update may change labels and annotations, of most kinds, and nothing else of metadata."""
    new.owner_references, new.finalizers = old.owner_references, old.finalizers
    reset = strategy.reset_by_status.get("f:metadata")
    if reset is None:
        return
    if not reset or "f:labels" in reset:
        new.labels = old.labels
    if not reset or "f:annotations" in reset:
        new.annotations = old.annotations
