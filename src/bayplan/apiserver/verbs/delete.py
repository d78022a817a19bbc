"""delete and deletecollection: grace, preconditions, propagation, finalizers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.codec import DecodeError, decode_reporting, with_metadata
from bayplan.api.errors import (
    ApiError,
    ErrorType,
    FieldError,
    bad_request,
    conflict,
    forbidden_error,
    invalid_object,
    not_found_error,
    quoted,
)
from bayplan.api.feature_gates import UNSAFE_DELETION
from bayplan.api.json.syntax import repaired
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import DELETE, AdmissionRequest
from bayplan.apiserver.context import Call
from bayplan.apiserver.reads.cache import stored_value
from bayplan.apiserver.reads.list_options import check_list_options
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response, bool_parameter, int_parameter, parameters
from bayplan.apiserver.verbs import read, unsafe_delete
from bayplan.apiserver.verbs.rules import next_generation
from bayplan.apiserver.writes.bodies import body_json
from bayplan.apiserver.writes.body_errors import Head, Unrecognized, head_of, head_problem, version_problem
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import parse_rfc3339, rfc3339

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
"""Priority classes that cannot be deleted one by one."""
_AT_ONCE = 64
"""Objects of a collection that are deleted at the same time: the store commits them together."""


async def delete(call: Call) -> Response:
    """Delete one object, or mark it so that others finish the deletion."""
    options = parse_options(call)
    if call.kind.kind == "PriorityClass" and not call.kind.is_custom and call.path.name in _SYSTEM_CLASSES:
        detail = "this is a system priority class and cannot be deleted"
        raise forbidden_error(call.kind.plural, call.kind.group, call.path.name, detail)
    _warn(call, options)
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        return await unsafe_delete.delete(call)
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    change = call.context.write_memo.change(call, DELETE)
    if change is not None and (deleted := await change.write(removes=True)) is not None:
        return call.answer(200, deleted)
    left, gone = await delete_entry(call, call.entry(entry.namespace, entry.name) or entry, options)
    if change is not None and gone and not options.dry_run:
        change.learn(left)
    if not left.uid and call.kind.is_custom:
        return Response(200, call.kind.type_meta.rstrip(b",") + b"}", warnings=call.warnings)
    if left.uid and gone and not call.strategy.returns_object_on_delete:
        details = meta_v1.StatusDetails(name=left.name, group=call.kind.group, kind=call.kind.plural, uid=left.uid)
        status = meta_v1.Status(kind="Status", api_version="v1", status="Success", details=details)
        return Response(200, msgspec.json.encode(status), warnings=call.warnings)
    cascades = options.orphan_dependents is False  # who says so in this old way is told that the object is not gone yet
    return call.answer(202 if cascades and not gone else 200, left)


async def delete_collection(call: Call) -> Response:
    """Delete every object that the selectors choose. Answers with the list of what was deleted."""
    shape = call.shape(is_list=True)
    check_list_options(call.request.query, watch=False)
    options = parse_options(call)
    unsafe_delete.refuse_collections(options)
    read.selection(call)
    _warn(call, options)
    entries, meta = await read.chosen(call)
    for begin in range(0, len(entries), _AT_ONCE):
        batch = (_delete_if_there(call, entry, options) for entry in entries[begin : begin + _AT_ONCE])
        for failure in await asyncio.gather(*batch, return_exceptions=True):
            if failure is not None:
                raise failure
    return await shape.list(entries, meta, call.warnings)


async def _delete_if_there(call: Call, entry: Entry, options: meta_v1.DeleteOptions) -> None:
    """Delete one of a collection; somebody else may have done so meanwhile. Raises ApiError."""
    current = call.entry(entry.namespace, entry.name)
    if current is None:
        return
    try:
        await delete_entry(call, current, options)
    except ApiError as error:
        if error.code != 404:
            raise


def parse_options(call: Call) -> meta_v1.DeleteOptions:
    """DeleteOptions from the body, or from the query if there is none. Raises ApiError (400, 415, 422)."""
    request, query = call.request, call.request.query
    options = meta_v1.DeleteOptions()
    if request.body:
        options = _read_options(call)
    else:
        grace = int_parameter(query, "gracePeriodSeconds")
        if grace is not None:
            options.grace_period_seconds = grace
        if "propagationPolicy" in query:
            options.propagation_policy = query["propagationPolicy"]
        if "orphanDependents" in query:
            options.orphan_dependents = bool_parameter(query, "orphanDependents")
        if unsafe_delete.FIELD in query:
            options.ignore_store_read_error_with_cluster_breaking_potential = bool_parameter(query, unsafe_delete.FIELD)
        options.dry_run = tuple(parameters(query, "dryRun"))
    if UNSAFE_DELETION not in call.context.settings.feature_gates:
        options.ignore_store_read_error_with_cluster_breaking_potential = None
    validate_options(options)
    call.deletes_for_show = bool(options.dry_run)
    return options


def _read_options(call: Call) -> meta_v1.DeleteOptions:
    """The options in the body. Raises ApiError (400, 415)."""
    try:
        return _options_in(body_json(call, "DeleteOptions"))
    except Unrecognized as error:
        raise bad_request(error.why) from None


def _options_in(data: bytes) -> meta_v1.DeleteOptions:
    """Raises ApiError (400)."""
    options: meta_v1.DeleteOptions
    try:
        options, _ = decode_reporting(meta_v1.DeleteOptions, data)
    except (DecodeError, UnicodeDecodeError) as error:
        if problem := head_problem(data):
            raise bad_request(problem) from None
        if isinstance(error, UnicodeDecodeError):
            return _options_in(repaired(data))
        _check_type(head_of(data) or Head())
        raise bad_request(str(error)) from None
    if problem := version_problem(options.api_version):
        raise bad_request(problem)
    _check_type(Head(options.api_version, options.kind))
    return options


_OPTIONS_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
"""What knows the types that options of a deletion may be of."""
_IN_ALL_VERSIONS = frozenset(
    ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "Status", "UpdateOptions")
)
"""Kinds that it knows in any version, as types of `v1`."""
_IN_META = frozenset(("PartialObjectMetadata", "PartialObjectMetadataList", "Table", "TableOptions"))
"""Kinds that it knows in the versions of `meta.k8s.io`."""


def _check_type(head: Head) -> None:
    """A body says that it has options of a deletion, or nothing. Raises ApiError (400)."""
    if head.kind in ("", "DeleteOptions"):
        return
    version = head.api_version or "meta.k8s.io/v1"
    if head.kind in _IN_ALL_VERSIONS or (
        head.kind in _IN_META and version in ("meta.k8s.io/v1", "meta.k8s.io/v1beta1")
    ):
        raise bad_request(f"converting (v1.{head.kind}) to (v1.DeleteOptions): unknown conversion")
    raise bad_request(
        f'no kind {quoted(head.kind)} is registered for version {quoted(version)} in scheme "{_OPTIONS_SCHEME}"'
    )


def validate_options(options: meta_v1.DeleteOptions) -> None:
    errors = []
    if options.propagation_policy is not None and options.propagation_policy not in _POLICIES:
        shown = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        errors.append(FieldError(ErrorType.NOT_SUPPORTED, "propagationPolicy", options.propagation_policy, shown))
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        errors.append(
            FieldError(
                ErrorType.INVALID,
                "propagationPolicy",
                options.propagation_policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if options.dry_run and set(options.dry_run) != {"All"}:
        errors.append(FieldError(ErrorType.NOT_SUPPORTED, "dryRun", list(options.dry_run), 'supported values: "All"'))
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        errors += unsafe_delete.option_errors(options)
    if errors:
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", errors)


def _warn(call: Call, options: meta_v1.DeleteOptions) -> None:
    if call.kind.plural == "jobs" and options.propagation_policy is None and options.orphan_dependents is None:
        call.warnings.append(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
            "set propagationPolicy=Orphan to suppress this warning"
        )


@dataclass(slots=True)
class _Progress:
    """How far a deletion has come. `is_marked`: this request has written that the object, its `entry`, goes at once."""

    entry: Entry
    is_marked: bool = False


async def delete_entry(call: Call, entry: Entry, options: meta_v1.DeleteOptions) -> tuple[Entry, bool]:
    """Delete an object as far as finalizers and grace allow. Returns its last state and whether it is gone.

    An object that another client removes once it is marked was deleted by this request. Raises ApiError.
    """
    progress = _Progress(entry)
    while True:
        try:
            return await _delete_once(call, progress, options)
        except Conflict as race:
            await call.context.objects.settle(race)
            current = call.entry(entry.namespace, entry.name)
            if progress.is_marked and (current is None or current.uid != progress.entry.uid):
                return progress.entry, True
            if current is None:
                raise not_found_error(call.kind.plural, call.kind.group, entry.name) from None
            progress.entry = current


async def _delete_once(call: Call, progress: _Progress, options: meta_v1.DeleteOptions) -> tuple[Entry, bool]:
    """One try of a deletion. Raises store.Conflict if the object changed meanwhile."""
    entry = progress.entry
    call.changed = entry
    if call.kind.asks_webhook:
        entry = await call.in_served_version(entry)
    old = call.context.objects.cache(call.stored).shared(entry)
    obj = with_metadata(
        old, msgspec.structs.replace(old.metadata)
    )  # a deletion writes metadata, and makes what else it changes anew
    check_preconditions(call, obj, entry, options)
    request = AdmissionRequest(call, DELETE, None, obj, name=entry.name, namespace=entry.namespace)
    await call.context.admission.plan(call.stored, DELETE, "").run(request)
    if _is_namespace(call) and obj.metadata.deletion_timestamp is not None and obj.spec.finalizers:
        return entry, False
    now = rfc3339(call.context.clock.now())
    if obj.metadata.deletion_timestamp is None and call.strategy.begin_deletion(obj, now):
        obj.metadata.deletion_timestamp = now
        if _is_namespace(call):
            obj.metadata.finalizers = _finalizers(call, obj.metadata, options)
        gone = False
    else:
        gone = _mark(call, obj, options)
    changed = obj != old
    if not gone:
        return (await _written(call, obj, entry, options) if changed else entry), False
    if changed and _is_graceful(call) and obj.metadata.deletion_timestamp != old.metadata.deletion_timestamp:
        entry = progress.entry = await _written(call, obj, entry, options)
        progress.is_marked = True
        obj = call.context.objects.cache(call.stored).shared(entry)
        changed = False
    if changed and options.dry_run:
        return _nothing(call), True
    revision = entry.revision
    if not options.dry_run:
        revision = await call.context.objects.remove(call.stored, entry)
        if call.context.allocators.serves(call.stored):
            await call.context.allocators.forget(obj)
    if not call.strategy.returns_object_on_delete:
        return entry, True
    if call.kind.asks_webhook:
        return _shown(call, old, entry, revision), True
    return call.context.objects.cache(call.stored).as_deleted(entry, revision), True


async def _written(call: Call, obj: Any, entry: Entry, options: meta_v1.DeleteOptions) -> Entry:
    """The changed object, kept (or, in a dry run, only shown)."""
    if options.dry_run:
        return _shown(call, obj, entry, entry.revision)
    return await call.context.objects.replace(call.stored, obj, entry.revision)


def _shown(call: Call, obj: Any, entry: Entry, revision: int) -> Entry:
    """The object as it was when it went away."""
    cache = call.context.objects.cache(call.stored)
    key = call.stored.storage_key(entry.namespace, entry.name)
    return cache.make_entry(key, stored_value(call.stored, obj), revision, entry.create_revision)


def _nothing(call: Call) -> Entry:
    """An object without any values: what kube-apiserver answers where a deletion that is not kept has taken the last finalizers away."""
    kind, body = call.stored, b""
    if not kind.is_custom and kind.type is not None:
        obj = kind.type()
        if (
            kind.kind == "DaemonSet"
        ):  # as its internal type becomes JSON, and that of the three others in which `replicas` is no pointer
            obj.metadata.annotations = {"deprecated.daemonset.template.generation": "0"}
        elif kind.kind in ("Deployment", "ReplicaSet", "StatefulSet"):
            obj.spec.replicas = 0
        body = stored_value(kind, obj)[len(kind.type_meta) :].replace(b'"containers":[]', b'"containers":null')
    return Entry("", "", 0, 0, body, {}, {}, "")


def check_preconditions(call: Call, obj: Any, entry: Entry, options: meta_v1.DeleteOptions) -> None:
    """Whether an object is the one that is to be deleted. Raises ApiError (409)."""
    wanted = options.preconditions
    if wanted is None:
        return
    is_namespace = _is_namespace(call)
    if wanted.uid is not None and wanted.uid != obj.metadata.uid:
        detail = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({obj.metadata.uid}). "
            "The object might have been deleted and then recreated"
        )
        if is_namespace:
            detail = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {obj.metadata.uid}"
        raise conflict(_conflict_name(call), _conflict_group(call), entry.name, detail)
    if wanted.resource_version is not None and wanted.resource_version != str(entry.revision):
        detail = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion in record "
            f"({entry.revision}). The object might have been modified"
        )
        if is_namespace:
            detail = (
                f"Precondition failed: ResourceVersion in precondition: {wanted.resource_version}, "
                f"ResourceVersion in object meta: {entry.revision}"
            )
        raise conflict(_conflict_name(call), _conflict_group(call), entry.name, detail)


def _is_namespace(call: Call) -> bool:
    return call.stored.kind == "Namespace" and not call.stored.group


def _conflict_name(call: Call) -> str:
    """Kubernetes names the kind here, not the resource, but for namespaces."""
    return call.kind.plural if _is_namespace(call) else call.kind.kind


def _conflict_group(call: Call) -> str:
    """Events belong to the core, whichever group serves them."""
    return "" if call.kind.kind == "Event" and not call.kind.is_custom else call.kind.group


def _mark(call: Call, obj: Any, options: meta_v1.DeleteOptions) -> bool:
    """Write the deletion into metadata: timestamp, grace, finalizers. Returns whether nothing holds the object back."""
    metadata = obj.metadata
    if _is_graceful(call) and _begin_grace(call, obj, options):
        metadata.finalizers = _finalizers(call, metadata, options)
        return not metadata.finalizers and not metadata.deletion_grace_period_seconds
    if metadata.deletion_timestamp is not None and metadata.deletion_grace_period_seconds:
        return False
    metadata.finalizers = _finalizers(call, metadata, options)
    if not metadata.finalizers:
        return True
    if metadata.deletion_timestamp is None:
        metadata.deletion_timestamp = rfc3339(call.context.clock.now())
        if metadata.generation > 0:
            metadata.generation = next_generation(metadata.generation)
    metadata.deletion_grace_period_seconds = 0
    return False


def _is_graceful(call: Call) -> bool:
    """Whether objects of this kind are given time to end; they show that they are deleted even if the time is zero."""
    return call.stored.kind == "Pod" and not call.stored.group


def _begin_grace(call: Call, obj: Any, options: meta_v1.DeleteOptions) -> bool:
    """Set or shorten the time that a pod is given to end. Returns whether it was set; it is never made longer."""
    metadata, now = obj.metadata, call.context.clock.now()
    if metadata.deletion_timestamp is None:
        grace = _grace(obj, options)
        metadata.deletion_timestamp = rfc3339(now + grace)
        metadata.deletion_grace_period_seconds = grace
        if metadata.generation > 0:
            metadata.generation = next_generation(metadata.generation)
        return True
    left, wanted = metadata.deletion_grace_period_seconds or 0, options.grace_period_seconds
    if not left or wanted is None or wanted >= left:
        return False
    wanted = 1 if wanted < 0 else wanted
    started = parse_rfc3339(metadata.deletion_timestamp) - left
    if metadata.creation_timestamp and started < parse_rfc3339(metadata.creation_timestamp):
        started = now  # the time given was so long that its end could not be written
    metadata.deletion_timestamp = rfc3339(started + wanted)
    metadata.deletion_grace_period_seconds = wanted
    return True


def _grace(pod: Any, options: meta_v1.DeleteOptions) -> int:
    """Seconds that a pod on a node is given to end; 0 for pods on no node and for pods that have ended."""
    if not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_period_seconds
    if grace is None:
        grace = pod.spec.termination_grace_period_seconds or 0
    return 1 if grace < 0 else int(grace)


def _finalizers(call: Call, metadata: Any, options: meta_v1.DeleteOptions) -> tuple[str, ...]:
    """The object's finalizers with those that say how dependents are dealt with; the garbage collector takes them away."""
    if call.stored.kind == "Event" and not call.stored.is_custom:  # nothing depends on events, whatever a client says
        return tuple(name for name in metadata.finalizers if name not in (FOREGROUND, ORPHAN))
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        if ORPHAN in metadata.finalizers or FOREGROUND in metadata.finalizers:
            return tuple(metadata.finalizers)
        policy = "Orphan" if call.strategy.orphans_dependents else "Background"
    kept = [name for name in metadata.finalizers if name not in (FOREGROUND, ORPHAN)]
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    if wanted is not None:
        kept.append(wanted)
    return tuple(metadata.finalizers) if set(kept) == set(metadata.finalizers) else tuple(kept)
