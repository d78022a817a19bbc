"""The contents of a prefix in etcd as a source and as a target of copies, and what its members say of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bayplan.store.copying import StoredEntry
from bayplan.store.errors import StoreUnavailable
from bayplan.store.etcd.client import EtcdClient, mod_revision_is, put_op
from bayplan.store.etcd.errors import EtcdCompacted, EtcdError, EtcdLeaseNotFound
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.leases import LeasePool
from bayplan.support.clock import Clock

_PAGE: Final = 500
_MOST_WRITES: Final = 100
"""Per transaction; etcd takes 128."""
_MOST_BYTES: Final = 1 << 20
"""Per transaction; etcd takes 1.5 MiB."""
_TRANSACTIONS: Final = 4
"""At the same time."""
_PROBE: Final = b"\0"
_TRIES: Final = 20


@contextlib.contextmanager
def of_etcd() -> Iterator[None]:
    """Raise errors of etcd as StoreUnavailable."""
    try:
        yield
    except EtcdCompacted as error:
        raise StoreUnavailable(
            "etcd was compacted before everything was read: try again, with a longer --etcd-compaction-interval of the API servers"
        ) from error
    except EtcdError as error:
        raise StoreUnavailable(str(error)) from error


class EtcdContents:
    """See Contents: a prefix as of one revision, which etcd keeps until it is compacted."""

    def __init__(self, client: EtcdClient, layout: KeyLayout, revision: int, *, serializable: bool = False) -> None:
        """serializable: whether to read what the member in use has, and not what the members agree on."""
        self._client = client
        self._layout = layout
        self._serializable = serializable
        self.revision = revision
        self._seconds: dict[int, int] = {}
        """By lease."""

    async def pages(self) -> AsyncIterator[Sequence[StoredEntry]]:
        """See Contents."""
        start = self._layout.start
        while True:
            with of_etcd():
                page = await self._client.range(
                    start, self._layout.end, limit=_PAGE, revision=self.revision, serializable=self._serializable
                )
                found = [entry for kv in page.kvs if (entry := await self._entry(kv)) is not None]
            yield found
            if len(page.kvs) >= page.count:
                return
            start = page.kvs[-1].key + b"\0"

    async def _entry(self, kv: Any) -> StoredEntry | None:
        """An entry; None for what has ended, or is no text. Raises EtcdError."""
        key = self._layout.from_etcd(kv.key)
        if key is None:
            return None
        if not kv.lease:
            return StoredEntry(key, kv.value, None)
        if kv.lease not in self._seconds:
            try:
                self._seconds[kv.lease] = await self._client.time_to_live(kv.lease)
            except EtcdLeaseNotFound:
                self._seconds[kv.lease] = 0
        seconds = self._seconds[kv.lease]
        return StoredEntry(key, kv.value, float(seconds)) if seconds > 0 else None


async def present_contents(client: EtcdClient, layout: KeyLayout) -> EtcdContents:
    """What is there now. Raises StoreUnavailable."""
    with of_etcd():
        return EtcdContents(client, layout, (await client.range(_PROBE, count_only=True)).revision)


class EtcdTarget:
    """See Target: a prefix in etcd."""

    def __init__(self, client: EtcdClient, layout: KeyLayout, clock: Clock) -> None:
        self._client = client
        self._layout = layout
        self._leases = LeasePool(client, clock)
        self._has_begun = False

    async def begin(self) -> None:
        """See Target."""
        with of_etcd():
            found = await self._client.range(self._layout.start, self._layout.end, count_only=True)
        if found.count:
            prefix = self._layout.start.decode().rstrip("/")
            raise StoreUnavailable(
                f"etcd has {found.count} keys under {prefix}, and nothing is overwritten; choose another --etcd-prefix, or delete them: "
                f"etcdctl del --prefix {prefix}/"
            )
        self._has_begun = True

    async def write(self, entries: Sequence[StoredEntry]) -> None:
        """See Target."""
        batches = list(_batches(entries))
        for start in range(0, len(batches), _TRANSACTIONS):
            await asyncio.gather(*(self._put(batch) for batch in batches[start : start + _TRANSACTIONS]))

    async def _put(self, entries: Sequence[StoredEntry]) -> None:
        """Raises StoreUnavailable."""
        compare, writes = [], []
        with of_etcd():
            for key, value, seconds in entries:
                place = self._layout.to_etcd(key)
                compare.append(mod_revision_is(place, 0))
                writes.append(put_op(place, value, 0 if seconds is None else await self._leases.lease(seconds)))
            result = await self._client.transaction(compare, writes)
        if not result.succeeded:
            raise StoreUnavailable("another process writes under the same prefix of etcd: stop it, and copy again")

    async def finish(self) -> None:
        """See Target: every transaction is committed already."""

    async def abandon(self) -> None:
        """See Target. The prefix was empty."""
        if self._has_begun:
            with of_etcd():
                await self._client.delete(self._layout.start, self._layout.end)

    @contextlib.asynccontextmanager
    async def contents(self) -> AsyncIterator[EtcdContents]:
        """See Target."""
        yield await present_contents(self._client, self._layout)


def _batches(entries: Sequence[StoredEntry]) -> Iterator[list[StoredEntry]]:
    """Entries in the sizes that one transaction takes."""
    batch: list[StoredEntry] = []
    size = 0
    for entry in entries:
        weight = len(entry.key) * 2 + len(entry.value)
        if batch and (len(batch) == _MOST_WRITES or size + weight > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += weight
    if batch:
        yield batch


async def reached(client: EtcdClient, revision: int) -> None:
    """Return when the member in use has a revision that others have. Raises StoreUnavailable if it does not get there."""
    with of_etcd():
        for _ in range(_TRIES):
            if (await client.range(_PROBE, count_only=True, serializable=True)).revision >= revision:
                return
            await client.range(
                _PROBE, count_only=True
            )  # which the member answers when it has come as far as the others
    raise StoreUnavailable(f"etcd at {client.endpoint} does not come to revision {revision}, which other members have")


async def compacted_now(client: EtcdClient) -> int:
    """Let etcd forget everything but the present state; returns the revision. Raises EtcdError."""
    revision = (await client.range(_PROBE, count_only=True)).revision
    with contextlib.suppress(EtcdCompacted):  # nothing has happened since the last time
        await client.compact(revision)
    return revision


@dataclass(frozen=True, slots=True)
class MemberContents:
    """What one member of etcd has."""

    endpoint: str
    version: str
    bytes: int
    """Size of its database."""
    keys: int
    """Under the prefix, but for those that do not stay."""
    checksum: str
    """Over them (`copying.Tally`): equal for members that have the same."""
