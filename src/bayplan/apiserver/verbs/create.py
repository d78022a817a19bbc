"""create: a new object, with what the server fills in."""

from __future__ import annotations

from typing import Any

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError, already_exists, bad_request, failure, forbidden_error
from bayplan.apiserver.admission.chain import CREATE, AdmissionRequest
from bayplan.apiserver.cache import stored_value
from bayplan.apiserver.context import Call
from bayplan.apiserver.field_managers import track_create
from bayplan.apiserver.owners import deduplicate_owners
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.rules import allocate, check
from bayplan.apiserver.watching import Entry
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import rfc3339

OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_NAME_TRIES = 8
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
    if isinstance(call.kind, CustomKind) and call.kind.is_terminating:
        detail = "create not allowed while custom resource definition is terminating"
        raise forbidden_error(call.kind.plural, call.kind.group, metadata.name, detail)
    admission = call.context.admission.plan(call.stored, CREATE, "")
    request = AdmissionRequest(call, CREATE, obj, None)
    if admission.mutating:
        await admission.admit(request)
        if not admission.keeps_defaults:
            call.strategy.default(obj)
            call.strategy.default_times(obj, call.context.clock.now())
    metadata = obj.metadata
    _fill_system_fields(call, metadata)
    call.strategy.prepare_create(obj)
    _fill_requester(call, obj)
    allocation = await allocate(call, obj, None) if call.context.allocators.serves(call.stored) else None
    try:
        if not plain:
            check(call, obj, None)
        if admission.validating:
            await admission.validate(request)
        call.warnings.extend(call.strategy.warnings(obj, None))
        if call.dry_run:
            _check_is_new(call, metadata.name)
            entry = unsaved(call, obj)
        else:
            entry = await _insert(call, obj, generated)
    except BaseException:
        if allocation is not None:
            await allocation.undo()
        raise
    if allocation is not None:
        await allocation.commit()
    return entry


def _place(call: Call, metadata: Any) -> None:
    """Put the object into the namespace of the URL."""
    namespace = call.path.namespace
    if metadata.namespace and metadata.namespace != namespace and call.kind.namespaced:
        raise bad_request(OTHER_NAMESPACE)
    metadata.namespace = namespace if call.kind.namespaced else ""


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


def unsaved(call: Call, obj: Any) -> Entry:
    """The entry of an object that is only shown (dry run)."""
    metadata = obj.metadata
    revision = int(metadata.resource_version or 0)
    entry = call.context.objects.cache(call.stored).make_entry(
        call.stored.storage_key(metadata.namespace, metadata.name), stored_value(call.stored, obj), revision, revision
    )
    if not revision:
        entry.body = entry.body.replace(b',"resourceVersion":"0"', b"", 1)
    return entry
