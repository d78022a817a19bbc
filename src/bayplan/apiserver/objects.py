"""Objects over the store: what is read from caches (`stored_objects`), and guarded writes that wait until the caches show them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from bayplan.api.errors import ApiError, failure, internal_error, service_unavailable
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.protobuf import message_of
from bayplan.apiserver.custom_resources.mixed_cache import is_outdated, mixed
from bayplan.apiserver.reads.cache import Prepared, stored_value
from bayplan.apiserver.reads.unreadable import Unreadable
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.store_partition import prefix_of
from bayplan.apiserver.stored_objects import StoredObjects
from bayplan.store.errors import (
    Conflict,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    Untransformable,
    ValueTooLarge,
)
from bayplan.store.interface import Store
from bayplan.store.transforming import TransformingStore


class SubmittedWrite(NamedTuple):
    """A write that was submitted to the store, and may not be committed yet."""

    entry: Entry
    """The object as it will be; as it is just before, if it is removed with it."""
    committed: asyncio.Future[int]
    """The revision of the last of it, or what the store raises."""

    @property
    def problem(self) -> ApiError | None:
        """Why it was not written, once that is known."""
        error = self.committed.exception()
        return _unwritten(error) if isinstance(error, StoreError) else None

    async def done(self) -> int:
        """Wait for the revision of the last of it. Raises ApiError."""
        try:
            return await self.committed
        except StoreError as error:
            raise _unwritten(error) from error


class ObjectStore(StoredObjects):
    """All objects of one API server, to be read and written."""

    def __init__(self, store: Store, kinds: KindTable, elsewhere: Mapping[str, Store] | None = None) -> None:
        """See StoredObjects."""
        super().__init__(store, kinds, elsewhere)
        self.max_object_bytes = 1536 * 1024
        """Largest object that is kept, in protobuf, as etcd counts it."""

    async def insert(self, kind: Kind, obj: Any, *, ttl: float | None = None, value: bytes = b"") -> Entry:
        """Write a new object. `value`: its bytes, if they are known already. Raises store.Conflict if the name is taken."""
        if kind.asks_webhook:
            return await self._put_converted(kind, obj, 0)
        if value:
            obj.kind = obj.api_version = ""  # as `stored_value` leaves it
        namespace, name = _names(kind, obj)
        key = kind.storage_key(namespace, name)
        return await self._put(kind, key, namespace, name, obj, value or stored_value(kind, obj), 0, ttl)

    def is_outdated(self, kind: Kind, entry: Entry) -> bool:
        """Whether the store has an object in another version or encrypted otherwise than it would be written today: whoever writes it puts that right."""
        store, key = self.partition(kind.storage_prefix).store, kind.storage_key(entry.namespace, entry.name)
        if isinstance(store, TransformingStore) and store.is_outdated(key):
            return True
        return is_outdated(entry, self.cache(kind))

    async def replace(self, kind: Kind, obj: Any, guard: int, *, ttl: float | None = None) -> Entry:
        """Write an object over the one of revision `guard`. Raises store.Conflict."""
        if kind.asks_webhook:
            return await self._put_converted(kind, obj, guard)
        namespace, name = _names(kind, obj)
        key = kind.storage_key(namespace, name)
        return await self._put(kind, key, namespace, name, obj, stored_value(kind, obj), guard, ttl)

    def submit(
        self, kind: Kind, entry: Entry, value: bytes, prepared: Prepared, *, removes: bool = False
    ) -> SubmittedWrite:
        """Submit bytes to be written over an entry, of an object that was not decoded, and perhaps to be removed right after. Later writes may build on it at once.

        Raises store.Conflict, and ApiError.
        """
        key, store = kind.storage_key(entry.namespace, entry.name), self.partition(kind.storage_prefix).store
        try:
            last = write = store.submit(key, value, guard=entry.revision, attachment=prepared)
            written = self.cache(kind).make_entry(key, value, write.revision, entry.create_revision, prepared)
            if removes:
                write.committed.cancel()
                last = store.submit(key, None, guard=write.revision)
        except (StoreUnavailable, StoreClosed) as error:
            raise _unwritten(error) from error
        return SubmittedWrite(written, last.committed)

    def newest(self, kind: Kind, entry: Entry) -> Entry:
        """An object as it will be when pending writes are committed, as far as that is known."""
        write = self.partition(kind.storage_prefix).store.pending(kind.storage_key(entry.namespace, entry.name))
        if write is None or not isinstance(write.attachment, Prepared):
            return entry
        return write.attachment.entry or entry

    async def _put_converted(self, kind: Kind, obj: Any, guard: int) -> Entry:
        """Write an object in the version in which it is to be kept. Returns it as it is read again in its own."""
        cache = mixed(self.cache(kind))
        kept = await cache.as_kept(kind, obj)
        key, value = kind.storage_key(*_names(kind, kept)), stored_value(cache.kind, kept)
        entry = await self._put(cache.kind, key, *_names(kind, kept), kept, value, guard, None)
        return (await cache.in_version(kind, [entry]))[0]

    async def _put(
        self, kind: Kind, key: str, namespace: str, name: str, obj: Any, value: bytes, guard: int, ttl: float | None
    ) -> Entry:
        if len(value) > self.max_object_bytes:
            check_size(kind, obj, value, self.max_object_bytes)
        partition = self.partition(kind.storage_prefix)
        try:
            revision = await partition.store.put(key, value, guard=guard, ttl=ttl, attachment=obj)
        except ValueTooLarge as error:
            raise too_large() from error
        except (StoreUnavailable, StoreClosed) as error:
            raise _unwritten(error) from error
        partition.advance()
        if revision > partition.revision:
            await partition.wait_for(revision)
        cache = self.cache(kind)
        entry = cache.get(namespace, name)
        if entry is None or entry.revision != revision:
            entry = cache.make_entry(key, value, revision, revision)
        return entry

    async def remove(self, kind: Kind, entry: Entry | Unreadable) -> int:
        """Delete the object if it is still as the entry says. Returns the revision. Raises store.Conflict."""
        key, partition = kind.storage_key(entry.namespace, entry.name), self.partition(kind.storage_prefix)
        try:
            revision = await partition.store.delete(key, guard=entry.revision)
        except (StoreUnavailable, StoreClosed) as error:
            raise _unwritten(error) from error
        await partition.wait_for(revision)
        return revision

    async def settle(self, conflict: Conflict) -> None:
        """After a lost race: wait until the caches show what stood in the way."""
        partition = self.partition(prefix_of(conflict.key))
        partition.advance()
        await partition.wait_for(conflict.actual)
        if not conflict.actual:
            await asyncio.sleep(0)


def _unwritten(error: StoreError) -> ApiError:
    if isinstance(error, Untransformable):
        return internal_error(error.reason)
    if isinstance(error, StoreCorrupt):
        return internal_error(str(error))
    return service_unavailable(f"the store cannot be written to: {error}")


def check_size(kind: Kind, obj: Any, value: bytes, limit: int) -> None:
    """Raises ApiError (500) for an object that is too large in the form in which Kubernetes keeps it."""
    size = len(value) if kind.is_custom else len(message_of(obj))
    if size > limit:
        raise too_large()


def too_large() -> ApiError:
    """500, as etcd's refusal is passed on."""
    return failure(500, "", "etcdserver: request is too large", details=False)


def _names(kind: Kind, obj: Any) -> tuple[str, str]:
    return obj.metadata.namespace if kind.namespaced else "", obj.metadata.name
