"""get, list and watch: served from the cache, without decoding anything."""

from __future__ import annotations

import base64
import itertools
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import msgspec

from bayplan.api.errors import bad_request, failure, gone, internal_error, not_found_error
from bayplan.api.json.syntax import syntax_problem
from bayplan.api.selectors.fields import FieldSelector, parse_fields
from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types import meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.custom_resources.converting_watcher import ConvertingWatcher
from bayplan.apiserver.custom_resources.mixed_cache import mixed
from bayplan.apiserver.reads.bookmarks import bookmark_entry
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.reads.list_options import check_list_options
from bayplan.apiserver.reads.negotiation import PROTOBUF, negotiate_stream
from bayplan.apiserver.reads.storage_key import check_key
from bayplan.apiserver.reads.unreadable import NOT_READABLE, reason
from bayplan.apiserver.reads.watching import ADDED, BOOKMARK, Entry, Watcher
from bayplan.apiserver.requests import Response, bool_parameter, int_parameter, revision_problem
from bayplan.store.errors import Compacted, FutureRevision, StoreCorrupt

_CONVERTED_AT_ONCE = 500
"""Objects about which a webhook is asked at once to find those that a selector chooses."""
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the "
    "continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


_BASE64 = re.compile(r"[A-Za-z0-9_-]*")


class _Continue(msgspec.Struct):
    """What a continue token holds."""

    rv: int = 0
    """Revision of the list; -1 for the latest."""
    start: str = ""
    """First key of the page, without what the keys of the list have in common."""
    v: str = ""


def get(call: Call) -> Response:
    """One object."""
    return call.answer(200, _found(call))


async def get_converted(call: Call) -> Response:
    """One object of a kind that asks a webhook."""
    return call.answer(200, await call.in_served_version(_found(call)))


def _found(call: Call) -> Entry:
    """The object of a request. Raises ApiError (404, 500, 504)."""
    revision = call.request.query.get("resourceVersion")
    if revision and (problem := revision_problem(revision)):
        why = f'resourceVersion: Invalid value: "{revision}": {problem}'
        if call.ttl is not None:  # kube-apiserver has no watch cache of events, and its store puts it another way
            raise bad_request(f"invalid resource version: {why}")
        raise failure(500, "", why, details=False)
    if revision:
        check_not_future(call, int(revision))
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    return entry


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
    if call.kind is not call.stored:
        fields = _as_stored(call, fields)
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


def _as_stored(call: Call, fields: FieldSelector) -> FieldSelector:
    """The selector with the names that fields have in the stored version."""
    names = call.strategy.stored_field_names(call.kind.group)
    if names is None:
        return fields
    return FieldSelector(tuple(replace(one, field=names.get(one.field, one.field)) for one in fields.requirements))


def _check_fields(call: Call, fields: FieldSelector) -> None:
    """Kinds with selectable fields of their own list them all; the others know name and namespace. Raises ApiError (400)."""
    renamed = call.strategy.stored_field_names(call.kind.group) if call.kind is not call.stored else None
    own = call.strategy.selectable_field_names if renamed is None else renamed.keys()
    has_namespace = call.kind.namespaced or not (own or call.kind.is_custom)
    common = ("metadata.name", "metadata.namespace") if has_namespace else ("metadata.name",)
    for requirement in fields.requirements:
        path = requirement.field
        if path in common or path in own:
            continue
        if call.kind.is_custom:
            raise bad_request(_FIELD_TEXT.format(path))
        if own:
            raise bad_request(_OTHER_TEXTS.get(call.kind.kind, _FIELD_TEXT).format(path))
        raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


_FIELD_TEXT = "field label not supported: {}"
_OTHER_TEXTS = {
    "Job": 'field label "{}" not supported for Job',
    "ResourceSlice": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}
"""Built-in kinds whose refusal of a field is worded in its own way."""


def parse_revision(call: Call) -> int:
    """The resourceVersion parameter; 0 if missing or "0". Raises ApiError (400)."""
    text = call.request.query.get("resourceVersion", "")
    if not text:
        return 0
    if problem := revision_problem(text):
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {problem}')
    return int(text)


def check_not_future(call: Call, revision: int) -> None:
    """Raises ApiError (504) for a revision that does not exist yet."""
    current = call.context.objects.revision_of(call.stored)
    if revision > current:
        raise failure(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {revision}, current: {current}",
            causes=[meta_v1.StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")],
            retry_after=0
            if call.ttl is not None
            else 1,  # kube-apiserver has no watch cache of events that could catch up
        )


class _Page(NamedTuple):
    """Which part of a collection is asked for."""

    limit: int
    """At most so many objects; 0: all of them."""
    at: int
    """As of this revision."""
    after: tuple[str, str]
    """Those behind this object (namespace, name)."""


def _page(call: Call, fields: FieldSelector) -> _Page:
    """Raises ApiError (400, 504)."""
    query = call.request.query
    limit = int_parameter(query, "limit") or 0
    token = query.get("continue", "")
    revision = query.get("resourceVersion", "0") not in ("", "0") if token else parse_revision(call)
    current = call.context.objects.revision_of(call.stored)
    if token:
        page_of = _decode_token(token)
        if revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        after, at = _split_key(call, page_of.start), page_of.rv if page_of.rv > 0 else current
        check_not_future(call, at)
        return _Page(0 if query.get("resourceVersion") == "0" else limit, at, after)
    check_not_future(call, revision)
    match = query.get("resourceVersionMatch")
    is_exact = match == "Exact" or (revision > 0 and limit > 0 and not match and not _is_single(call, fields))
    if is_exact:
        return _Page(limit, revision, ("", ""))
    return _Page(0 if query.get("resourceVersion") == "0" else limit, current, ("", ""))


def _is_single(call: Call, fields: FieldSelector) -> bool:
    """Whether a selection is of one object by its name, which is read like one."""
    is_named = fields.exact_match("metadata.name") is not None
    return is_named and (bool(call.path.namespace) or not call.kind.namespaced)


async def chosen(call: Call) -> tuple[list[Entry], meta_v1.ListMeta]:
    """What a request on a collection is about: the selected objects of the page, and where the next one begins. Its options were checked.

    Raises ApiError (400, 410, 504).
    """
    select, fields = selection(call)
    limit, at, after = _page(call, fields)
    if _is_single(call, fields):
        limit = 0  # nothing follows the one object that is read
    check_key(call.kind, call.path.namespace, call.path.name)
    converts = call.kind.asks_webhook
    entries, remaining = await (
        matching(call, at, after, select, limit) if converts else entries_at(call, at, after, select, limit)
    )
    meta = meta_v1.ListMeta(resource_version=str(at))
    if remaining:
        last = entries[-1]
        meta.continue_ = _token(call, (last.namespace, last.name), at)
        if select is None:
            meta.remaining_item_count = remaining
    if converts:
        entries = await mixed(call.context.objects.cache(call.kind)).in_version(call.kind, entries)
    return entries, meta


class _Found(NamedTuple):
    """The objects of a page."""

    entries: list[Entry]
    remaining: int
    """How many objects follow, whether or not they are selected: as long as there are some, Kubernetes says that there may be more."""


def _cut(entries: list[Entry], limit: int, select: Callable[[Entry], bool] | None) -> _Found:
    """A page of what is selected of all that follows from its beginning on. limit: 0 for none."""
    if limit <= 0:
        return _Found(entries if select is None else list(filter(select, entries)), 0)
    found: list[Entry] = []
    for at, entry in enumerate(entries, 1):
        if select is None or select(entry):
            found.append(entry)
            if len(found) == limit:
                return _Found(found, len(entries) - at)
    return _Found(found, 0)


async def matching(
    call: Call, at: int, after: tuple[str, str], select: Callable[[Entry], bool] | None, limit: int
) -> _Found:
    """`entries_at` for kinds that ask a webhook: what is selected by has to be seen in the version of the request first."""
    entries, _ = await entries_at(call, at, after, None, 0)
    if select is None:
        return _cut(entries, limit, None)
    cache = mixed(call.context.objects.cache(call.kind))
    found: list[Entry] = []
    for start in range(0, len(entries), _CONVERTED_AT_ONCE):
        converted = await cache.in_version(call.kind, entries[start : start + _CONVERTED_AT_ONCE])
        page = _cut(converted, limit - len(found) if limit > 0 else 0, select)
        found += page.entries
        if 0 < limit == len(found):
            return _Found(found, page.remaining + max(0, len(entries) - start - _CONVERTED_AT_ONCE))
    return _Found(found, 0)


async def list_objects(call: Call) -> Response:
    """A collection, whole or in pages."""
    shape = call.shape(is_list=True)
    check_list_options(call.request.query, watch=False)
    entries, meta = await chosen(call)
    return await shape.list(entries, meta, call.warnings)


def _token(call: Call, after: tuple[str, str], revision: int) -> str:
    """What continues behind an object (namespace, name) at a revision; -1: at whichever is the latest then."""
    namespace, name = after
    start = f"{namespace}/{name}" if call.kind.namespaced and not call.path.namespace else name
    data = msgspec.json.encode(_Continue(v="meta.k8s.io/v1", rv=revision, start=f"{start}\0"))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode_token(token: str) -> _Continue:
    """What a continue token says. Raises ApiError (400). Source: apiserver's storage.DecodeContinue."""
    wrong = "invalid continue token: continue key is not valid"
    position = _corrupt_at(token)
    if position >= 0:
        raise bad_request(f"{wrong}: illegal base64 data at input byte {position}")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        found = msgspec.json.decode(data, type=_Continue)
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        raise bad_request(f"{wrong}: {syntax_problem(data) or error}") from None
    if found.v != "meta.k8s.io/v1":
        raise bad_request(f"{wrong}: server does not recognize this encoded version {found.v}")
    if not found.rv:
        raise bad_request(f"{wrong}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not found.start:
        raise bad_request(f"{wrong}: encoded start key empty (version meta.k8s.io/v1)")
    key = found.start if found.start.startswith("/") else f"/{found.start}"
    if posixpath.normpath(key) != key or key.startswith("//"):
        raise bad_request(f"{wrong}: {found.start}")
    found.start = key[1:]
    return found


def _corrupt_at(token: str) -> int:
    """The position at which a text stops being base64 without padding; -1 if it does not."""
    text = token.replace("\r", "").replace("\n", "")
    valid = len(_BASE64.match(text)[0])  # type: ignore[index]
    if valid < len(text):
        return valid
    return len(text) - 1 if len(text) % 4 == 1 else -1


def _split_key(call: Call, start: str) -> tuple[str, str]:
    """The object (namespace, name) behind which a page begins that starts at a key."""
    if not call.kind.namespaced:
        return "", _before(start)
    if call.path.namespace:
        return call.path.namespace, _before(start)
    namespace, _, name = start.partition("/")
    return namespace, _before(name)


def _before(key: str) -> str:
    """The greatest key below one: keys that end in a zero stand right behind the one without it."""
    if not key or key.endswith("\0"):
        return key[:-1]
    return key[:-1] + chr(ord(key[-1]) - 1) + chr(0x10FFFF)


async def entries_at(
    call: Call, at: int, after: tuple[str, str], select: Callable[[Entry], bool] | None, limit: int
) -> _Found:
    """A page of entries in order as of a revision: from the cache if nothing changed since, from the store's history otherwise, which ends where it was
    compacted. Raises ApiError (500) if one cannot be read."""
    cache = call.context.objects.cache(call.stored)
    namespace = call.path.namespace
    if cache.unreadable:
        cache.unreadable.check_all(namespace)
    if (
        at >= cache.revision
        and at >= call.context.objects.partition(call.stored.storage_prefix).store.compacted_revision
    ):
        found: Iterable[Entry] = cache.ordered(namespace, after)
        if limit <= 0:
            return _Found(list(found if select is None else filter(select, found)), 0)
        page = list(itertools.islice(found if select is None else filter(select, found), limit))
        is_full = len(page) == limit
        return _Found(page, cache.count_behind(namespace, (page[-1].namespace, page[-1].name)) if is_full else 0)
    return _cut(await _entries_from_history(call, cache, at, after), limit, select)


async def _entries_from_history(call: Call, cache: ResourceCache, at: int, after: tuple[str, str]) -> list[Entry]:
    prefix = call.stored.storage_prefix + (f"{call.path.namespace}/" if call.path.namespace else "")
    start = prefix if after == ("", "") else call.stored.storage_key(*after) + "\0"
    try:
        result = await call.context.objects.partition(call.stored.storage_prefix).store.range(
            start, prefix[:-1] + chr(ord("/") + 1), revision=at
        )
    except Compacted:
        if not call.request.query.get("continue"):
            raise gone("The resourceVersion for the provided list is too old.") from None
        expired = gone(_EXPIRED)
        expired.status.metadata = meta_v1.ListMeta(continue_=_token(call, after, -1))
        raise expired from None
    except FutureRevision:
        check_not_future(call, at)
        raise
    except StoreCorrupt as error:
        raise internal_error(str(error)) from error
    entries: list[Entry] = []
    for item in result.items:
        try:
            entries.append(cache.make_entry(item.key, item.value, item.mod_revision, item.create_revision))
        except NOT_READABLE as error:
            raise internal_error(reason(item.key, item.value, error)) from error
    return entries


def watch(call: Call) -> Response:
    """A stream of changes."""
    shape = call.shape(is_list=True)
    check_list_options(call.request.query, watch=True)
    select, fields = selection(call)
    query = call.request.query
    text = query.get("resourceVersion", "")
    if problem := revision_problem(text or "0"):
        raise failure(500, "", f'resourceVersion: Invalid value: "{text}": {problem}', details=False)
    timeout = int_parameter(query, "timeoutSeconds")
    check_key(call.kind, call.path.namespace, call.path.name)
    negotiate_stream(
        call.request.accept
    )  # at last: whatever else is wrong with the request is told in the form that was negotiated
    cache = call.context.objects.cache(call.stored)
    if cache.unreadable:
        cache.unreadable.check_all(call.path.namespace)
    chooses = select
    if call.path.namespace:
        inner, namespace = select, call.path.namespace
        if inner is None:
            select = lambda entry: entry.namespace == namespace  # noqa: E731
        else:
            select = lambda entry: entry.namespace == namespace and inner(entry)  # noqa: E731
    revision = int(text or 0)
    initial = bool_parameter(query, "sendInitialEvents")
    if not initial and 0 < revision < cache.history_start:
        raise gone(f"too old resource version: {revision} ({cache.history_start})")
    watcher = Watcher(call.kind, select, revision)
    if call.kind.asks_webhook:
        name = fields.exact_match("metadata.name")
        watcher = ConvertingWatcher(call.kind, mixed(cache), (call.path.namespace, name), chooses, revision)
    watcher.is_client = True
    watcher.bookmarks = bool_parameter(query, "allowWatchBookmarks")
    settings = call.context.settings
    watcher.timeout = (
        float(timeout)
        if timeout and timeout > 0
        else settings.min_request_timeout * (1 + call.context.randomness.random())
    )
    watcher.render = shape.watch_renderer()
    if revision == 0 and "sendInitialEvents" in query and not initial:
        watcher.start_revision = call.context.objects.revision_of(call.stored)
    elif initial or revision == 0:
        _send_initial(call, watcher, cache)
    else:
        for event in cache.events_after(revision):
            watcher.offer(event)
    cache.watch(watcher)
    if shape.form.media_type == PROTOBUF:
        watcher.media_type = f"{PROTOBUF};stream=watch"
    return Response(200, content_type=watcher.media_type, watcher=watcher, warnings=call.warnings)


def _send_initial(call: Call, watcher: Watcher, cache: ResourceCache) -> None:
    """What is there now as ADDED events, and the bookmark that ends them for clients that take bookmarks, whether or not they ask for initial events."""
    for entry in cache.ordered(call.path.namespace):
        if watcher.select is None or watcher.select(entry):
            watcher.put(ADDED, entry, None)
    watcher.start_revision = call.context.objects.revision_of(call.stored)
    if watcher.bookmarks:
        watcher.put(BOOKMARK, bookmark_entry(call.stored, watcher.start_revision, ends_initial_events=True), None)
