"""The watch cache of a custom resource that a webhook converts: each object in the version in which it is kept.

Other caches hold all objects in one version. Here a webhook would have to be asked for that, which may be away when the server starts: objects stay as they are
until somebody wants to see them in another version, and are converted then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from bayplan.api.codec import decoder
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.kinds import Kind
from bayplan.apiserver.reads.cache import ResourceCache, stored_value, with_revision
from bayplan.apiserver.reads.unreadable import check_readable
from bayplan.apiserver.reads.watching import Entry


class MixedEntry(Entry):
    """One object, as of one revision, in one of the versions of its kind."""

    __slots__ = ("kept_in", "kind")

    def __init__(
        self, place: tuple[str, str], revisions: tuple[int, int], obj: CustomObject, body: bytes, kept_in: str
    ) -> None:
        """place: namespace and name. revisions: of the last change and of the creation. kept_in: the version in which the store has the object."""
        kind: CustomKind = type(obj).row
        metadata, fields = obj.metadata, kind.strategy.selectable_fields(obj)
        super().__init__(*place, *revisions, body, metadata.labels, fields, metadata.uid)
        self.kind = kind
        """The version in which the object is here."""
        self.kept_in = kept_in


class Converter(Protocol):
    """What converts objects of one custom resource between its versions."""

    async def entries(self, kind: CustomKind, entries: Sequence[MixedEntry]) -> list[MixedEntry]:
        """Entries in a version; those that are in it already stay as they are. Raises ApiError (500)."""

    async def object(self, obj: CustomObject, source: Kind, target: CustomKind) -> CustomObject:
        """A new object of another version. The original stays as it is. Raises ApiError (500)."""


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""


class MixedCache(ResourceCache):
    """All objects of one custom resource, each in the version in which it is kept."""

    kind: CustomKind

    def __init__(self, kind: CustomKind, kinds: Sequence[CustomKind], converter: Converter) -> None:
        """kind: in whose version new objects are kept; kinds: all versions."""
        super().__init__(kind)
        self.converter = converter
        self._kinds = {one.type_meta: one for one in kinds}

    def _kind_of(self, value: bytes) -> CustomKind:
        """The version in which an object is kept, which may be one that the definition has no more."""
        found = self._kinds.get(value[: len(self.kind.type_meta)])
        if found is None:
            found = next((kind for start, kind in self._kinds.items() if value.startswith(start)), None)
        if found is None:
            version = msgspec.json.decode(value, type=_Head).api_version.rpartition("/")[2]
            found = replace(self.kind, version=version)
            self._kinds[found.type_meta] = found
        return found

    def decode(self, entry: Entry) -> Any:
        """See ResourceCache; in the version of the entry."""
        assert isinstance(entry, MixedEntry)
        return decoder(entry.kind.type)(b"{" + entry.body)

    def make_entry(self, key: str, value: bytes, revision: int, create_revision: int, obj: Any = None) -> MixedEntry:
        """See ResourceCache; in the version of the value."""
        check_readable(value)
        kind = self._kind_of(value)
        body = with_revision(value[len(kind.type_meta) :], revision)
        namespace, _, name = key[len(kind.storage_prefix) :].rpartition("/")
        read = kind.type.read(b"{" + body)
        return MixedEntry((namespace, name), (revision, create_revision), read, body, kind.version)

    def _loaded(self, key: str, value: bytes, revision: int, create_revision: int) -> MixedEntry:
        """See ResourceCache; by the schema of the version of the value."""
        check_readable(value)
        kind = self._kind_of(value)
        value = stored_value(kind, kind.renewed(kind.type.read(value)))
        return self.make_entry(key, value, revision, create_revision)

    def as_deleted(self, last: Entry, revision: int) -> MixedEntry:
        assert isinstance(last, MixedEntry)
        body = last.body.replace(b'"resourceVersion":"%d"' % last.revision, b'"resourceVersion":"%d"' % revision, 1)
        place, revisions = (last.namespace, last.name), (revision, last.create_revision)
        return MixedEntry(place, revisions, last.kind.type.read(b"{" + body), body, last.kept_in)

    async def in_version(self, kind: Kind, entries: Sequence[Entry]) -> list[Entry]:
        """Entries of this cache in a version of its kind. Raises ApiError (500) if the webhook does not convert them."""
        assert isinstance(kind, CustomKind)
        mixed = [entry for entry in entries if isinstance(entry, MixedEntry)]
        if all(entry.kind.version == kind.version for entry in mixed):
            return list(entries)
        return list(await self.converter.entries(kind, mixed))

    async def as_kept(self, kind: Kind, obj: CustomObject) -> CustomObject:
        """An object of a version as one of the version in which it is to be kept. Raises ApiError (500) if the webhook does not convert it."""
        return obj if kind.version == self.kind.version else await self.converter.object(obj, kind, self.kind)


def is_outdated(entry: Entry, cache: ResourceCache) -> bool:
    """Whether the store has an object in a version in which it is not to be kept any more: whoever writes it puts that right."""
    return isinstance(entry, MixedEntry) and entry.kept_in != cache.kind.version


def mixed(cache: ResourceCache) -> MixedCache:
    """The cache of a kind that asks a webhook."""
    assert isinstance(cache, MixedCache)
    return cache
