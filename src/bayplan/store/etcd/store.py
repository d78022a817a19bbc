"""A store in an etcd cluster, which several servers may share.

Way of a write: one transaction guarded by the key's mod revision; the server answers with the revision; the write returns when the watch of this process
(`follower`) has delivered that revision. Reads without a revision are quorum reads. Guards, revisions and history are etcd's, nothing is kept here but the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from bayplan.store.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    SharedStore,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    ValueTooLarge,
)
from bayplan.store.etcd.attachments import Attachments
from bayplan.store.etcd.client import EtcdClient, Page, TxnResult, delete_op, get_op, mod_revision_is, put_op
from bayplan.store.etcd.compactor import Compactor
from bayplan.store.etcd.errors import (
    EtcdAccessDenied,
    EtcdCompacted,
    EtcdError,
    EtcdFutureRevision,
    EtcdLeaseNotFound,
    EtcdNoSpace,
    EtcdTooLarge,
    EtcdUnavailable,
)
from bayplan.store.etcd.follower import Follower
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.leases import LeasePool
from bayplan.store.etcd.messages import EVENT_DELETE
from bayplan.store.interface import Deliver, KeyValue, Lost, RangeResult, Watch
from bayplan.store.watching import Subscription
from bayplan.support.clock import Clock

if TYPE_CHECKING:
    from bayplan.store.transforming import Readiness

_SLOW_WRITE = 10.0
"""Seconds after which a write that has not come back is reported."""
_PAST_SECONDS = 60.0
"""Seconds within which the past must have been delivered to a new watch."""
_PROBE = b"\0"
"""A key that nobody has; reading it tells the revision."""


class EtcdStore:
    """`Store` in etcd, under the prefix of `layout`."""

    sole_writer = False
    knows_lag = False
    may_be_behind = True

    def __init__(
        self,
        client: EtcdClient,
        *,
        clock: Clock,
        layout: KeyLayout,
        tells_previous: bool = True,
        compaction_interval: float = 300.0,
        readiness: Readiness | None = None,
    ) -> None:
        """client: is the store's from now on, and closed with it.
        compaction_interval: seconds between two compactions by this server or another; 0 for none by this one. readiness: what values of events wait for."""
        self._clock = clock
        self._seconds = client.settings.request_timeout
        self._layout = layout
        self._client = client
        self._readiness = readiness
        if readiness is not None:
            client.before_events = self._make_ready
        self._attachments = Attachments()
        self._follower = Follower(self._client, clock, layout, self._attachments.take, previous=tells_previous)
        self._leases = LeasePool(self._client, clock)
        self._compactor = Compactor(self._client, clock, compaction_interval, self._was_compacted)
        self._compacts = compaction_interval > 0
        self._compaction: asyncio.Task[None] | None = None
        self._compacted = 0
        """The oldest revision that can be read."""
        self._watchable = 0
        """The oldest revision from which on all events are kept."""
        self._writes: dict[int, float] = {}
        """Monotonic seconds at which each write that runs began."""
        self._write_number = 0
        self._write_failure = ""
        self._read_failure = ""
        self._idle = asyncio.Event()
        self._idle.set()
        self._reading: asyncio.Task[int] | None = None
        """The quorum read that has not been sent yet, which all join who ask now."""
        self._read_before: asyncio.Task[int] | None = None
        self._opened = False
        self._closed = False

    @property
    def revision(self) -> int:
        return self._follower.revision

    @property
    def compacted_revision(self) -> int:
        return self._compacted

    @property
    def write_error(self) -> str:
        if self._writes:
            waited = self._clock.monotonic() - next(iter(self._writes.values()))
            if waited > _SLOW_WRITE:
                return f"a write has been waiting for etcd for {waited:.0f} seconds"
        return self._follower.failure or self._write_failure or self._read_failure

    async def _make_ready(self, events: Sequence[Any]) -> None:
        """Wait until the values of events can be read."""
        assert self._readiness is not None
        for event in events:
            if event.type == EVENT_DELETE:
                continue
            key = self._layout.from_etcd(event.kv.key)
            if key is not None and not self._readiness.is_ready(key, event.kv.value):
                await self._readiness.make_ready(key, event.kv.value)

    async def allocated_bytes(self) -> int:
        """What the database of the member in use takes of the disk. Raises StoreUnavailable."""
        try:
            return (await self._client.status()).db_size
        except EtcdError as error:
            raise self._unavailable(error) from error

    def _was_compacted(self, revision: int) -> None:
        """etcd was compacted to a revision: it can still be read, but of its events a deletion is gone, so that watches begin behind it."""
        self._compacted = max(self._compacted, revision)
        self._watchable = max(self._watchable, revision + 1)

    async def open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")
        try:
            page = await self._client.range(_PROBE, count_only=True)
            compacted = await self._client.compacted_revision()
        except EtcdError as error:
            await self._client.close()
            raise self._unavailable(error) from error
        if compacted:
            self._was_compacted(compacted)
        self._follower.start(page.revision)
        self._opened = True
        if self._compacts:
            self._compaction = asyncio.get_running_loop().create_task(self._compactor.run())

    async def close(self) -> None:
        self._closed, was_open = True, self._opened
        self._opened = False
        if was_open:
            await self._idle.wait()
        if self._compaction is not None:
            self._compaction.cancel()
            await asyncio.gather(self._compaction, return_exceptions=True)
            self._compaction = None
        self._follower.stop()
        await self._client.close()

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreClosed("the store is closed" if self._closed else "the store is not open, await open() first")

    def _unavailable(self, error: EtcdError) -> StoreError:
        if isinstance(error, EtcdNoSpace):
            return StoreUnavailable(
                f"etcd takes no writes, its database has reached the quota ({error}): compact and defragment it, then `etcdctl alarm disarm`"
            )
        if isinstance(error, EtcdTooLarge):
            return ValueTooLarge(str(error))
        if isinstance(error, EtcdAccessDenied):
            return StoreUnavailable(
                f"etcd does not permit it ({error}): its user needs to read all keys, and to write those under the prefix and compact_rev_key"
            )
        return StoreUnavailable(str(error))

    async def _raise(self, error: EtcdError, revision: int) -> NoReturn:
        """A failed read as the store's error."""
        if isinstance(error, EtcdCompacted):
            self._was_compacted(error.compact_revision or await self._client.compacted_revision())
            raise Compacted(revision, self._compacted) from error
        if isinstance(error, EtcdFutureRevision):
            raise FutureRevision(revision, self.revision) from error
        raise self._unavailable(error) from error

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        page = await self._range(self._layout.to_etcd(key), b"", 0, revision)
        return self._item(page.kvs[0]) if page.kvs else None

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        if start >= end:
            self._check_readable(revision)
            return RangeResult([], revision or self.revision, 0)
        first, behind = self._layout.range_to_etcd(start, end)
        page = await self._range(first, behind, limit, revision)
        return RangeResult([self._item(one) for one in page.kvs], revision or page.revision, page.count)

    def _check_readable(self, revision: int) -> None:
        self._check_open()
        if 0 < revision < self._compacted:
            raise Compacted(revision, self._compacted)

    async def _range(self, first: bytes, behind: bytes, limit: int, revision: int) -> Page:
        self._check_readable(revision)
        try:
            return await self._client.range(first, behind, limit=limit, revision=revision)
        except EtcdError as error:
            await self._raise(error, revision)

    def _item(self, kv: object) -> KeyValue:
        key = self._layout.from_etcd(kv.key)  # type: ignore[attr-defined]
        assert key is not None, "the range lies within the prefix"
        return KeyValue(key, kv.value, kv.create_revision, kv.mod_revision)  # type: ignore[attr-defined]

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        self._check_open()
        return await self._write(key, value, guard, ttl, attachment)

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        self._check_open()
        return await self._write(key, None, guard, None, attachment)

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> NoReturn:
        """Not here: etcd gives out revisions. Raises SharedStore."""
        self._check_open()
        raise SharedStore("a write in etcd has no revision before it is committed; await put or delete")

    def pending(self, key: str) -> None:
        """Nothing that others could build on."""

    async def _write(
        self, key: str, value: bytes | None, guard: int | None, ttl: float | None, attachment: object
    ) -> int:
        """One write, from the call to its event. Raises Conflict, StoreUnavailable, ValueTooLarge."""
        number = self._write_number = self._write_number + 1
        self._writes[number] = self._clock.monotonic()
        self._idle.clear()
        pending = self._attachments.add(key, value, attachment) if attachment is not None else None
        try:
            result = await self._commit(self._layout.to_etcd(key), value, guard, ttl)
            self._write_failure = ""
            await self._follower.reached(result.revision, self._seconds)
        except EtcdError as error:
            failure = self._unavailable(error)
            if not isinstance(failure, ValueTooLarge):
                self._write_failure = str(failure)
            raise failure from error
        finally:
            if pending is not None:
                self._attachments.discard(pending)
            del self._writes[number]
            if not self._writes:
                self._idle.set()
        if result.succeeded:
            return result.revision
        found = result.responses[0].response_range.kvs
        raise Conflict(key, guard or 0, found[0].mod_revision if found else 0)

    async def _commit(self, key: bytes, value: bytes | None, guard: int | None, ttl: float | None) -> TxnResult:
        """The transaction of a write. Raises EtcdError, also when an answer is lost and there is no telling whether the write was made."""
        deadline = self._clock.monotonic() + self._seconds
        while True:
            lease = 0 if ttl is None else await self._leases.lease(ttl)
            operation = delete_op(key) if value is None else put_op(key, value, lease)
            compare = [] if guard is None else [mod_revision_is(key, guard)]
            if value is None:
                compare.append(_exists(key))
            try:
                return await self._client.transaction(compare, [operation], [get_op(key)])
            except EtcdLeaseNotFound:
                self._leases.forget(lease)
            except EtcdUnavailable as error:
                if guard is None or not error.maybe_done or self._clock.monotonic() >= deadline:
                    raise
                made = _made((await self._client.range(key)).kvs, value, guard)
                if made is not None:
                    return made
                if not guard:  # it may be made yet, and a second one as well when somebody deletes the first
                    raise

    async def catch_up(self) -> None:
        """See Store. All who ask while a quorum read is on its way share the next one."""
        self._check_open()
        reading = self._reading
        if reading is None:
            before = self._read_before
            reading = self._reading = asyncio.get_running_loop().create_task(self._read_revision(before))
        try:
            revision = await asyncio.shield(reading)
        except EtcdError as error:
            failure = self._unavailable(error)
            self._read_failure = str(failure)
            raise failure from error
        self._read_failure = ""
        await self._follower.reached(revision, self._seconds)

    async def _read_revision(self, before: asyncio.Task[int] | None) -> int:
        """The revision of a read that begins when the one before has ended."""
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._read_before, self._reading = self._reading, None
        return (await self._client.range(_PROBE, count_only=True)).revision

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        self._check_open()
        if start_revision < self._watchable:
            raise Compacted(start_revision, self._watchable)
        hub, current = self._follower.hub, self._follower.revision
        subscription = Subscription(hub, prefix, start_revision, deliver, lost)
        hub.add(subscription)
        if start_revision > current:
            return subscription
        subscription.backlog = []
        try:
            await self._follower.deliver_past(subscription, current, _PAST_SECONDS)
        except BaseException:
            subscription.cancel()
            raise
        subscription.go_live()
        return subscription

    async def compact(self, revision: int) -> None:
        """See Store. etcd is compacted to the revision before, since it keeps no deletion at the revision to which it is compacted."""
        self._check_open()
        await self.catch_up()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= max(self._watchable, 1):
            return
        try:
            await self._client.compact(revision - 1)
        except EtcdCompacted:
            pass
        except EtcdError as error:
            raise self._unavailable(error) from error
        self._was_compacted(revision - 1)
        self._compacted = max(self._compacted, revision)


def _exists(key: bytes) -> object:
    """The comparison that a key exists: its mod revision is not 0."""
    compare = mod_revision_is(key, 0)
    compare.result = 3  # Compare.CompareResult.NOT_EQUAL
    return compare


def _made(found: Sequence[Any], value: bytes | None, guard: int) -> TxnResult | None:
    """What came of a guarded write whose answer was lost, by what the key holds since; None if it can still be made. Raises EtcdUnavailable if that cannot be told:
    others have written since, perhaps over it."""
    kv = found[0] if found else None
    if kv is not None and kv.mod_revision > guard and kv.value == value:
        return TxnResult(True, kv.mod_revision, ())
    if (kv.mod_revision if kv is not None else 0) == guard:
        return None
    raise EtcdUnavailable("the answer to a write was lost, and the key was written by others since", maybe_done=True)
