"""A store in one SQLite file: what was acknowledged survives `kill -9` and power loss.

Way of a write, all on the event loop but for step 3:
  1. `put` checks the guard against the index in memory (committed and pending writes) and gives out the revision;
  2. the write joins the batch that gathers while the writing thread is busy;
  3. the writing thread commits the whole batch with one fsync;
  4. the batch enters the committed index, its events go to the watches, then its writers wake up.
If a commit fails, its writes and all that gathered behind them fail, and the index is again what the file says.

Reads answer from the committed index; values that are not in the cache, and the past, come from a second connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bayplan.store.checksums import record_checksums
from bayplan.store.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
)
from bayplan.store.expiry import Expiries
from bayplan.store.file_lock import FileLock
from bayplan.store.interface import Deliver, Event, KeyValue, RangeResult, Watch
from bayplan.store.settings import SqliteSettings
from bayplan.store.sorted_keys import SortedKeys
from bayplan.store.sqlite_file import SqliteFile
from bayplan.store.sqlite_load import Contents
from bayplan.store.sqlite_upkeep import Upkeep
from bayplan.store.sqlite_write import PendingWrite
from bayplan.store.value_cache import ValueCache
from bayplan.store.watching import Subscription, WatchHub
from bayplan.support.clock import Clock
from bayplan.support.private_files import make_private_directory
from bayplan.support.worker import WorkerThread

log = logging.getLogger(__name__)

_EVENTS_PER_READ = 1000
_EXPIRY_RETRY = 1.0
_SLOW_WRITE = 10.0
"""Seconds after which a write that has not come back is reported."""


class SqliteStore:
    """`Store` in the file `path`. Only one process at a time may have it open."""

    def __init__(self, path: str | Path, *, clock: Clock, settings: SqliteSettings | None = None) -> None:
        self._path = Path(path)
        self._clock = clock
        self._settings = settings if settings is not None else SqliteSettings()
        self._file = SqliteFile(self._path, self._settings)
        self._lock = FileLock(self._path.with_name(self._path.name + ".lock"), self._path)
        self._writer: WorkerThread | None = None
        self._reader: WorkerThread | None = None
        self._revision = 0
        self._committed: dict[str, tuple[int, int]] = {}
        """(mod revision, create revision) of every key that exists, as of `_revision`."""
        self._keys = SortedKeys()
        """The keys of `_committed`."""
        self._pending: dict[str, PendingWrite] = {}
        """The newest write of each key that is not committed yet."""
        self._next_revision = 1
        self._gathering: list[PendingWrite] = []
        self._parameters: list[object] = []
        """Of the statement that will write `_gathering`: `COLUMNS` for each."""
        self._busy = False
        """Whether the writing thread has a job."""
        self._busy_since = 0.0
        """Monotonic seconds at which the writing thread got its job."""
        self._write_failure = ""
        """Why the last batch was not stored; "" if it was."""
        self._scheduled = False
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self._values = ValueCache(self._settings.value_cache_bytes)
        self._tells_previous = self._settings.tells_previous
        self._hub = WatchHub()
        self._expiries = Expiries(clock, self._expire)
        self._upkeep = Upkeep(self._file, clock, self._settings, self._schedule)
        self._opened = False
        self._closed = False

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compacted_revision(self) -> int:
        return self._upkeep.compacted

    @property
    def write_error(self) -> str:
        waited = self._clock.monotonic() - self._busy_since
        if self._busy and waited > _SLOW_WRITE:
            return f"{self._path}: a write has been waiting for the disk for {waited:.0f} seconds"
        return self._write_failure

    async def open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")
        self._writer = WorkerThread(f"store writer {self._path.name}")
        try:
            contents = await self._writer.run(self._open_file)
        except BaseException:
            await self._writer.close()
            self._lock.release()
            self._writer = None
            raise
        self._reader = WorkerThread(f"store reader {self._path.name}")
        self._revision = contents.revision
        self._next_revision = contents.revision + 1
        for key, change in contents.current.items():
            self._committed[key] = (change.revision, change.create_revision)
            if change.expires is not None:
                self._expiries.set(key, change.revision, change.expires)
        self._keys = SortedKeys(self._committed)
        self._opened = True
        self._upkeep.start(contents.revision, contents.compacted)
        self._expiries.start()

    def _open_file(self) -> Contents:
        try:
            make_private_directory(self._path.parent)
        except OSError as error:
            raise StoreUnavailable(
                f"{self._path}: cannot create the directory {self._path.parent} ({error.strerror}); choose another path"
            ) from error
        self._lock.acquire()
        try:
            return self._file.open()
        except BaseException:
            self._file.close()
            raise

    async def close(self) -> None:
        if self._closed:
            await self._idle.wait()
            return
        self._closed = True
        self._opened = False
        self._expiries.stop()
        await self._idle.wait()
        self._upkeep.stop()
        self._hub.clear()
        reader, writer = self._reader, self._writer
        self._reader = self._writer = None
        if reader is not None:
            await reader.close()
        if writer is not None:
            try:
                await writer.run(self._file.close)
            finally:
                await writer.close()
                self._lock.release()

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreClosed("the store is closed" if self._closed else "the store is not open, await open() first")

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        write = self._put(key, value, guard, None if ttl is None else self._clock.now() + ttl, attachment)
        return await write.committed

    def _put(
        self, key: str, value: bytes, guard: int | None, deadline: float | None, attachment: object
    ) -> PendingWrite:
        if not self._opened:
            self._check_open()
        if not key.isascii():
            key.encode()  # fails here rather than in the batch, along with the writes of others
        previous_revision, created, previous = self._newest(key)
        if guard is not None and guard != previous_revision:
            raise Conflict(key, guard, previous_revision)
        return self._append(key, value, created, previous, previous_revision, deadline, attachment)

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        return await self._delete(key, guard, attachment).committed

    def _delete(self, key: str, guard: int | None, attachment: object) -> PendingWrite:
        self._check_open()
        previous_revision, created, previous = self._newest(key)
        if previous_revision == 0 or (guard is not None and guard != previous_revision):
            raise Conflict(key, guard or 0, previous_revision)
        return self._append(key, None, created, previous, previous_revision, None, attachment)

    def begin(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> PendingWrite:
        if value is None:
            return self._delete(key, guard, attachment)
        return self._put(key, value, guard, None, attachment)

    def under_way(self, key: str) -> PendingWrite | None:
        return self._pending.get(key)

    def _newest(self, key: str) -> tuple[int, int, bytes | None]:
        """Mod revision, create revision and (if at hand, and to be told) value, pending writes included; zeros if there
        is no such key."""
        pending = self._pending.get(key)
        if pending is not None:
            if pending.value is None:
                return 0, 0, None
            return pending.revision, pending.create_revision, pending.value if self._tells_previous else None
        entry = self._committed.get(key)
        if entry is None:
            return 0, 0, None
        return entry[0], entry[1], self._values.get(key) if self._tells_previous else None

    def _append(
        self,
        key: str,
        value: bytes | None,
        created: int,
        previous: bytes | None,
        previous_revision: int,
        deadline: float | None,
        attachment: object,
        *,
        is_expiry: bool = False,
    ) -> PendingWrite:
        """Let the next batch carry a write that is certain to succeed if its batch does."""
        revision = self._next_revision
        self._next_revision = revision + 1
        created = created or revision
        write = PendingWrite(
            key,
            value,
            revision,
            created,
            previous,
            previous_revision,
            deadline,
            attachment,
            asyncio.get_running_loop().create_future(),
            is_expiry=is_expiry,
        )
        self._pending[key] = write
        self._gathering.append(write)
        deleted = 1 if value is None else 0
        of_value, of_facts = record_checksums(revision, key, created, previous_revision, deadline, deleted, value)
        self._parameters += (
            revision,
            key,
            created,
            previous_revision,
            deadline,
            deleted,
            of_value,
            of_facts,
            value,
        )
        if not self._scheduled and not self._busy:
            self._schedule()
        return write

    def _expire(self, key: str, mod_revision: int) -> None:
        previous_revision, created, previous = self._newest(key)
        if not self._opened:
            return
        if previous_revision == mod_revision:
            self._append(key, None, created, previous, previous_revision, None, None, is_expiry=True)
        elif self._committed.get(key, (0, 0))[0] == mod_revision:
            # A newer write is on its way. Its commit replaces this deadline; should it fail, the old one still holds.
            self._expiries.set(key, mod_revision, self._clock.now() + _EXPIRY_RETRY)

    def _schedule(self) -> None:
        """Look for work after everything that is ready now has had its turn to join the batch."""
        if not self._scheduled and not self._busy and (self._opened or self._gathering):
            self._scheduled = True
            self._idle.clear()
            asyncio.get_running_loop().call_soon(self._work, False)

    def _work(self, upkeep_first: bool) -> None:
        """Give the writing thread its next job: one step of upkeep between two batches if there is any to do."""
        self._scheduled = False
        if self._busy:
            return
        writer = self._writer
        assert writer is not None, "work is scheduled only while the store is open"
        if (upkeep_first or not self._gathering) and self._opened:
            job = self._upkeep.next_job(idle=not self._gathering)
            if job is not None:
                self._busy = True
                self._busy_since = self._clock.monotonic()
                writer.submit(job, self._upkeep_done)
                return
        if not self._gathering:
            self._idle.set()
            return
        batch, self._gathering = self._gathering, []
        parameters, self._parameters = self._parameters, []
        unknown = []
        if self._tells_previous:
            unknown = [one.previous_revision for one in batch if one.previous is None and one.previous_revision]
        self._busy = True
        self._busy_since = self._clock.monotonic()
        writer.submit(partial(self._file.append, parameters, unknown), partial(self._batch_done, batch))

    def _upkeep_done(self, _result: Any, error: BaseException | None) -> None:
        self._busy = False
        self._upkeep.done(_result, error)
        self._work(False)

    def _batch_done(
        self, batch: list[PendingWrite], found: dict[int, bytes] | None, error: BaseException | None
    ) -> None:
        self._busy = False
        if found is None:
            self._write_failure = str(error) or repr(error)
            self._fail(batch, error)
        else:
            self._write_failure = ""
            self._commit(batch, found)
        self._work(True)

    def _commit(self, batch: list[PendingWrite], found: dict[int, bytes]) -> None:
        committed, pending, values = self._committed, self._pending, self._values
        tells_previous = self._tells_previous
        events: list[Event] = []
        for write in batch:
            key, value, revision = write.key, write.value, write.revision
            if value is not None:
                if write.previous_revision == 0:
                    self._keys.add(key)
                committed[key] = (revision, write.create_revision)
                if tells_previous:
                    values.put(key, value)
                else:
                    values.drop(key)
            else:
                del committed[key]
                self._keys.remove(key)
                values.drop(key)
            if write.deadline is not None:
                self._expiries.set(key, revision, write.deadline)
            elif self._expiries:
                self._expiries.discard(key)
            if pending[key] is write:
                del pending[key]
            events.append(write.event(found if tells_previous else None))
        self._revision = batch[-1].revision
        self._upkeep.written(self._revision)
        self._hub.publish(events)
        for write in batch:
            if not write.committed.done():
                write.committed.set_result(write.revision)

    def _fail(self, batch: list[PendingWrite], error: BaseException | None) -> None:
        """Nothing of the batch is in the file; what gathered since may build on it, so it fails as well."""
        log.error("%s: %d writes failed: %s", self._path, len(batch) + len(self._gathering), error)
        failed = batch + self._gathering
        self._gathering, self._parameters = [], []
        self._pending.clear()
        self._next_revision = self._revision + 1
        for write in failed:
            if write.is_expiry:
                self._expiries.set(write.key, write.previous_revision, self._clock.now() + _EXPIRY_RETRY)
            elif not write.committed.done():
                again = type(error) if isinstance(error, StoreError) else StoreUnavailable
                failure = again(f"{self._path}: the write was not stored: {error}")
                failure.__cause__ = error
                write.committed.set_exception(failure)

    async def _read(self, job: Callable[[], Any]) -> Any:
        reader = self._reader
        if reader is None:
            raise StoreClosed("the store is closed")
        return await reader.run(job)

    def _check_readable(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if 0 < revision < self._upkeep.compacted:
            raise Compacted(revision, self._upkeep.compacted)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        self._check_readable(revision)
        entry = self._committed.get(key)
        if entry is None and revision in (0, self._revision):
            return None
        if entry is not None and (revision == 0 or entry[0] <= revision):
            value = self._values.get(key)
            if value is not None:
                return KeyValue(key, value, entry[1], entry[0])
        items = (await self.range(key, key + "\0", revision=revision)).items
        return items[0] if items else None

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        while True:
            self._check_readable(revision)
            shown = revision or self._revision
            if shown == self._revision:
                found = self._keys.between(start, end, limit)
                count = len(found) if limit <= 0 else self._keys.count(start, end)
                wanted = [(key, *self._committed[key]) for key in found]
            else:
                wanted = await self._keys_at(start, end, shown)
                count = len(wanted)
                if limit > 0:
                    del wanted[limit:]
            items = await self._with_values(wanted)
            if items is not None:
                return RangeResult(items, shown, count)
            # Compaction took a value away while this waited: look again, which for a past revision raises `Compacted`.

    async def _keys_at(self, start: str, end: str, revision: int) -> list[tuple[str, int, int]]:
        """(key, mod revision, create revision) of the keys in range as of a past revision, in order."""
        current = {key: self._committed[key] for key in self._keys.between(start, end)}
        until = self._revision
        changes, count = await self._read(partial(self._file.read_changes, start, end, revision, until))
        self._check_readable(revision)
        if count != until - revision:
            raise StoreCorrupt(
                f"{self._path}: {until - revision - count} records after revision {revision} are missing"
            )
        undone: dict[str, tuple[int, int]] = {}
        for change in changes:
            undone.setdefault(change.key, (change.previous_revision, change.create_revision))
        current.update(undone)
        return sorted((key, *entry) for key, entry in current.items() if entry[0])

    async def _with_values(self, wanted: list[tuple[str, int, int]]) -> list[KeyValue] | None:
        """The keys with their values; None if one of these is not kept any more."""
        committed, values = self._committed, self._values
        at_hand: dict[int, bytes] = {}
        for key, revision, _ in wanted:
            entry = committed.get(key)
            value = values.get(key) if entry is not None and entry[0] == revision else None
            if value is not None:
                at_hand[revision] = value
        missing = [revision for _, revision, _ in wanted if revision not in at_hand]
        if missing:
            read: dict[int, bytes] = await self._read(partial(self._file.read_values, missing))
            if len(read) != len(missing):
                gone = set(missing) - read.keys()
                lost = tuple(
                    (key, revision)
                    for key, revision, _ in wanted
                    if revision in gone and committed.get(key, (0, 0))[0] == revision
                )
                if lost:
                    raise StoreCorrupt(
                        f"{self._path}: values of current keys are missing, such as that of {lost[0][0]}", lost
                    )
                return None
            at_hand.update(read)
            for key, revision, _ in wanted:
                if revision in read and committed.get(key, (0, 0))[0] == revision:
                    values.put(key, read[revision])
        return [KeyValue(key, at_hand[revision], created, revision) for key, revision, created in wanted]

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver) -> Watch:
        self._check_open()
        if start_revision < self._upkeep.compacted:
            raise Compacted(start_revision, self._upkeep.compacted)
        subscription = Subscription(self._hub, prefix, start_revision, deliver)
        self._hub.add(subscription)
        if start_revision > self._revision:
            return subscription
        subscription.backlog = []
        try:
            await self._catch_up(subscription, max(start_revision, 1), self._revision)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

    async def _catch_up(self, subscription: Subscription, start: int, until: int) -> None:
        """Deliver the past up to `until`, then what was committed meanwhile."""
        while start <= until:
            last = min(until, start + _EVENTS_PER_READ - 1)
            rows = await self._read(partial(self._file.read_events, start, last))
            if start < self._upkeep.compacted:
                raise Compacted(start, self._upkeep.compacted)
            # A restored or repaired store begins with a compacted revision that no record has.
            first = start + 1 if start == self._upkeep.compacted else start
            if sum(row.revision >= first for row in rows) != last - first + 1:
                raise StoreCorrupt(f"{self._path}: records between revisions {start} and {last} are missing")
            subscription.replay(
                [
                    Event(row.key, row.revision, row.value, row.create_revision, row.previous, row.previous_revision)
                    for row in rows
                    if row.key.startswith(subscription.prefix)
                ]
            )
            start = last + 1
        subscription.go_live()

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        await self._upkeep.compact(revision)
