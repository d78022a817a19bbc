"""A store in one SQLite file: what was acknowledged survives `kill -9` and power loss.

Way of a write, all on the event loop but for step 3:
  1. `put` checks the guard against the index in memory (committed and pending writes) and gives out the revision;
  2. the write joins the batch that gathers while the writing thread is busy;
  3. the writing thread commits the whole batch with one fsync;
  4. the batch enters the committed index, its events go to the watches, then its writers wake up.

The steps are in `sqlite_batches`, the index in `sqlite_index`, reading in `sqlite_reads`; here is what opens and closes them, and the watches.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.store.errors import Compacted, FutureRevision, StoreClosed, StoreUnavailable
from bayplan.store.file_lock import FileLock
from bayplan.store.interface import Deliver, KeyValue, Lost, RangeResult, Watch
from bayplan.store.settings import SqliteSettings
from bayplan.store.sqlite.batches import BatchWriter
from bayplan.store.sqlite.file import SqliteFile
from bayplan.store.sqlite.index import CommittedIndex
from bayplan.store.sqlite.load import Contents
from bayplan.store.sqlite.maintenance import Upkeep
from bayplan.store.sqlite.reads import StoreReader
from bayplan.store.sqlite.write import SqliteWrite
from bayplan.store.watching import Subscription, WatchHub
from bayplan.support.clock import Clock
from bayplan.support.system.private_files import make_private_directory
from bayplan.support.worker import WorkerThread


class SqliteStore:
    """`Store` in the file `path`. Only one process at a time may have it open."""

    sole_writer = True
    knows_lag = True
    may_be_behind = False

    def __init__(self, path: str | Path, *, clock: Clock, settings: SqliteSettings | None = None) -> None:
        self._path = Path(path)
        self._clock = clock
        settings = settings if settings is not None else SqliteSettings()
        self._file = SqliteFile(self._path, settings)
        self._lock = FileLock(self._path.with_name(self._path.name + ".lock"), self._path)
        self._thread: WorkerThread | None = None
        """Writes; None while the store is not open."""
        self._index = CommittedIndex(settings.value_cache_bytes, keeps_written=settings.tells_previous)
        self._hub = WatchHub()
        self._upkeep = Upkeep(self._file, clock, settings, self._wake)
        self._writes = BatchWriter(self._path, clock, self._file, self._index, self._hub, self._upkeep)
        self._reads = StoreReader(self._path, self._file, self._index, self._upkeep)
        self._opened = False
        self._closed = False

    def _wake(self) -> None:
        self._writes.schedule()

    @property
    def revision(self) -> int:
        return self._index.revision

    @property
    def compacted_revision(self) -> int:
        return self._upkeep.compacted

    @property
    def write_error(self) -> str:
        return self._writes.error

    async def allocated_bytes(self) -> int:
        """What the file and its log take of the disk. Raises OSError."""
        log = self._path.with_name(f"{self._path.name}-wal")
        return self._path.stat().st_size + (log.stat().st_size if log.exists() else 0)

    async def open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")
        self._thread = WorkerThread(f"store writer {self._path.name}")
        try:
            contents = await self._thread.run(self._open_file)
        except BaseException:
            await self._thread.close()
            self._lock.release()
            self._thread = None
            raise
        self._reads.thread = WorkerThread(f"store reader {self._path.name}")
        self._index.load(contents.revision, contents.current)
        expiries = self._writes.expiries
        for key, change in contents.current.items():
            if change.expires is not None:
                expiries.set(key, change.revision, change.expires)
        self._writes.open(self._thread)
        self._opened = True
        self._upkeep.start(contents.revision, contents.compacted)
        expiries.start()

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
            await self._writes.idle.wait()
            return
        self._closed = True
        self._opened = False
        self._writes.close()
        self._writes.expiries.stop()
        await self._writes.idle.wait()
        self._upkeep.stop()
        self._hub.clear()
        reader, writer = self._reads.thread, self._thread
        self._reads.thread = self._thread = None
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
        if not self._opened:
            self._check_open()
        deadline = None if ttl is None else self._clock.now() + ttl
        return await self._writes.put(key, value, guard, deadline, attachment).committed

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        self._check_open()
        return await self._writes.delete(key, guard, attachment).committed

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> SqliteWrite:
        if not self._opened:
            self._check_open()
        if value is None:
            return self._writes.delete(key, guard, attachment)
        return self._writes.put(key, value, guard, None, attachment)

    def pending(self, key: str) -> SqliteWrite | None:
        return self._writes.pending.get(key)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        self._check_open()
        return await self._reads.get(key, revision)

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        self._check_open()
        return await self._reads.range(start, end, limit, revision)

    async def catch_up(self) -> None:
        self._check_open()

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        self._check_open()
        if start_revision < self._upkeep.compacted:
            raise Compacted(start_revision, self._upkeep.compacted)
        subscription = Subscription(self._hub, prefix, start_revision, deliver)
        self._hub.add(subscription)
        if start_revision > self._index.revision:
            return subscription
        subscription.backlog = []
        try:
            await self._reads.catch_up(subscription, max(start_revision, 1), self._index.revision)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._index.revision:
            raise FutureRevision(revision, self._index.revision)
        await self._upkeep.compact(revision)
