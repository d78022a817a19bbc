"""create: a new object, with what the server fills in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from bayplan.api.codec import DecodeError, encode
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError, already_exists, bad_request, failure, forbidden_error
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import CREATE, AdmissionRequest
from bayplan.apiserver.admission.observation import ObservedRequest, Reads, StandInRandomness, ask
from bayplan.apiserver.context import Call
from bayplan.apiserver.custom_resources.conversion import rehearsed
from bayplan.apiserver.managed_fields.managers import track_create
from bayplan.apiserver.reads.cache import stored_value
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response, revision_problem
from bayplan.apiserver.verbs.rules import allocate, check
from bayplan.apiserver.writes.bodies import body_object
from bayplan.apiserver.writes.body_texts import OpenTexts
from bayplan.apiserver.writes.create_templates import Match, StandIns, follows_rules
from bayplan.apiserver.writes.owners import deduplicate_owners
from bayplan.apiserver.writes.watched_texts import WatchedTexts
from bayplan.store.errors import Conflict
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import parse_rfc3339, rfc3339

OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_NAME_TRIES = 8


async def create(call: Call) -> Response:
    """A new object from the body."""
    templates = call.context.create_templates
    request_key = templates.request_key(call)
    if request_key is not None and (found := templates.find(request_key, call)) is not None:
        made = await _create_instance(call, found)
        if made is not None:
            return call.answer(201, made)
    obj = body_object(call, call.kind.type, call.kind.kind, call.kind.api_version)
    entry = await create_object(call, obj)
    if request_key is not None and not call.warnings:
        templates.note(call, request_key, entry, partial(_make_with_stand_ins, call))
    return call.answer(201, entry)


def _make_with_stand_ins(call: Call, body: bytes, open_texts: OpenTexts) -> StandIns | None:
    """Make the object of a body that has stand-ins for open texts, as the request's would be made, and observe what decides; None if that fails."""
    reads, real = Reads(), call.context
    clock = _StandInClock(real.clock)
    context = replace(real, clock=clock, randomness=StandInRandomness(reads))
    own = Call.of(context, replace(call.request, body=body), call.path)
    try:
        obj = _received(own, body_object(own, call.kind.type, call.kind.kind, call.kind.api_version))
        watched = WatchedTexts(obj, open_texts)
        steps = context.admission.plan(call.stored, CREATE, "").mutating
        is_repeatable = ask(steps, ObservedRequest(own, CREATE, watched.shown, None, "", reads))
        if not is_repeatable or watched.read:
            return StandIns(b"", reads, clock.shown, watched.read)
        obj = watched.released()
        _fill_system_fields(own, obj.metadata)
        _prepare(own, obj)
    except (ApiError, DecodeError):  # the stand-ins are no texts for this object
        return None
    return StandIns(stored_value(call.stored, obj), reads, clock.shown, ())


class _StandInClock:
    """A clock on which it is always the same time, one at which there was no server."""

    shown: Final = "1901-02-03T04:05:06Z"

    def __init__(self, real: Clock) -> None:
        self._real = real

    def now(self) -> float:
        return parse_rfc3339(self.shown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def _create_instance(call: Call, found: Match) -> Entry | None:
    """One more object of a template; None if the body has texts that only the slow path can refuse. Raises ApiError."""
    objects, (template, texts, has_name) = call.context.objects, found
    try:
        obj, value = template.instance(call.stored.type, call.context, texts)
    except (DecodeError, UnicodeDecodeError):
        return None
    _check_is_served(call, obj.metadata.name)
    annotations = obj.metadata.annotations
    if not follows_rules(obj):
        call.warnings.extend(call.strategy.early_warnings(obj))
        _check_rules(call, obj)
    await call.context.admission.plan(call.stored, CREATE, "").validate(AdmissionRequest(call, CREATE, obj, None))
    if obj.metadata.annotations is not annotations:  # a plugin that has noted something
        value = stored_value(call.stored, obj)
    for _ in range(1 if has_name else _NAME_TRIES):
        try:
            return await objects.insert(call.stored, obj, ttl=call.ttl, value=value)
        except Conflict as race:
            await objects.settle(race)
            taken = obj.metadata.name
            if not has_name:
                obj, value = template.instance(call.stored.type, call.context, texts)
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
    _check_is_served(call, obj.metadata.name)
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
        _check_rules(call, obj, is_plain=plain)
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


def _check_is_served(call: Call, name: str) -> None:
    """Raises ApiError (403) if nothing new may come of a kind."""
    if isinstance(call.kind, CustomKind) and call.kind.is_terminating:
        detail = "create not allowed while custom resource definition is terminating"
        raise forbidden_error(call.kind.plural, call.kind.group, name, detail)


def _check_rules(call: Call, obj: Any, *, is_plain: bool = False) -> None:
    """Apply the rules of the kind to a new object (not to a plain one), and warn. Raises ApiError (422)."""
    if not is_plain:
        check(call, obj, None)
    call.warnings[:] = dict.fromkeys([*call.warnings, *call.strategy.warnings(obj, None)])


def _received(
    call: Call, obj: Any, *, track: bool = True, refused: Callable[[DecodeError], ApiError] | None = None
) -> Any:
    """A new object as admission is shown it: in its namespace, defaulted, in the stored version and tracked. Raises ApiError."""
    _set_namespace(call, obj, refused)
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


def _set_namespace(call: Call, obj: Any, refused: Callable[[DecodeError], ApiError] | None) -> None:
    """Put the object into the namespace of the URL. Raises ApiError (400)."""
    namespace, metadata = call.path.namespace, obj.metadata
    if metadata.namespace and metadata.namespace != namespace and call.kind.namespaced:
        call.check_quantities(obj, refused)
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
        metadata.name = _generated_name(call.context.randomness, metadata.generate_name)
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
                obj.metadata.name = _generated_name(call.context.randomness, obj.metadata.generate_name)
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


_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX


def _generated_name(randomness: Randomness, base: str) -> str:
    """A name that begins with `base`, as far as that fits. Source: Kubernetes' `names.SimpleNameGenerator`."""
    return base[:_LONGEST_BASE] + randomness.suffix(_SUFFIX)
