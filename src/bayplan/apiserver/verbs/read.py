"""get, list and watch: served from the cache, without decoding anything."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bayplan.api.errors import ErrorType, FieldError, bad_request, failure, gone, invalid_object, not_found_error
from bayplan.api.selectors import FieldSelector, SelectorError, parse_fields, parse_labels
from bayplan.api.types import meta_v1
from bayplan.apiserver.cache import ResourceCache
from bayplan.apiserver.context import Call
from bayplan.apiserver.negotiation import negotiate_stream
from bayplan.apiserver.requests import Response, bool_parameter, int_parameter
from bayplan.apiserver.watching import ADDED, BOOKMARK, Entry, Watcher
from bayplan.store.errors import Compacted, FutureRevision

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the "
    "continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


class _Continue(msgspec.Struct):
    """What a continue token holds."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"


def get(call: Call) -> Response:
    """One object."""
    parse_revision(call)
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    if call.request.query.get("resourceVersion"):
        check_not_future(call, parse_revision(call))
    return call.answer(200, entry)


def selection(call: Call) -> tuple[Callable[[Entry], bool] | None, FieldSelector]:
    """The label and field selectors of a request as one predicate (None: everything). Raises ApiError (400)."""
    query = call.request.query
    try:
        labels = parse_labels(query.get("labelSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    try:
        fields = parse_fields(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    if call.path.name:
        fields = parse_fields(f"metadata.name={call.path.name}")
    _check_fields(call, fields)
    if fields.is_everything() and labels.is_everything():
        return None, fields
    matches_labels = labels.matches
    if fields.is_everything():
        return lambda entry: matches_labels(entry.labels), fields
    matches_fields = fields.matches

    def select(entry: Entry) -> bool:
        return matches_labels(entry.labels) and matches_fields(
            {**entry.fields, "metadata.name": entry.name, "metadata.namespace": entry.namespace}
        )

    return select, fields


def _check_fields(call: Call, fields: FieldSelector) -> None:
    """Kinds with selectable fields of their own list them all; the others know name and namespace. Raises ApiError (400)."""
    own = call.strategy.selectable_field_names
    common = ("metadata.name", "metadata.namespace") if call.kind.namespaced or not own else ("metadata.name",)
    for requirement in fields.requirements:
        path = requirement.field
        if path in common or path in own:
            continue
        if own:
            raise bad_request(f"field label not supported: {path}")
        raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def parse_revision(call: Call) -> int:
    """The resourceVersion parameter; 0 if missing or "0". Raises ApiError (400)."""
    text = call.request.query.get("resourceVersion", "")
    if not text:
        return 0
    if not text.isdigit() or not text.isascii():
        raise bad_request(f"invalid resource version: {_unparsable(text, 'invalid syntax')}")
    if int(text) >= 1 << 64:
        raise bad_request(f"invalid resource version: {_unparsable(text, 'value out of range')}")
    return int(text)


def _unparsable(text: str, why: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'


def check_not_future(call: Call, revision: int) -> None:
    """Raises ApiError (504) for a revision that does not exist yet."""
    current = call.context.objects.revision
    if revision > current:
        raise failure(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {revision}, current: {current}",
            causes=[meta_v1.StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")],
            retry_after=1,
        )


def _check_options(call: Call, *, watch: bool) -> None:
    """The rules about which list options go together. Raises ApiError (422)."""
    query = call.request.query
    match, revision = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    problem = None
    if watch:
        if query.get("sendInitialEvents") and match != "NotOlderThan":
            problem = "resourceVersionMatch is required when sendInitialEvents is set"
        elif match and not query.get("sendInitialEvents"):
            problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif match:
        if query.get("continue"):
            problem = "resourceVersionMatch is forbidden when continue is provided"
        elif not revision:
            problem = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        elif match not in ("Exact", "NotOlderThan"):
            error = FieldError(
                ErrorType.NOT_SUPPORTED, "resourceVersionMatch", match, 'supported values: "Exact", "NotOlderThan", ""'
            )
            raise invalid_object("ListOptions", "meta.k8s.io", "", [error])
        elif match == "Exact" and revision == "0":
            problem = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if not watch and query.get("sendInitialEvents"):
        error = FieldError(ErrorType.FORBIDDEN, "sendInitialEvents", None, "sendInitialEvents is forbidden for list")
        raise invalid_object("ListOptions", "meta.k8s.io", "", [error])
    if problem:
        raise invalid_object(
            "ListOptions", "meta.k8s.io", "", [FieldError(ErrorType.FORBIDDEN, "resourceVersionMatch", None, problem)]
        )


async def list_objects(call: Call) -> Response:
    """A collection, whole or in pages."""
    shape = call.shape(is_list=True)
    select, _ = selection(call)
    _check_options(call, watch=False)
    query = call.request.query
    limit = int_parameter(query, "limit") or 0
    revision = parse_revision(call)
    token, after = query.get("continue", ""), ("", "")
    current = call.context.objects.revision
    at = current
    if token:
        if revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        page_of = _decode_token(token)
        after, at = _split_key(call, page_of.start), page_of.rv or current
        if "resourceVersion" in query and query["resourceVersion"] == "0":
            limit = 0
    else:
        check_not_future(call, revision)
        if query.get("resourceVersionMatch") == "Exact" or (
            revision and limit > 0 and not query.get("resourceVersionMatch")
        ):
            at = revision
        elif query.get("resourceVersion") == "0":
            limit = 0
    entries = await entries_at(call, at, after, select, limit)
    meta = meta_v1.ListMeta(resource_version=str(at))
    if 0 < limit < len(entries):
        kept = entries[:limit]
        last = kept[-1]
        start = f"{last.namespace}/{last.name}" if call.kind.namespaced else last.name
        meta.continue_ = (
            base64.urlsafe_b64encode(msgspec.json.encode(_Continue(rv=at, start=start))).decode().rstrip("=")
        )
        if select is None:
            meta.remaining_item_count = len(entries) - limit
        entries = kept
    return Response(200, shape.list(entries, meta), shape.form.media_type, warnings=call.warnings)


def _decode_token(token: str) -> _Continue:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=_Continue)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def _split_key(call: Call, start: str) -> tuple[str, str]:
    namespace, _, name = start.rpartition("/")
    return (namespace if call.kind.namespaced else "", name)


async def entries_at(
    call: Call, at: int, after: tuple[str, str], select: Callable[[Entry], bool] | None, limit: int
) -> list[Entry]:
    """Entries in order as of a revision: from the cache if nothing changed since, from the store's history otherwise. One page and, to
    count what remains, all that follows it (with a selector: one more than the page)."""
    cache = call.context.objects.cache(call.stored)
    namespace = call.path.namespace
    if at >= cache.revision:
        found: Iterable[Entry] = cache.ordered(namespace, after)
        if select is None:
            return list(found)
        chosen = filter(select, found)
        return list(itertools.islice(chosen, limit + 1) if limit > 0 else chosen)
    return await _entries_from_history(call, cache, at, after, select)


async def _entries_from_history(
    call: Call, cache: ResourceCache, at: int, after: tuple[str, str], select: Callable[[Entry], bool] | None
) -> list[Entry]:
    prefix = call.stored.storage_prefix + (f"{call.path.namespace}/" if call.path.namespace else "")
    start = prefix if after == ("", "") else call.stored.storage_key(*after) + "\0"
    try:
        result = await call.context.objects.store.range(start, prefix[:-1] + chr(ord("/") + 1), revision=at)
    except Compacted:
        raise gone(_EXPIRED) from None
    except FutureRevision:
        check_not_future(call, at)
        raise
    entries = [cache.make_entry(item.key, item.value, item.mod_revision, item.create_revision) for item in result.items]
    return entries if select is None else [entry for entry in entries if select(entry)]


def watch(call: Call) -> Response:
    """A stream of changes."""
    negotiate_stream(call.request.accept)
    shape = call.shape(is_list=True)
    _check_options(call, watch=True)
    select, _ = selection(call)
    query = call.request.query
    text = query.get("resourceVersion", "")
    if text and (not text.isdigit() or not text.isascii()):
        raise failure(500, "", _unparsable(text, "invalid syntax"), details=False)
    timeout = int_parameter(query, "timeoutSeconds")
    cache = call.context.objects.cache(call.stored)
    if call.path.namespace:
        inner, namespace = select, call.path.namespace
        if inner is None:
            select = lambda entry: entry.namespace == namespace  # noqa: E731
        else:
            select = lambda entry: entry.namespace == namespace and inner(entry)  # noqa: E731
    revision = int(text or 0)
    initial = bool_parameter(query, "sendInitialEvents")
    watcher = Watcher(call.kind, select, revision)
    watcher.bookmarks = bool_parameter(query, "allowWatchBookmarks")
    settings = call.context.settings
    watcher.timeout = (
        float(timeout)
        if timeout and timeout > 0
        else settings.min_request_timeout * (1 + call.context.randomness.random())
    )
    watcher.render = shape.watch_renderer()
    if initial or revision == 0:
        _send_initial(call, watcher, cache, bookmark=initial and watcher.bookmarks)
    else:
        if revision < cache.history_start:
            raise gone(f"too old resource version: {revision} ({cache.history_start})")
        for event in cache.events_after(revision):
            watcher.offer(event)
    cache.watch(watcher)
    return Response(200, content_type="application/json", watcher=watcher, warnings=call.warnings)


def _send_initial(call: Call, watcher: Watcher, cache: ResourceCache, *, bookmark: bool) -> None:
    """What is there now as ADDED events, and the bookmark that ends them."""
    for entry in cache.ordered(call.path.namespace):
        if watcher.select is None or watcher.select(entry):
            watcher.put(ADDED, entry, None)
    watcher.start_revision = call.context.objects.revision
    if bookmark:
        watcher.put(BOOKMARK, bookmark_entry(watcher.start_revision, ends_initial_events=True), None)


def bookmark_entry(revision: int, *, ends_initial_events: bool = False) -> Entry:
    """The object of a BOOKMARK event: metadata with a resourceVersion only."""
    annotations: dict[str, Any] = {"annotations": {INITIAL_EVENTS_END: "true"}} if ends_initial_events else {}
    body = msgspec.json.encode({"metadata": {"resourceVersion": str(revision), **annotations}})[1:]
    return Entry("", "", revision, revision, body, {}, {}, "")
