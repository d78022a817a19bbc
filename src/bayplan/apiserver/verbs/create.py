"""create: a new object, with what the server fills in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bayplan.api.codec import DecodeError, encode
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError, already_exists, bad_request, failure, forbidden_error
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.admission.chain import CREATE, AdmissionRequest
from bayplan.apiserver.admission.observation import ObservedRequest, Reads, ask
from bayplan.apiserver.context import Call
from bayplan.apiserver.custom_resources.conversion import rehearsed
from bayplan.apiserver.managed_fields.managers import track_create
from bayplan.apiserver.reads.cache import stored_value
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response, revision_problem
from bayplan.apiserver.verbs.rules import allocate, check
from bayplan.apiserver.writes.bodies import body_object
from bayplan.apiserver.writes.body_texts import OpenTexts
from bayplan.apiserver.writes.create_templates import Match, ObservedPod
from bayplan.apiserver.writes.generated_names import generated_name
from bayplan.apiserver.writes.owners import deduplicate_owners
from bayplan.apiserver.writes.watched_texts import WatchedTexts
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import rfc3339

OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_NAME_TRIES = 8


async def create(call: Call) -> Response:
    """A new object from the body."""
    templates, body = call.context.create_templates, call.request.body
    request_key = templates.request_key(call) if call.stored.type is core_v1.Pod else None
    if request_key is not None and (found := templates.find(request_key, body, call.request.user)) is not None:
        return call.answer(201, await _create_instance(call, found))
    obj = body_object(call, call.kind.type, call.kind.kind, call.kind.api_version)
    entry = await create_object(call, obj)
    if request_key is not None and not call.warnings:
        templates.note(call.stored, request_key, body, obj, partial(_observe, call))
    return call.answer(201, entry)


def _observe(call: Call, open_texts: OpenTexts) -> ObservedPod | None:
    """Make the pod of a request once more, and observe what decides; None if that cannot be compared."""
    own = Call.of(call.context, call.request, call.path)
    pod = _received(own, body_object(own, call.kind.type, call.kind.kind, call.kind.api_version))
    reads = Reads()
    watched = WatchedTexts(pod, open_texts)
    steps = call.context.admission.plan(call.stored, CREATE, "").mutating
    if not ask(steps, ObservedRequest(own, CREATE, pod, None, "", reads)) or -1 in watched.read:
        return None
    watched.release()
    if own.strategy.counts_generation:
        pod.metadata.generation = 1
    _prepare(own, pod)
    return ObservedPod(pod, reads, watched.read)


async def _create_instance(call: Call, found: Match) -> Entry:
    """One more pod of a template. Raises ApiError."""
    objects, (template, name, texts) = call.context.objects, found
    pod, value = template.instance(call.context, name, texts)
    annotations = pod.metadata.annotations
    await call.context.admission.plan(call.stored, CREATE, "").validate(AdmissionRequest(call, CREATE, pod, None))
    if pod.metadata.annotations is not annotations:  # a plugin that has noted something
        value = stored_value(call.stored, pod)
    for _ in range(1 if name else _NAME_TRIES):
        try:
            return await objects.insert(call.stored, pod, value=value)
        except Conflict as race:
            await objects.settle(race)
            taken = pod.metadata.name
            if not name:
                pod, value = template.instance(call.context, name, texts)
    raise _already_exists(call, taken)


async def create_object(
    call: Call,
    obj: Any,
    *,
    plain: bool = False,
    track: bool = True,
    refused: Callable[[DecodeError], ApiError] | None = None,
) -> Entry:
    """A new object; it belongs to this call from here on.

    plain: the object is the server's own (its address may be a loopback one), so rules of users do not apply.
    track: whether to record the writer; server-side apply has done so. refused: the error for what no object can hold, if it is not the usual one.
    Raises ApiError.
    """
    obj = _received(call, obj, track=track, refused=refused)
    metadata = obj.metadata
    if isinstance(call.kind, CustomKind) and call.kind.is_terminating:
        detail = "create not allowed while custom resource definition is terminating"
        raise forbidden_error(call.kind.plural, call.kind.group, metadata.name, detail)
    admission = call.context.admission.plan(call.stored, CREATE, "")
    request = AdmissionRequest(call, CREATE, obj, None)
    if admission.mutating:
        await admission.admit(request)
    metadata = obj.metadata
    generated = _fill_system_fields(call, metadata)
    request.has_name(metadata.name)
    call.warnings.extend(call.strategy.early_warnings(obj))
    _prepare(call, obj)
    _fill_requester(call, obj)
    allocation = await allocate(call, obj, None) if call.context.allocators.serves(call.stored) else None
    try:
        if not plain:
            check(call, obj, None)
        call.warnings[:] = dict.fromkeys([*call.warnings, *call.strategy.warnings(obj, None)])
        if admission.validating:
            await admission.validate(request)
        if call.dry_run:
            _check_is_new(call, metadata.name)
            entry = await rehearsed(call, unsaved(call, obj))
        else:
            _check_has_no_revision(metadata.resource_version)
            entry = await _insert(call, obj, generated)
    except BaseException:
        if allocation is not None:
            await allocation.undo()
        raise
    if allocation is not None:
        await allocation.commit()
    return entry


def _received(
    call: Call, obj: Any, *, track: bool = True, refused: Callable[[DecodeError], ApiError] | None = None
) -> Any:
    """A new object as admission is shown it: in its namespace, defaulted, in the stored version and tracked. Raises ApiError."""
    _set_namespace(call, obj.metadata)
    call.warnings.extend(deduplicate_owners(obj.metadata))
    obj = call.to_stored(obj, refused)
    wipe_system_fields(obj.metadata)
    if track:
        track_create(call, obj)
    return obj


def _prepare(call: Call, obj: Any) -> None:
    """Reset what a writer of a new object does not decide."""
    call.strategy.prepare_create(obj)
    if call.strategy.has_gated_fields:
        call.strategy.apply_gates(obj, None, call.context.settings.feature_gates)


def _set_namespace(call: Call, metadata: Any) -> None:
    """Put the object into the namespace of the URL."""
    namespace = call.path.namespace
    if metadata.namespace and metadata.namespace != namespace and call.kind.namespaced:
        raise bad_request(OTHER_NAMESPACE)
    metadata.namespace = namespace if call.kind.namespaced else ""


def wipe_system_fields(metadata: meta_v1.ObjectMeta) -> None:
    """Take out of a new object's metadata what only the server sets."""
    metadata.creation_timestamp = metadata.deletion_timestamp = metadata.deletion_grace_period_seconds = None
    metadata.uid = metadata.self_link = ""


def _fill_system_fields(call: Call, metadata: Any) -> bool:
    """Give a new object what only the server sets, and a name if it has none. Returns whether that was made of its `generateName`."""
    generated = bool(metadata.generate_name and not metadata.name)
    if generated and not call.strategy.completes_names:
        generated, metadata.name = False, metadata.generate_name
    elif generated:
        metadata.name = generated_name(call.context.randomness, metadata.generate_name)
    metadata.uid = call.context.randomness.uuid4()
    metadata.creation_timestamp = rfc3339(call.context.clock.now())
    if call.strategy.counts_generation:
        metadata.generation = 1
    if not metadata.name and call.strategy.names_unnamed:
        metadata.name = call.context.randomness.uuid4()
    return generated


def _fill_requester(call: Call, obj: Any) -> None:
    """A certificate request says who made it."""
    if call.stored.kind == "CertificateSigningRequest" and not call.stored.is_custom:
        user, spec = call.request.user, obj.spec
        spec.username, spec.uid, spec.groups = user.name, user.uid, user.groups
        spec.extra = {key: tuple(values) for key, values in user.extra.items()}


async def _insert(call: Call, obj: Any, generated: bool) -> Entry:
    objects, name = call.context.objects, obj.metadata.name
    for _ in range(_NAME_TRIES if generated else 1):
        try:
            return await objects.insert(call.stored, obj, ttl=call.ttl)
        except Conflict as race:
            await objects.settle(race)
            name = obj.metadata.name
            if generated:
                obj.metadata.name = generated_name(call.context.randomness, obj.metadata.generate_name)
    raise _already_exists(call, name)


def _check_has_no_revision(given: str) -> None:
    """Raises ApiError (500) if a new object says that it has one; what is no revision at all is forgotten."""
    if given and not revision_problem(given) and int(given):
        raise failure(500, "", "resourceVersion should not be set on objects to be created", details=False)


def _check_is_new(call: Call, name: str) -> None:
    """Raises ApiError (409) if the name is taken."""
    if call.entry(call.path.namespace if call.kind.namespaced else "", name) is not None:
        raise _already_exists(call, name)


def _already_exists(call: Call, name: str) -> ApiError:
    error = already_exists(call.kind.plural, call.kind.group, name)
    existing = call.context.objects.cache(call.stored).get(call.path.namespace if call.kind.namespaced else "", name)
    if (
        existing is not None
        and b'"deletionTimestamp"' in existing.body
        and call.decode_stored(existing).metadata.deletion_timestamp
    ):
        error.status.message = "object is being deleted: " + error.status.message
    return error


def unsaved(call: Call, obj: Any) -> Entry:
    """The entry of an object that is only shown (dry run), with the revision that it had or was given."""
    metadata = obj.metadata
    given = metadata.resource_version
    revision = int(given) if given.isdigit() else 0
    entry = call.context.objects.cache(call.stored).make_entry(
        call.stored.storage_key(metadata.namespace, metadata.name), stored_value(call.stored, obj), revision, revision
    )
    if not revision:
        shown = b',"resourceVersion":%b' % encode(given) if given else b""
        entry.body = entry.body.replace(b',"resourceVersion":"0"', shown, 1)
    return entry
