"""update, and what every change of an object goes through."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from bayplan.api.codec import DecodeError, decode_reporting
from bayplan.api.conversions.kinds import WebhookNeeded
from bayplan.api.errors import (
    ApiError,
    bad_request,
    conflict,
    failure,
    invalid,
    invalid_object,
    not_found_error,
)
from bayplan.api.types import meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.custom_resources.conversion import rehearsed, resolved
from bayplan.apiserver.managed_fields.managers import track_update
from bayplan.apiserver.managed_fields.renewal import keep_times
from bayplan.apiserver.reads.storage_key import storage_key
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response, revision_problem
from bayplan.apiserver.verbs.create import OTHER_NAMESPACE, create_object, unsaved
from bayplan.apiserver.verbs.rules import apply_rules
from bayplan.apiserver.writes.bodies import body_json, body_object
from bayplan.apiserver.writes.owners import deduplicate_owners
from bayplan.store.errors import Conflict

logger = logging.getLogger(__name__)

_RACE_TRIES = 1000


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
    manager: str = "",
) -> Entry:
    """Read, change, check and write an object, again if somebody was faster. The transform must be repeatable.

    subresource: the way in, which decides what may change. plain: the change is the server's own (a binding, a finalizer), so rules of users do not apply.
    fresh: the transform gets an object of its own; otherwise a shared one, which it only reads, and makes a new object with new metadata.
    track: whether to record the writer in the managed fields; otherwise they are as the transform leaves them.
    manager: who is recorded as the writer of the status in a plain change; "" for nobody.
    An object whose deletion only waited for its last finalizer goes away. Raises ApiError.
    """
    objects, namespace, name = call.context.objects, call.path.namespace, call.path.name
    for _ in range(_RACE_TRIES):
        entry = call.entry(namespace, name)
        if entry is None:
            raise not_found_error(call.kind.plural, call.kind.group, name)
        if call.kind.asks_webhook:
            entry = await call.in_served_version(entry)
        call.changed = entry
        old = objects.cache(call.stored).shared(entry)
        try:
            obj = transform(call.decode_stored(entry) if fresh else old)
        except WebhookNeeded:
            obj = await _transformed(call, transform, entry, old, fresh=fresh)
        given = obj.metadata.managed_fields
        _check_identity(call, obj, old, entry)
        if not track:
            obj.metadata.managed_fields = given
        elif not plain:
            try:
                track_update(call, obj, old, subresource, given, reset=call.resets_managers)
            except WebhookNeeded:
                await _track_update(call, obj, old, subresource, given)
        elif manager:
            track_update(call, obj, old, "status", old.metadata.managed_fields, manager=manager)
        if obj.metadata.deletion_timestamp != old.metadata.deletion_timestamp or old.metadata.deletion_timestamp:
            _keep_deletion(obj.metadata, old.metadata)
        if fresh and not plain:
            call.strategy.default(obj)  # it may have been kept before there was a default
        allocation = None if plain else await apply_rules(call, obj, old, subresource=subresource)
        try:
            written = await _commit(call, obj, old, entry)
        except BaseException as problem:
            if allocation is not None:
                await allocation.undo()
            if not isinstance(problem, Conflict):
                raise
            await objects.settle(problem)
            continue
        if allocation is not None:
            await allocation.commit()
        return written
    raise conflict(call.kind.plural, call.kind.group, name)


async def _transformed(call: Call, transform: Transform, entry: Entry, old: Any, *, fresh: bool) -> Any:
    """The outcome of a transform that wants to see objects in versions that only a webhook knows. Raises ApiError."""
    return await resolved(call, lambda: transform(call.decode_stored(entry) if fresh else old))


async def _track_update(
    call: Call, obj: Any, old: Any, subresource: str, given: tuple[meta_v1.ManagedFieldsEntry, ...]
) -> None:
    """Record who changes an object that others manage in versions that only a webhook knows; if it fails, nobody does, as in Kubernetes."""
    try:
        await resolved(call, lambda: track_update(call, obj, old, subresource, given, reset=call.resets_managers))
    except ApiError as error:
        logger.warning("forgetting the managers of %s %s: %s", call.kind.kind, call.path.name, error)
        obj.metadata.managed_fields = ()


def _check_identity(call: Call, obj: Any, old: Any, entry: Entry) -> None:
    """Optimistic concurrency: the revision, where it is given, must be that of the object. The system's part of metadata is carried over."""
    new, was = obj.metadata, old.metadata
    if new.resource_version not in ("", "0", str(entry.revision)):
        if problem := revision_problem(new.resource_version):
            raise failure(500, "", problem, details=False)
        if int(new.resource_version):
            raise conflict(call.kind.plural, call.kind.group, call.path.name)
    new.uid = new.uid or was.uid
    new.resource_version = was.resource_version
    new.self_link = new.self_link if call.dry_run else ""  # only what is kept loses it
    new.generation = was.generation
    new.managed_fields = was.managed_fields
    new.creation_timestamp = was.creation_timestamp


def _keep_deletion(new: meta_v1.ObjectMeta, was: meta_v1.ObjectMeta) -> None:
    """A deletion that has begun goes on, whatever the writer says of it (and owns by that)."""
    new.deletion_timestamp = was.deletion_timestamp or new.deletion_timestamp
    if new.deletion_grace_period_seconds is None:
        new.deletion_grace_period_seconds = was.deletion_grace_period_seconds


def check_uid(call: Call, wanted: str, uid: str) -> None:
    """A replacement that names the uid of another object is for that one. Raises ApiError (409), worded as Kubernetes' storage does."""
    if wanted and wanted != uid:
        raise precondition_failed(call, f"UID in precondition: {wanted}, UID in object meta: {uid}")


def precondition_failed(call: Call, why: str) -> ApiError:
    """409: the object is not the one that the client means, worded as Kubernetes' storage does. A dry run does not reach the folder that all keys are in."""
    kind, path = call.kind, call.path
    key = storage_key(kind, path.namespace, path.name)
    if not call.dry_run:
        key = f"/registry{key}"
    detail = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {why}"
    )
    return conflict(kind.plural, kind.group, path.name, detail)


async def _commit(call: Call, obj: Any, old: Any, entry: Entry) -> Entry:
    objects, metadata = call.context.objects, obj.metadata
    metadata.resource_version = old.metadata.resource_version
    obj.kind = obj.api_version = ""
    if call.dry_run:
        return await rehearsed(call, unsaved(call, obj))
    if _ends_here(call, obj):
        revision = await objects.remove(call.stored, entry)
        if call.context.allocators.serves(call.stored):
            await call.context.allocators.forget(obj)
        metadata.resource_version = str(revision)
        return unsaved(call, obj)
    keep_times(obj, old)
    if obj == old and not objects.is_outdated(call.stored, entry):
        return entry
    return await objects.replace(call.stored, obj, entry.revision, ttl=call.ttl)


def _ends_here(call: Call, obj: Any) -> bool:
    """Whether nothing holds a deleted object back any more: no finalizer, no time to end."""
    metadata = obj.metadata
    if not metadata.deletion_timestamp or metadata.finalizers or metadata.deletion_grace_period_seconds:
        return False
    return call.stored.kind != "Namespace" or not obj.spec.finalizers


async def update(call: Call) -> Response:
    """Replace an object by the body (PUT), or create it where the kind allows that."""
    repeated = None
    if call.path.subresource is None:
        context = call.context
        repeated = context.repeated_writes.find(call)
    if repeated is not None and (written := await repeated.write()) is not None:
        return call.answer(200, written)
    unchanged = call.context.unchanged_writes.find(call)
    if unchanged is not None and (same := unchanged.entry()) is not None:
        return call.answer(200, same)
    body = body_object(call, call.kind.type, call.kind.kind, call.kind.api_version)
    try:
        entry = _replaced_entry(call, body)
    except ApiError:
        call.check_quantities(body)
        raise
    if entry is None:
        return call.answer(201, await create_object(call, body))
    given = [body]

    def replaced(old: Any) -> Any:
        return call.to_stored(given.pop() if given else _again(call))

    name = call.path.subresource.name if call.path.subresource else ""
    written = await modify(call, replaced, subresource=name, fresh=False)
    if repeated is not None and not call.warnings:
        repeated.learn(written)
    if unchanged is not None:
        unchanged.learn(written)
    return call.answer(200, written)


def _replaced_entry(call: Call, body: Any) -> Entry | None:
    """What a body is to replace; None if it may be made. Raises ApiError."""
    check_body_name(call, body)
    call.warnings.extend(deduplicate_owners(body.metadata))
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        if call.strategy.allow_create_on_update and call.path.subresource is None:
            check_uid(call, body.metadata.uid, "")
            version = body.metadata.resource_version
            if version and (wrong := revision_problem(version)):
                raise failure(500, "", wrong, details=False)
            if not call.dry_run:
                body.metadata.resource_version = ""  # which is not looked at: nothing is there that it could be of
            return None
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    check_uid(call, body.metadata.uid, entry.uid)
    call.resets_managers = not body.metadata.managed_fields and b'"managedFields":[]' in call.request.body
    if not body.metadata.resource_version and not call.strategy.allow_unconditional_update:
        problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid_object(call.kind.plural, call.kind.group, call.path.name, [problem])
    return entry


def _again(call: Call) -> Any:
    """A fresh object from the body: a repeated attempt must not see what the last one changed."""
    gates = call.context.settings.feature_gates
    body = decode_reporting(call.kind.type, body_json(call, call.kind.kind), gates)[0]
    check_body_name(call, body)
    deduplicate_owners(body.metadata)
    return body


def check_name(given: str, wanted: str) -> None:
    """An object has the name that the URL says. Raises ApiError (400)."""
    if given == wanted:
        return
    if given:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({wanted})")
    raise bad_request(f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided")


def check_body_name(call: Call, body: Any) -> None:
    """A body has the name and namespace of the URL; without a namespace it gets it. Raises ApiError (400)."""
    metadata = body.metadata
    if call.kind.namespaced and metadata.namespace and metadata.namespace != call.path.namespace:
        raise bad_request(OTHER_NAMESPACE)
    metadata.namespace = call.path.namespace if call.kind.namespaced else ""
    check_name(metadata.name, call.path.name)


def check_place(call: Call, obj: Any, refused: Callable[[DecodeError], ApiError]) -> None:
    """An object that has lost its namespace is in that of the URL. Raises ApiError (400) if it has another name or namespace than the URL.

    refused: the error for what no object can hold.
    """
    namespace = call.path.namespace if call.kind.namespaced else ""
    if not call.kind.namespaced or not obj.metadata.namespace:
        obj.metadata.namespace = namespace
    if obj.metadata.namespace != namespace or obj.metadata.name != call.path.name:
        call.check_quantities(obj, refused)
    if obj.metadata.namespace != namespace:
        raise bad_request(OTHER_NAMESPACE)
    check_name(obj.metadata.name, call.path.name)
