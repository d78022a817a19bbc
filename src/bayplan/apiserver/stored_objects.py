"""Objects over the store, to be read: one cache per stored kind, kept current by one watch of each store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from bayplan.api.kinds import Kind, KindTable
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.store_partition import StorePartition
from bayplan.store.interface import Store

logger = logging.getLogger(__name__)


class StoredObjects:
    """All objects of one API server, as one can read them."""

    def __init__(self, store: Store, kinds: KindTable, elsewhere: Mapping[str, Store] | None = None) -> None:
        """elsewhere: stores of kinds whose objects are not in `store`, by storage prefix; kinds may share one."""
        elsewhere = elsewhere or {}
        self.store = store
        """That of all kinds but a few, and of what is no object."""
        self.kinds = kinds
        stored = kinds.stored()
        self._main = StorePartition(
            store, [kind for kind in stored if kind.storage_prefix not in elsewhere], frozenset(elsewhere)
        )
        others = {
            id(other): StorePartition(
                other, [kind for kind in stored if elsewhere.get(kind.storage_prefix) is other], None
            )
            for other in elsewhere.values()
        }
        self._elsewhere = {prefix: others[id(other)] for prefix, other in elsewhere.items()}
        self._partitions = (self._main, *others.values())
        self.is_shared = any(one.is_shared for one in self._partitions)
        """Whether other servers write to the same store: then the caches may be behind until `catch_up` returns, and no write can be built on before it is
        committed."""

    def partition(self, prefix: str) -> StorePartition:
        """Where the objects under a prefix are."""
        return self._elsewhere.get(prefix, self._main) if self._elsewhere else self._main

    async def open(self) -> None:
        """Read everything, then follow the stores. Raises what `Store.open` raises, and StoreUnavailable; the stores are closed then."""
        opened: list[StorePartition] = []
        try:
            for one in self._partitions:
                await one.open()
                opened.append(one)
        except BaseException:
            for one in opened:
                await one.close()
            raise

    @property
    def revision(self) -> int:
        """Revision of `store` up to which the caches are current."""
        return self._main.revision

    def revision_of(self, kind: Kind) -> int:
        """Revision up to which the objects of a kind are current."""
        return self.partition(kind.storage_prefix).revision

    @property
    def store_errors(self) -> Sequence[str]:
        """Why each store cannot be read or written to, that of most kinds first; "" for those that can."""
        return [one.store_error for one in self._partitions]

    @property
    def is_behind(self) -> bool:
        """Whether it is known, without a question to a store, that the caches do not show all that is committed."""
        return self.is_shared and any(one.is_behind for one in self._partitions)

    @property
    def may_be_behind(self) -> bool:
        """Whether another server may have committed something that the caches do not show yet."""
        return self.is_shared and any(one.may_be_behind for one in self._partitions)

    async def catch_up(self) -> None:
        """Return once the caches show everything that any server has committed before the call. Raises ApiError (503)."""
        if not self._elsewhere:
            await self._main.catch_up()
        else:
            await asyncio.gather(*(one.catch_up() for one in self._partitions))

    def report_unknown(self) -> None:
        """Say which objects of the store nobody serves. To be called once all kinds are known."""
        for prefix, count in sorted(self._main.unknown.items()):
            logger.warning("ignoring %d objects under %s: no such kind", count, prefix)

    async def serve(self, kind: Kind, cache: ResourceCache | None = None) -> None:
        """Keep the objects of one more kind, those that the store has included. An older row of the kind is replaced; its watches end.

        cache: what is to hold them, if that is none of the usual sort. Raises ApiError if the store cannot be read.
        """
        await self.partition(kind.storage_prefix).serve(kind, cache)

    def forget(self, kind: Kind) -> None:
        """End the cache of a kind, if there is one, and all its watches."""
        self.partition(kind.storage_prefix).forget(kind)

    async def close(self) -> None:
        """End all watches and close the stores."""
        for one in self._partitions:
            await one.close()

    def cache(self, kind: Kind) -> ResourceCache:
        """The cache that holds objects of this kind (those of another version share one)."""
        prefix = kind.storage_prefix
        return self.partition(prefix).caches[prefix]

    def caches(self) -> Sequence[ResourceCache]:
        """All caches."""
        return tuple([cache for one in self._partitions for cache in one.caches.values()])

    async def forget_history(self) -> None:
        """Drop the events of the past that the stores have forgotten."""
        for one in self._partitions:
            await one.forget_history()
