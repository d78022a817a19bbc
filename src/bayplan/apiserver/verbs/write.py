"""create and update, and what every change of an object goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.codec import decode_reporting
from bayplan.api.conversion import convert
from bayplan.api.errors import (
    ApiError,
    FieldError,
    already_exists,
    bad_request,
    conflict,
    failure,
    invalid,
    invalid_object,
    not_found_error,
)
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import Strategy
from bayplan.api.validation.meta import validate_object_meta, validate_object_meta_update
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionRequest
from bayplan.apiserver.allocation import Allocation
from bayplan.apiserver.cache import stored_value
from bayplan.apiserver.context import Call
from bayplan.apiserver.field_managers import keep_times, track_create, track_update
from bayplan.apiserver.owners import deduplicate_owners
from bayplan.apiserver.requests import Response
from bayplan.apiserver.watching import Entry
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import rfc3339

OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_NAME_TRIES = 8
_RACE_TRIES = 1000
_GENERATED_SUFFIX = 5
_GENERATED_BASE = 63 - _GENERATED_SUFFIX


async def create(call: Call) -> Response:
    """A new object from the body."""
    obj = call.body_object(call.kind.type, call.kind.kind, call.kind.api_version)
    entry = await create_object(call, obj)
    return call.answer(201, entry)


async def create_object(call: Call, obj: Any, *, plain: bool = False, track: bool = True) -> Entry:
    """A new object; it belongs to this call from here on.

    plain: the object is the server's own (its address may be a loopback one), so rules of users do not apply.
    track: whether to record the writer; server-side apply has done so. Raises ApiError.
    """
    metadata = obj.metadata
    _place(call, metadata)
    call.warnings.extend(deduplicate_owners(metadata))
    if metadata.resource_version:
        raise failure(500, "", "resourceVersion should not be set on objects to be created", details=False)
    obj = call.to_stored(obj)
    metadata = obj.metadata
    if track:
        track_create(call, obj)
    generated = bool(metadata.generate_name and not metadata.name)
    if generated:
        metadata.name = _generate_name(call, metadata.generate_name)
    admission = call.context.admission.plan(call.stored, CREATE, "")
    request = AdmissionRequest(call, CREATE, obj, None)
    if admission.mutating:
        await admission.admit(request)
        if not admission.keeps_defaults:
            call.strategy.default(obj)
    _fill_system_fields(call, metadata)
    call.strategy.prepare_create(obj)
    _fill_requester(call, obj)
    allocation = await _allocate(call, obj, None) if call.context.allocators.serves(call.stored) else None
    try:
        if not plain:
            check(call, obj, None)
        if admission.validating:
            await admission.validate(request)
        call.warnings.extend(call.strategy.warnings(obj, None))
        if call.dry_run:
            _check_is_new(call, metadata.name)
            entry = _unsaved(call, obj)
        else:
            entry = await _insert(call, obj, generated)
    except BaseException:
        if allocation is not None:
            await allocation.undo()
        raise
    if allocation is not None:
        await allocation.commit()
    return entry


async def _allocate(call: Call, obj: Any, old: Any | None) -> Allocation:
    """Give an object what the server gives out. The result is committed when the object is written, and undone if it is not."""
    return await call.context.allocators.allocate(obj, old, dry_run=call.dry_run)


def _place(call: Call, metadata: Any) -> None:
    """Put the object into the namespace of the URL."""
    namespace = call.path.namespace
    if metadata.namespace and metadata.namespace != namespace and call.kind.namespaced:
        raise bad_request(OTHER_NAMESPACE)
    if call.kind.namespaced:
        metadata.namespace = namespace


def _fill_system_fields(call: Call, metadata: Any) -> None:
    metadata.uid = call.context.randomness.uuid4()
    metadata.creation_timestamp = rfc3339(call.context.clock.now())
    metadata.deletion_timestamp = metadata.deletion_grace_period_seconds = None
    metadata.self_link = ""
    if call.strategy.counts_generation:
        metadata.generation = 1


def _fill_requester(call: Call, obj: Any) -> None:
    """A certificate request says who made it."""
    if call.stored.kind == "CertificateSigningRequest":
        user, spec = call.request.user, obj.spec
        spec.username, spec.uid, spec.groups = user.name, user.uid, user.groups
        spec.extra = {key: tuple(values) for key, values in user.extra.items()}


def _generate_name(call: Call, base: str) -> str:
    return base[:_GENERATED_BASE] + call.context.randomness.suffix(_GENERATED_SUFFIX)


async def _insert(call: Call, obj: Any, generated: bool) -> Entry:
    objects, name = call.context.objects, obj.metadata.name
    ttl = call.context.settings.event_ttl if call.stored.kind == "Event" else None
    for _ in range(_NAME_TRIES if generated else 1):
        try:
            return await objects.insert(call.stored, obj, ttl=ttl)
        except Conflict as race:
            await objects.settle(race)
            name = obj.metadata.name
            if generated:
                obj.metadata.name = _generate_name(call, obj.metadata.generate_name)
    raise _already_exists(call, name)


def _check_is_new(call: Call, name: str) -> None:
    """Raises ApiError (409) if the name is taken."""
    if call.entry(call.path.namespace if call.kind.namespaced else "", name) is not None:
        raise _already_exists(call, name)


def _already_exists(call: Call, name: str) -> ApiError:
    error = already_exists(call.kind.plural, call.kind.group, name)
    existing = call.entry(call.path.namespace if call.kind.namespaced else "", name)
    if (
        existing is not None
        and b'"deletionTimestamp"' in existing.body
        and call.decode_stored(existing).metadata.deletion_timestamp
    ):
        error.status.message = "object is being deleted: " + error.status.message
    return error


def _unsaved(call: Call, obj: Any) -> Entry:
    """The entry of an object that is only shown (dry run)."""
    metadata = obj.metadata
    revision = int(metadata.resource_version or 0)
    entry = call.context.objects.cache(call.stored).make_entry(
        call.stored.storage_key(metadata.namespace, metadata.name), stored_value(call.stored, obj), revision, revision
    )
    if not revision:
        entry.body = entry.body.replace(b',"resourceVersion":"0"', b"", 1)
    return entry


def check(call: Call, obj: Any, old: Any | None) -> None:
    """Raises ApiError (422) if the object or the change breaks rules."""
    strategy, metadata = call.strategy, obj.metadata
    errors: list[FieldError] = validate_object_meta(
        metadata, namespaced=call.stored.namespaced, name_rule=strategy.name_is_checked_as
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
        errors += validate_object_meta_update(metadata, old.metadata)
        errors += strategy.validate_update(checked, before)
    if errors:
        raise invalid_object(call.stored.kind, call.stored.group, metadata.name, errors)


Transform = Callable[[Any], Any]
"""From a copy of the stored object to the wanted one, which may be the same object, changed, if the copy is a fresh one."""


async def modify(
    call: Call,
    transform: Transform,
    *,
    subresource: str = "",
    plain: bool = False,
    fresh: bool = True,
    track: bool = True,
) -> Entry:
    """Read, change, check and write an object, again if somebody was faster. The transform must be repeatable.

    subresource: the way in, which decides what may change. plain: the change is the server's own (a binding, a finalizer), so rules of users do not apply.
    fresh: the transform gets an object of its own; otherwise a shared one, which it only reads, and makes a new object with new metadata.
    track: whether to record the writer in the managed fields; otherwise they are as the transform leaves them.
    An object whose deletion only waited for its last finalizer goes away. Raises ApiError.
    """
    objects, namespace, name = call.context.objects, call.path.namespace, call.path.name
    for _ in range(_RACE_TRIES):
        entry = call.entry(namespace, name)
        if entry is None:
            raise not_found_error(call.kind.plural, call.kind.group, name)
        old = objects.cache(call.stored).shared(entry)
        obj = transform(call.decode_stored(entry) if fresh else old)
        given = obj.metadata.managed_fields
        _check_identity(call, obj, old, entry)
        if not track:
            obj.metadata.managed_fields = given
        elif not plain:
            track_update(call, obj, old, subresource, given, reset=call.resets_managers)
        allocation = None if plain else await _apply_rules(call, obj, old, subresource=subresource)
        try:
            written = await _commit(call, obj, old, entry)
        except Conflict as race:
            if allocation is not None:
                await allocation.undo()
            await objects.settle(race)
            continue
        except BaseException:
            if allocation is not None:
                await allocation.undo()
            raise
        if allocation is not None:
            await allocation.commit()
        return written
    raise conflict(call.kind.plural, call.kind.group, name)


def _check_identity(call: Call, obj: Any, old: Any, entry: Entry) -> None:
    """Optimistic concurrency: the revision, where it is given, must be that of the object. The system's part of metadata is carried over."""
    new, was = obj.metadata, old.metadata
    if new.resource_version not in ("", "0", str(entry.revision)):
        if not new.resource_version.isdigit():
            problem = invalid("metadata.resourceVersion", new.resource_version, "must be an unsigned integer")
            raise invalid_object(call.kind.kind, call.kind.group, new.name, [problem])
        raise conflict(call.kind.plural, call.kind.group, call.path.name)
    new.uid = new.uid or was.uid
    new.resource_version = was.resource_version
    new.self_link = ""
    new.generation = was.generation
    new.managed_fields = was.managed_fields
    new.creation_timestamp = was.creation_timestamp
    new.deletion_timestamp = was.deletion_timestamp or new.deletion_timestamp
    if new.deletion_grace_period_seconds is None:
        new.deletion_grace_period_seconds = was.deletion_grace_period_seconds
    new.generate_name = new.generate_name or was.generate_name


_OLD_PREFIXES = {
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
"""Kinds whose key in etcd is not their plural."""


def _check_uid(call: Call, wanted: str, uid: str) -> None:
    """A replacement that names the uid of another object is for that one. Raises ApiError (409), worded as Kubernetes' storage does."""
    if not wanted or wanted == uid:
        return
    kind, path = call.kind, call.path
    prefix = _OLD_PREFIXES.get(kind.plural, kind.plural)
    if kind.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        prefix = f"{kind.group}/{prefix}"
    key = "/".join(part for part in ("/registry", prefix, path.namespace, path.name) if part)
    detail = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
    )
    raise conflict(kind.plural, kind.group, path.name, detail)


async def _apply_rules(call: Call, obj: Any, old: Any, *, subresource: str) -> Allocation | None:
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
        allocation = await _allocate(call, obj, old)
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
    if _is_status(strategy, subresource):
        strategy.prepare_status_update(obj, old)
        _keep_metadata(strategy, obj.metadata, old.metadata)
        return
    if subresource:
        strategy.prepare_subresource_update(subresource, obj, old)
    else:
        strategy.prepare_update(obj, old)
    if strategy.counts_generation and strategy.spec_changed(obj, old):
        obj.metadata.generation = old.metadata.generation + 1


def _is_status(strategy: Strategy, subresource: str) -> bool:
    """Whether a write counts as one of status: kinds without rules for another subresource keep what it writes there."""
    has_rules = type(strategy).prepare_subresource_update is not Strategy.prepare_subresource_update
    return subresource == "status" or (bool(subresource) and not has_rules)


def _check_subresource(call: Call, obj: Any, old: Any, subresource: str) -> None:
    strategy = call.strategy
    rules = (
        strategy.validate_status_update(obj, old)
        if _is_status(strategy, subresource)
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


async def _commit(call: Call, obj: Any, old: Any, entry: Entry) -> Entry:
    objects, metadata = call.context.objects, obj.metadata
    metadata.resource_version = old.metadata.resource_version
    obj.kind = obj.api_version = ""
    if call.dry_run:
        return _unsaved(call, obj)
    if _ends_here(call, obj):
        revision = await objects.remove(call.stored, entry)
        if call.context.allocators.serves(call.stored):
            await call.context.allocators.forget(obj)
        metadata.resource_version = str(revision)
        return _unsaved(call, obj)
    keep_times(obj, old)
    if obj == old:
        return entry
    ttl = call.context.settings.event_ttl if call.stored.kind == "Event" else None
    return await objects.replace(call.stored, obj, entry.revision, ttl=ttl)


def _ends_here(call: Call, obj: Any) -> bool:
    """Whether nothing holds a deleted object back any more: no finalizer, no time to end."""
    metadata = obj.metadata
    if not metadata.deletion_timestamp or metadata.finalizers or metadata.deletion_grace_period_seconds:
        return False
    return call.stored.kind != "Namespace" or not obj.spec.finalizers


async def update(call: Call) -> Response:
    """Replace an object by the body (PUT), or create it where the kind allows that."""
    body = call.body_object(call.kind.type, call.kind.kind, call.kind.api_version)
    _check_body_name(call, body)
    call.warnings.extend(deduplicate_owners(body.metadata))
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        if (
            call.strategy.allow_create_on_update
            and call.path.subresource is None
            and not body.metadata.resource_version
        ):
            return call.answer(201, await create_object(call, body))
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    _check_uid(call, body.metadata.uid, entry.uid)
    call.resets_managers = not body.metadata.managed_fields and b'"managedFields":[]' in call.request.body
    if not body.metadata.resource_version and not call.strategy.allow_unconditional_update:
        problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid_object(call.kind.plural, call.kind.group, call.path.name, [problem])
    given = [body]

    def replaced(old: Any) -> Any:
        return call.to_stored(given.pop() if given else _again(call))

    name = call.path.subresource.name if call.path.subresource else ""
    return call.answer(200, await modify(call, replaced, subresource=name, fresh=False))


def _again(call: Call) -> Any:
    """A fresh object from the body: a repeated attempt must not see what the last one changed."""
    body = decode_reporting(call.kind.type, call.body_json(call.kind.kind))[0]
    _check_body_name(call, body)
    deduplicate_owners(body.metadata)
    return body


def _check_body_name(call: Call, body: Any) -> None:
    metadata = body.metadata
    if metadata.name != call.path.name:
        raise bad_request(
            f"the name of the object ({metadata.name}) does not match the name on the URL ({call.path.name})"
        )
    if call.kind.namespaced:
        if metadata.namespace and metadata.namespace != call.path.namespace:
            raise bad_request(OTHER_NAMESPACE)
        metadata.namespace = call.path.namespace
