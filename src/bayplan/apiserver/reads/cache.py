"""The watch cache: every object of one kind as encoded bytes, with what selectors need, kept current by the store's events.

Reads never decode. The body that is kept is the JSON object without `{"kind":...,"apiVersion":...,`, with the resourceVersion already in it:

    GET    type_meta + body                                  {"kind":"Pod","apiVersion":"v1", + "metadata":{...}}
    LIST   head + b"{" + b",{".join(bodies) + b"]}"          items carry no kind, as in Kubernetes
    WATCH  b'{"type":"ADDED","object":' + type_meta + body + b"}\\n"
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.codec import KINDS_WITH_NULL_LISTS, decoder, encode, with_metadata, with_null_lists
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.json.writing import escaped
from bayplan.api.kinds import Kind
from bayplan.api.strategies import strategy_for
from bayplan.apiserver.reads.history import History
from bayplan.apiserver.reads.observed import observed_decoder
from bayplan.apiserver.reads.unreadable import NOT_READABLE, Unreadable, UnreadableObjects, check_readable
from bayplan.apiserver.reads.watching import Entry, Event, Watcher
from bayplan.store.interface import Event as StoreEvent
from bayplan.store.interface import KeyValue

DECODED_LIMIT = 4096
"""Entries per kind whose decoded object is kept for watchers in this process that share them."""
DECODED_UNSHARED = 2048
"""The same without such watchers: a pod is written again soon after it came, and decoding what it was is a fifth of what its status costs."""


def with_revision(body: bytes, revision: int) -> bytes:
    """Put the resourceVersion into a stored body, behind the uid where Kubernetes has it (or first in metadata without a uid)."""
    at = body.find(b'"uid":"', 0, 1200)
    if at < 0:
        return b'"metadata":{"resourceVersion":"%d"%b%b' % (revision, b"" if body[12:13] == b"}" else b",", body[12:])
    end = body.index(b'"', at + 7) + 1
    return b'%b,"resourceVersion":"%d"%b' % (body[:end], revision, body[end:])


@dataclass(slots=True)
class Prepared:
    """What an entry needs besides its bytes, from who wrote them without an object."""

    labels: dict[str, str]
    fields: dict[str, str]
    uid: str
    entry: Entry | None = None
    """What was made of it, for one write."""


_FEW = 64
"""So many names are put into their places one by one; if more have changed, all are sorted anew."""


class Bucket:
    """The objects of one namespace, in order of name."""

    __slots__ = ("_changed", "_names", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._names: list[str] | None = []
        """In order, as they were when somebody last asked; None if too much has changed since. Not to be changed: readers may be at it."""
        self._changed: list[str] = []
        """Names that came or went since."""

    def put(self, entry: Entry) -> Entry | None:
        """Add or replace an object; returns what it was before."""
        before = self.entries.get(entry.name)
        if before is None and self._names is not None:
            self._note_changed(entry.name)
        self.entries[entry.name] = entry
        return before

    def remove(self, name: str) -> None:
        """Take an object out, if it is there."""
        if self.entries.pop(name, None) is not None and self._names is not None:
            self._note_changed(name)

    def _note_changed(self, name: str) -> None:
        if len(self._changed) < _FEW:
            self._changed.append(name)
        else:
            self._names, self._changed = None, []

    def names(self) -> list[str]:
        """Names in order. Pages of large namespaces to which something is added all the time cost no sorting."""
        if self._names is None:
            self._names = sorted(self.entries)
        elif self._changed:
            self._names = self._with_changes(self._names.copy())
            self._changed = []
        return self._names

    def _with_changes(self, names: list[str]) -> list[str]:
        for name in self._changed:
            at = bisect_left(names, name)
            was_there = at < len(names) and names[at] == name
            if name in self.entries and not was_there:
                names.insert(at, name)
            elif was_there and name not in self.entries:
                del names[at]
        return names

    def ordered(self, after: str = "") -> Iterator[Entry]:
        """Objects in order of name, from behind `after`."""
        names = self.names()
        for at in range(bisect_right(names, after) if after else 0, len(names)):
            yield self.entries[names[at]]

    def count(self, after: str) -> int:
        """How many objects there are behind `after`."""
        names = self.names()
        return len(names) - bisect_right(names, after)


class ResourceCache:
    """All objects of one stored kind and everybody who watches them."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        """The row in whose version objects are kept."""
        self.strategy = strategy_for(kind)
        self._observe = observed_decoder(kind, self.strategy)
        self.buckets: dict[str, Bucket] = {}
        self.watchers: dict[Watcher, None] = {}
        """In the order in which they came, so that equal runs tell them in the same order."""
        self.unreadable = UnreadableObjects()
        self.count = 0
        self.events = 0
        """How many changes came from the store."""
        self.revision = 0
        """Revision of the last change of this kind."""
        self.history = History(self._is_current)
        self.history_start = 0
        """Watches may start at this revision or later."""
        self._decoded: deque[Entry] = deque()
        """Entries whose decoded objects are kept, in order."""
        self.sharers = 0
        """Watchers in this process that read decoded objects."""
        self._aged = 0
        """How many of them were there when history was last forgotten."""

    def get(self, namespace: str, name: str) -> Entry | None:
        """One object, or None."""
        bucket = self.buckets.get(namespace)
        return bucket.entries.get(name) if bucket is not None else None

    def ordered(self, namespace: str = "", after: tuple[str, str] = ("", "")) -> Iterator[Entry]:
        """Objects of one namespace (all, if "") in order of namespace and name, from behind `after`."""
        if namespace or not self.kind.namespaced:
            bucket = self.buckets.get(namespace)
            if bucket is not None:
                yield from bucket.ordered(after[1])
            return
        for one in sorted(self.buckets):
            bucket = self.buckets.get(one)  # None if its last object went while the caller was at another one
            if bucket is not None and one >= after[0]:
                yield from bucket.ordered(after[1] if one == after[0] else "")

    def count_behind(self, namespace: str, after: tuple[str, str]) -> int:
        """How many objects `ordered` gives."""
        if namespace or not self.kind.namespaced:
            bucket = self.buckets.get(namespace)
            return bucket.count(after[1]) if bucket is not None else 0
        own = self.buckets.get(after[0])
        behind = sum(len(one.entries) for name, one in self.buckets.items() if name > after[0])
        return behind + (own.count(after[1]) if own is not None else 0)

    def all(self) -> Iterator[Entry]:
        """All objects, in no order."""
        for bucket in self.buckets.values():
            yield from bucket.entries.values()

    def decode(self, entry: Entry) -> Any:
        """A fresh object of an entry, with its resourceVersion; the caller owns it."""
        return decoder(self.kind.type)(b"{" + entry.body)

    def shared(self, entry: Entry) -> Any:
        """The object of an entry, decoded at most once while events about it are under way. Nobody may change it."""
        if entry.decoded is None:
            entry.decoded = self.decode(entry)
            self._remember(entry)
        return entry.decoded

    def _remember(self, entry: Entry) -> None:
        """Keep the decoded objects of the latest entries only."""
        self._decoded.append(entry)
        if len(self._decoded) > (DECODED_LIMIT if self.sharers else DECODED_UNSHARED):
            self._decoded.popleft().decoded = None

    def make_entry(self, key: str, value: bytes, revision: int, create_revision: int, obj: Any = None) -> Entry:
        """An entry from stored bytes; `obj` saves decoding them: the object, if the writer still has it, or what is `Prepared` (for this write alone).

        Raises one of `NOT_READABLE`.
        """
        if type(obj) is Prepared and obj.entry is not None:
            return obj.entry
        check_readable(value)
        if isinstance(self.kind, CustomKind) and not value.startswith(self.kind.type_meta):
            value, obj = in_version(self.kind, value), None
        body = with_revision(value[len(self.kind.type_meta) :], revision)
        namespace, name = self._named(key)
        if type(obj) is Prepared:
            entry = obj.entry = Entry(namespace, name, revision, create_revision, body, obj.labels, obj.fields, obj.uid)
            return entry
        decoded = self._observe(b"{" + body) if obj is None else obj
        shown = self.strategy.shown(decoded)
        if shown is not decoded:
            body = with_revision(stored_value(self.kind, shown)[len(self.kind.type_meta) :], revision)
        entry = Entry(
            namespace,
            name,
            revision,
            create_revision,
            body,
            decoded.metadata.labels,
            self.strategy.selectable_fields(decoded),
            decoded.metadata.uid,
        )
        if obj is not None:
            obj.metadata.resource_version = str(revision)
            entry.decoded = obj
            if shown is obj:
                self._remember(entry)
        elif shown is not decoded:
            entry.decoded = decoded  # for good, since the body does not say it all
        return entry

    def _named(self, key: str) -> tuple[str, str]:
        """Namespace and name of a storage key."""
        namespace, _, name = key[len(self.kind.storage_prefix) :].rpartition("/")
        return namespace, name

    def become(self, kind: Kind) -> None:
        """Serve another row of the same kind, whose objects look the same."""
        self.kind, self.strategy = kind, strategy_for(kind)
        self._observe = observed_decoder(kind, self.strategy)

    def load(self, key: str, value: bytes, revision: int, create_revision: int) -> None:
        """Take in an object at start-up, without an event."""
        try:
            self._put(self._loaded(key, value, revision, create_revision))
        except NOT_READABLE as error:
            self.unreadable.add(key, Unreadable(key, self._named(key), revision, value, error, None))

    def _loaded(self, key: str, value: bytes, revision: int, create_revision: int) -> Entry:
        """An entry of an object that may have been kept under other rules. Raises one of `NOT_READABLE`."""
        if isinstance(self.kind, CustomKind):
            check_readable(value)
            value = in_version(self.kind, value)
        return self.make_entry(key, value, revision, create_revision)

    def apply(self, event: StoreEvent) -> None:
        """Take in a committed change and tell the watchers."""
        self.revision = event.revision
        self.events += 1
        hidden = self.unreadable.pop(event.key) if self.unreadable else None
        before = None if hidden is None else hidden.last
        if event.value is not None:
            try:
                entry = self.make_entry(event.key, event.value, event.revision, event.create_revision, event.attachment)
            except NOT_READABLE as error:
                self._hide(event.key, event.revision, event.value, error, before)
                return
            change = Event(entry, self._put(entry) or before, event.revision)
        else:
            last = self._remove(event.key) or before
            if last is None:
                return
            change = Event(None, self.as_deleted(last, event.revision), event.revision)
        dropped = self.history.append(change)
        if dropped is not None:
            self.history_start = dropped
        for watcher in tuple(self.watchers):
            watcher.offer(change)

    def _remove(self, key: str) -> Entry | None:
        """Take an object out, if it is there; returns what it was."""
        namespace, name = self._named(key)
        last = self.get(namespace, name)
        if last is not None:
            bucket = self.buckets[namespace]
            bucket.remove(name)
            if not bucket.entries:
                del self.buckets[namespace]
            self.count -= 1
        return last

    def _hide(self, key: str, revision: int, value: bytes, error: Exception, before: Entry | None) -> None:
        """An object has become one that cannot be read: clients cannot be told what it is, and have to list anew."""
        last = self._remove(key) or before
        self.history_start = revision
        self._expire_clients()
        self.unreadable.add(key, Unreadable(key, self._named(key), revision, value, error, last))

    def reveal(self, item: KeyValue) -> None:
        """Take in an object that could not be read until now, if it is still the same and can be."""
        hidden = self.unreadable.get(item.key)
        if hidden is None or hidden.revision != item.mod_revision:
            return
        try:
            entry = self._loaded(item.key, item.value, item.mod_revision, item.create_revision)
        except NOT_READABLE:
            return
        self.unreadable.pop(item.key)
        self._put(entry)
        self.history_start = self.revision
        change = Event(entry, hidden.last, self.revision)
        for watcher in tuple(self.watchers):
            watcher.offer(change)

    def _expire_clients(self) -> None:
        for watcher in tuple(self.watchers):
            if watcher.is_client:
                watcher.expire()

    def replace(self, items: Iterable[KeyValue], revision: int) -> None:
        """Become what the store has at a revision, after events were missed: clients' watches end, since what happened in between cannot be told; the server's own
        learn what differs."""
        self._expire_clients()
        kept: set[str] = set()
        changed: list[StoreEvent] = []
        for item in items:
            kept.add(item.key)
            last = self.get(*self._named(item.key))
            if last is None or last.revision != item.mod_revision:
                changed.append(StoreEvent(item.key, item.mod_revision, item.value, item.create_revision, None, 0))
        changed.sort(key=lambda event: event.revision)
        for entry in list(self.ordered()):
            key = self.kind.storage_key(entry.namespace, entry.name)
            if key not in kept:
                changed.append(StoreEvent(key, revision, None, entry.create_revision, None, entry.revision))
        for key, hidden in self.unreadable:
            if key not in kept:
                changed.append(StoreEvent(key, revision, None, 0, None, hidden.revision))
        for event in changed:
            self.apply(event)
        self.history_start = self.revision = max(self.revision, revision)

    def _put(self, entry: Entry) -> Entry | None:
        """Take in an object; returns what it was before."""
        bucket = self.buckets.get(entry.namespace)
        if bucket is None:
            bucket = self.buckets[entry.namespace] = Bucket()
        before = bucket.put(entry)
        if before is None:
            self.count += 1
        return before

    def as_deleted(self, last: Entry, revision: int) -> Entry:
        """The last state of a deleted object, with the revision of the deletion as resourceVersion."""
        body = last.body.replace(b'"resourceVersion":"%d"' % last.revision, b'"resourceVersion":"%d"' % revision, 1)
        deleted = Entry(
            last.namespace, last.name, revision, last.create_revision, body, last.labels, last.fields, last.uid
        )
        if last.decoded is not None:
            metadata = msgspec.structs.replace(last.decoded.metadata, resource_version=str(revision))
            deleted.decoded = with_metadata(last.decoded, metadata)
            self._remember(deleted)
        return deleted

    def _is_current(self, entry: Entry) -> bool:
        return self.get(entry.namespace, entry.name) is entry

    def events_after(self, revision: int) -> list[Event]:
        """Kept events with a higher revision, in order. The caller has checked `history_start`."""
        return self.history.after(revision)

    def forget(self, revision: int) -> None:
        """Drop events up to a revision, but not the latest: who wants to go on from before has to list anew. To be called now and then: what nobody has needed
        between two calls is let go of, too.

        What changes seldom stays resumable, as with kube-apiserver, whose watch cache keeps about as many.
        """
        decoded = self._decoded
        for _ in range(min(self._aged, len(decoded))):
            decoded.popleft().decoded = None
        self._aged = len(decoded)
        dropped = self.history.forget(revision)
        if dropped is not None:
            self.history_start = dropped

    def watch(self, watcher: Watcher) -> None:
        """Let a watcher take part from now on."""
        self.watchers[watcher] = None
        watcher.on_close(self._forget)

    def _forget(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)


def in_version(kind: CustomKind, value: bytes) -> bytes:
    """The bytes of an object that may have been kept in another version, or under another schema."""
    return stored_value(kind, kind.renewed(kind.type.read(value)))


def stored_value(kind: Kind, obj: Any) -> bytes:
    """The bytes under which an object is kept: with kind and apiVersion in front, without resourceVersion."""
    if isinstance(obj, CustomObject):
        obj.settle()
    obj.kind = obj.api_version = obj.metadata.resource_version = ""
    data = kind.type_meta + encode(obj)[1:]
    if kind.is_custom:
        return data
    if kind.kind == "ControllerRevision":  # controllers compare the bytes of its data
        return escaped(data)
    return with_null_lists(kind.kind, data) if kind.kind in KINDS_WITH_NULL_LISTS else data
