"""One store of an API server: the caches of its kinds are filled from it and kept current by one watch, and show its revisions.

Nearly always there is one. With several, each kind belongs to one of them, and revisions of objects of different stores have nothing to do with each other.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Final

from bayplan.api.errors import internal_error, service_unavailable
from bayplan.api.kinds import Kind
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.reads.history import HistoryRoom
from bayplan.apiserver.reads.unreadable import Unreadable
from bayplan.store.errors import Compacted, StoreClosed, StoreCorrupt, StoreError, StoreUnavailable
from bayplan.store.interface import Event, KeyValue, Store, Watch

logger = logging.getLogger(__name__)

PREFIX: Final = "/registry/"
SERVERS: Final = f"{PREFIX}masterleases/"
"""Where servers that share the store say that they are there: keys that are no objects."""
_PAGE = 5000
_FIRST_EVENTS = 2000
"""Revisions of the past that a server knows from the beginning, if others share its store."""
_RELIST_PAUSE = 1.0
"""Seconds between two attempts to read everything anew, or what could not be read."""
_REREAD_PER_SECOND = 200
"""Most objects that could not be read and are tried again."""


class StorePartition:
    """The objects of one store, as one can read them."""

    def __init__(self, store: Store, kinds: Iterable[Kind], elsewhere: frozenset[str] | None = frozenset()) -> None:
        """kinds: those that are kept in it. elsewhere: prefixes of kinds that belong to another store, whatever this one has; None if all others do."""
        self.store = store
        self.is_shared = not store.sole_writer
        """See StoredObjects."""
        self.revision = 0
        """Revision up to which the caches are current."""
        self.caches: dict[str, ResourceCache] = {}
        """By prefix."""
        self._history_room = HistoryRoom()
        for kind in kinds:
            self._add(ResourceCache(kind))
        self.unknown: Counter[str] = Counter()
        """How many objects the store has under prefixes of no kind."""
        self._elsewhere = elsewhere
        self._joining: dict[str, list[Event]] = {}
        """Events of kinds that are being read, by prefix."""
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._watch: Watch | None = None
        self._relisting: asyncio.Task[None] | None = None
        """Reads everything anew; None unless the store's watch was lost."""
        self._unread = ""
        """Why that has failed the last time; "" if it has not."""
        self._rereading: asyncio.Task[None] | None = None
        """Tries again what could not be read; None if all could."""

    def _add(self, cache: ResourceCache) -> None:
        cache.unreadable.when_found = self._reread_later
        self._history_room.add(cache.history)
        self.caches[cache.kind.storage_prefix] = cache

    async def open(self) -> None:
        """Read everything, then follow the store. Raises what `Store.open` raises, and StoreUnavailable; the store is closed then."""
        await self.store.open()
        try:
            await self._load()
        except BaseException:
            await self._end_tasks()
            await self.store.close()
            raise

    async def _load(self) -> None:
        """Read everything. With other servers on the same store, as of a moment ago, and what happened since as events: clients of a server that has ended go on
        with this one where they were, rather than list anew."""
        past = max(self.store.revision - _FIRST_EVENTS, self.store.compacted_revision, 1)
        if self.is_shared and past < self.store.revision:
            try:
                await self._load_at(past)
                return
            except Compacted:
                logger.info("the store was compacted while it was read: reading it again")
            for cache in tuple(self.caches.values()):
                self._add(ResourceCache(cache.kind))
            self.unknown.clear()
        await self._load_at(self.store.revision)

    async def _load_at(self, revision: int) -> None:
        """Read everything as of a revision, and follow the store from there. Raises what the store raises, StoreUnavailable."""
        async for item in self._items(PREFIX, revision):
            cache = self._cache_of_key(item.key)
            if item.key.startswith(SERVERS):
                continue
            if cache is None:
                self._note_unknown(prefix_of(item.key))
            else:
                cache.load(item.key, item.value, item.mod_revision, item.create_revision)
                if cache.unreadable:
                    _refuse_protobuf(cache.unreadable.get(item.key))
        self.revision = revision
        for cache in self.caches.values():
            cache.history_start = cache.revision = revision
        self._watch = await self.store.watch(PREFIX, revision + 1, self._deliver, self._lost)
        for cache in self.caches.values():
            for _, found in cache.unreadable:
                _refuse_protobuf(found)

    def _note_unknown(self, prefix: str) -> None:
        if self._elsewhere is not None and prefix not in self._elsewhere:
            self.unknown[prefix] += 1

    async def _items(self, prefix: str, revision: int) -> AsyncIterator[KeyValue]:
        """Everything under a prefix, as of a revision. Raises StoreError."""
        start, end = prefix, prefix[:-1] + chr(ord("/") + 1)
        while revision:
            page = await self.store.range(start, end, limit=_PAGE, revision=revision)
            for item in page.items:
                yield item
            if not page.more:
                break
            start = page.items[-1].key + "\0"

    def _reread_later(self) -> None:
        if self._rereading is None:
            self._rereading = asyncio.get_running_loop().create_task(self._reread())

    async def _reread(self) -> None:
        """Until all objects can be read, try again those that cannot: their key may have come."""
        while count := sum(len(cache.unreadable) for cache in self.caches.values()):
            await asyncio.sleep(max(_RELIST_PAUSE, count / _REREAD_PER_SECOND))
            for cache in tuple(self.caches.values()):
                for key, _ in cache.unreadable:
                    try:
                        item = await self.store.get(key)
                    except StoreClosed:
                        return
                    except StoreError as error:
                        logger.debug("%s cannot be read: %s", key, error)
                        continue
                    if item is not None:
                        cache.reveal(item)
        self._rereading = None

    def _lost(self, _compacted: int) -> None:
        """The store's watch cannot go on: clients are to list anew, as this server does."""
        logger.warning("what has happened in the store cannot be told: reading everything anew")
        self._relisting = asyncio.get_running_loop().create_task(self._relist())

    async def _relist(self) -> None:
        while True:
            try:
                await self._read_again()
                break
            except StoreClosed:
                return
            except StoreError as error:
                if self._unread != str(error):
                    logger.warning("the store cannot be read anew: %s", error)
                self._unread = str(error)
                await asyncio.sleep(_RELIST_PAUSE)
        self._unread = ""
        if self._relisting is asyncio.current_task():  # the new watch may have been lost already
            self._relisting = None

    async def _read_again(self) -> None:
        """Replace the contents of all caches by what the store has now, and follow it from there. Raises StoreError."""
        revision = self.store.revision
        found: dict[str, list[KeyValue]] = {prefix: [] for prefix in self.caches}
        async for item in self._items(PREFIX, revision):
            prefix = prefix_of(item.key)
            if prefix in found:
                found[prefix].append(item)
        for prefix, items in found.items():
            if prefix in self.caches:
                self.caches[prefix].replace(items, revision)
        if revision > self.revision:
            self._show(revision)
        self._watch = await self.store.watch(PREFIX, revision + 1, self._deliver, self._lost)

    @property
    def store_error(self) -> str:
        """Why the store cannot be read or written to; "" if it can."""
        return self._unread or self.store.write_error

    @property
    def is_behind(self) -> bool:
        """Whether it is known, without a question to the store, that the caches do not show all that is committed."""
        return self.is_shared and self.store.knows_lag and self.may_be_behind

    @property
    def may_be_behind(self) -> bool:
        """Whether another server may have committed something that the caches do not show yet."""
        return self.is_shared and (self.store.may_be_behind or self.store.revision > self.revision)

    async def catch_up(self) -> None:
        """Return once the caches show everything that any server has committed before the call. Raises ApiError (503)."""
        try:
            await self.store.catch_up()
        except (StoreUnavailable, StoreClosed) as error:
            raise service_unavailable(f"the store cannot be read: {error}") from error
        while self._relisting is not None:
            if self._unread:
                raise service_unavailable(f"the store cannot be read: {self._unread}")
            await asyncio.wait([self._relisting], timeout=_RELIST_PAUSE)
        self.advance()

    def advance(self) -> None:
        """Revisions of other keys than those of objects bring no event: take them as reached."""
        if self.is_shared and self._relisting is None and self.store.revision > self.revision:
            self._show(self.store.revision)

    async def serve(self, kind: Kind, cache: ResourceCache | None = None) -> None:
        """Keep the objects of one more kind, those that the store has included. An older row of the kind is replaced; its watches end.

        cache: what is to hold them, if that is none of the usual sort. Raises ApiError if the store cannot be read.
        """
        prefix = kind.storage_prefix
        cache = cache or ResourceCache(kind)
        late = self._joining[prefix] = []
        try:
            revision = await self._read(cache)
            while self._relisting is not None:  # events were missed while it was read
                await asyncio.wait([self._relisting])
                late.clear()
                revision = await self._read(cache)
        finally:
            del self._joining[prefix]
        self.unknown.pop(prefix, None)
        for event in late:
            if event.revision > revision:
                cache.apply(event)
        cache.history_start = max(self.revision, revision)
        self.forget(kind)
        self._add(cache)
        if cache.unreadable:
            self._reread_later()

    async def _read(self, cache: ResourceCache) -> int:
        """Take in all objects of a kind. Returns the revision as of which that is."""
        revision = self.store.revision
        try:
            if cache.count:  # again
                cache.replace([item async for item in self._items(cache.kind.storage_prefix, revision)], revision)
            else:
                async for item in self._items(cache.kind.storage_prefix, revision):
                    cache.load(item.key, item.value, item.mod_revision, item.create_revision)
        except StoreCorrupt as error:
            raise internal_error(str(error)) from error
        except StoreError as error:
            raise service_unavailable(f"the store cannot be read: {error}") from error
        cache.revision = revision
        return revision

    def forget(self, kind: Kind) -> None:
        """End the cache of a kind, if there is one, and all its watches."""
        cache = self.caches.pop(kind.storage_prefix, None)
        for watcher in tuple(cache.watchers) if cache is not None else ():
            watcher.close()

    async def close(self) -> None:
        """End all watches and close the store."""
        await self._end_tasks()
        if self._watch is not None:
            self._watch.cancel()
        for cache in self.caches.values():
            for watcher in tuple(cache.watchers):
                watcher.close()
        await self.store.close()

    async def _end_tasks(self) -> None:
        for task in (self._relisting, self._rereading):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _cache_of_key(self, key: str) -> ResourceCache | None:
        return self.caches.get(prefix_of(key))

    def _deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            cache = self._cache_of_key(event.key)
            if cache is not None:
                cache.apply(event)
            if self._joining and (joining := self._joining.get(prefix_of(event.key))) is not None:
                joining.append(event)
        if events:
            self._show(events[-1].revision)

    def _show(self, revision: int) -> None:
        """The caches show a revision: wake those who wait for it."""
        self.revision = revision
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.revision:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    async def forget_history(self) -> None:
        """Drop the events of the past that the store has forgotten."""
        for cache in self.caches.values():
            cache.forget(self.store.compacted_revision)

    async def wait_for(self, revision: int) -> None:
        """Return once the caches show this revision."""
        if revision <= self.revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, id(future), future))
        await future


def _refuse_protobuf(found: Unreadable | None) -> None:
    """Raises StoreUnavailable if an object is kept in protobuf and this server reads JSON: then nearly all are."""
    if found is not None and found.is_protobuf:
        raise StoreUnavailable(found.reason)


def prefix_of(key: str) -> str:
    """`/registry/apps/deployments/` of a key; of one that is less deep, which is nobody's object, all of it."""
    parts = key.split("/", 4)
    return key if len(parts) < 5 else key[: -len(parts[4])] if parts[4] else key
