"""The way of writes into a SQLite store: they gather while the writing thread is busy, and each batch is committed with one fsync.

Lives on the event loop; only `SqliteFile.append` and steps of upkeep run in the writing thread. If a commit fails, its writes and all that gathered behind
them fail, and the index is again what the file says.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

from bayplan.store.checksums import record_checksums
from bayplan.store.errors import Conflict, StoreError, StoreUnavailable
from bayplan.store.expiry import Expiries
from bayplan.store.interface import Event
from bayplan.store.sqlite.file import SqliteFile
from bayplan.store.sqlite.index import CommittedIndex
from bayplan.store.sqlite.maintenance import Upkeep
from bayplan.store.sqlite.write import SqliteWrite
from bayplan.store.watching import WatchHub
from bayplan.support.clock import Clock
from bayplan.support.worker import WorkerThread

log = logging.getLogger(__name__)

_EXPIRY_RETRY = 1.0
_SLOW_WRITE = 10.0
"""Seconds after which a write that has not come back is reported."""


class BatchWriter:
    """Checks guards, gives out revisions and commits batches."""

    def __init__(
        self, path: Path, clock: Clock, file: SqliteFile, index: CommittedIndex, hub: WatchHub, upkeep: Upkeep
    ) -> None:
        self._path = path
        self._clock = clock
        self._file = file
        self._index = index
        self._hub = hub
        self._upkeep = upkeep
        self.expiries = Expiries(clock, self._expire)
        self._thread: WorkerThread | None = None
        self._is_open = False
        """Whether new writes are taken."""
        self.pending: dict[str, SqliteWrite] = {}
        """The newest write of each key that is not committed yet."""
        self._next_revision = 1
        self._gathering: list[SqliteWrite] = []
        self._parameters: list[object] = []
        """Of the statement that will write `_gathering`: `COLUMNS` for each."""
        self._busy = False
        """Whether the writing thread has a job."""
        self._busy_since = 0.0
        """Monotonic seconds at which the writing thread got its job."""
        self._write_failure = ""
        """Why the last batch was not stored; "" if it was."""
        self._scheduled = False
        self.idle: asyncio.Event = asyncio.Event()
        """Whether there is nothing to write."""
        self.idle.set()

    def open(self, thread: WorkerThread) -> None:
        """Take writes from now on, behind what the index knows."""
        self._thread = thread
        self._next_revision = self._index.revision + 1
        self._is_open = True

    def close(self) -> None:
        """Take no new writes; what has gathered is still written."""
        self._is_open = False

    @property
    def error(self) -> str:
        """Why writes do not succeed just now; "" if they do."""
        waited = self._clock.monotonic() - self._busy_since
        if self._busy and waited > _SLOW_WRITE:
            return f"{self._path}: a write has been waiting for the disk for {waited:.0f} seconds"
        return self._write_failure

    def put(self, key: str, value: bytes, guard: int | None, deadline: float | None, attachment: object) -> SqliteWrite:
        """Let the next batch set a value. Raises Conflict."""
        if not key.isascii():
            key.encode()  # fails here rather than in the batch, along with the writes of others
        previous_revision, created, previous = self._newest(key)
        if guard is not None and guard != previous_revision:
            raise Conflict(key, guard, previous_revision)
        return self._append(key, value, created, previous, previous_revision, deadline, attachment)

    def delete(self, key: str, guard: int | None, attachment: object) -> SqliteWrite:
        """Let the next batch delete a key. Raises Conflict."""
        previous_revision, created, previous = self._newest(key)
        if previous_revision == 0 or (guard is not None and guard != previous_revision):
            raise Conflict(key, guard or 0, previous_revision)
        return self._append(key, None, created, previous, previous_revision, None, attachment)

    def _newest(self, key: str) -> tuple[int, int, bytes | None]:
        """Mod revision, create revision and (if at hand, and to be told) value, pending writes included; zeros if there
        is no such key."""
        pending = self.pending.get(key)
        if pending is not None:
            if pending.value is None:
                return 0, 0, None
            return pending.revision, pending.create_revision, pending.value if self._index.keeps_written else None
        entry = self._index.entries.get(key)
        if entry is None:
            return 0, 0, None
        return entry[0], entry[1], self._index.values.get(key) if self._index.keeps_written else None

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
    ) -> SqliteWrite:
        """Let the next batch carry a write that is certain to succeed if its batch does."""
        revision = self._next_revision
        self._next_revision = revision + 1
        created = created or revision
        write = SqliteWrite(
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
        self.pending[key] = write
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
            self.schedule()
        return write

    def _expire(self, key: str, mod_revision: int) -> None:
        previous_revision, created, previous = self._newest(key)
        if not self._is_open:
            return
        if previous_revision == mod_revision:
            self._append(key, None, created, previous, previous_revision, None, None, is_expiry=True)
        elif self._index.entries.get(key, (0, 0))[0] == mod_revision:
            # A newer write is on its way. Its commit replaces this deadline; should it fail, the old one still holds.
            self.expiries.set(key, mod_revision, self._clock.now() + _EXPIRY_RETRY)

    def schedule(self) -> None:
        """Look for work after everything that is ready now has had its turn to join the batch."""
        if not self._scheduled and not self._busy and (self._is_open or self._gathering):
            self._scheduled = True
            self.idle.clear()
            asyncio.get_running_loop().call_soon(self._work, False)

    def _work(self, upkeep_first: bool) -> None:
        """Give the writing thread its next job: one step of upkeep between two batches if there is any to do."""
        self._scheduled = False
        if self._busy:
            return
        writer = self._thread
        assert writer is not None, "work is scheduled only while the store is open"
        if (upkeep_first or not self._gathering) and self._is_open:
            job = self._upkeep.next_job(idle=not self._gathering)
            if job is not None:
                self._busy = True
                self._busy_since = self._clock.monotonic()
                writer.submit(job, self._upkeep_done)
                return
        if not self._gathering:
            self.idle.set()
            return
        batch, self._gathering = self._gathering, []
        parameters, self._parameters = self._parameters, []
        unknown = []
        if self._index.keeps_written:
            unknown = [one.previous_revision for one in batch if one.previous is None and one.previous_revision]
        self._busy = True
        self._busy_since = self._clock.monotonic()
        writer.submit(partial(self._file.append, parameters, unknown), partial(self._batch_done, batch))

    def _upkeep_done(self, _result: Any, error: BaseException | None) -> None:
        self._busy = False
        self._upkeep.done(_result, error)
        self._work(False)

    def _batch_done(
        self, batch: list[SqliteWrite], found: dict[int, bytes] | None, error: BaseException | None
    ) -> None:
        self._busy = False
        if found is None:
            self._write_failure = str(error) or repr(error)
            self._fail(batch, error)
        else:
            self._write_failure = ""
            self._commit(batch, found)
        self._work(True)

    def _commit(self, batch: list[SqliteWrite], found: dict[int, bytes]) -> None:
        index, pending, expiries = self._index, self.pending, self.expiries
        tells_previous = index.keeps_written
        events: list[Event] = []
        for write in batch:
            index.commit(write)
            key, revision = write.key, write.revision
            if write.deadline is not None:
                expiries.set(key, revision, write.deadline)
            elif expiries:
                expiries.discard(key)
            if pending[key] is write:
                del pending[key]
            events.append(write.event(found if tells_previous else None))
        index.revision = batch[-1].revision
        self._upkeep.written(index.revision)
        self._hub.publish(events)
        for write in batch:
            if not write.committed.done():
                write.committed.set_result(write.revision)

    def _fail(self, batch: list[SqliteWrite], error: BaseException | None) -> None:
        """Nothing of the batch is in the file; what gathered since may build on it, so it fails as well."""
        log.error("%s: %d writes failed: %s", self._path, len(batch) + len(self._gathering), error)
        failed = batch + self._gathering
        self._gathering, self._parameters = [], []
        self.pending.clear()
        self._next_revision = self._index.revision + 1
        for write in failed:
            if write.is_expiry:
                self.expiries.set(write.key, write.previous_revision, self._clock.now() + _EXPIRY_RETRY)
            elif not write.committed.done():
                again = type(error) if isinstance(error, StoreError) else StoreUnavailable
                failure = again(f"{self._path}: the write was not stored: {error}")
                failure.__cause__ = error
                write.committed.set_exception(failure)
