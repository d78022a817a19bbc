"""Reading from a SQLite store: the present from the index in memory; values that are not in the cache, and the past, from the file.

Lives on the event loop; the file is read in a thread of its own, on a second connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bayplan.store.errors import Compacted, FutureRevision, StoreClosed, StoreCorrupt
from bayplan.store.interface import Event, KeyValue, RangeResult
from bayplan.store.sqlite.file import SqliteFile
from bayplan.store.sqlite.index import CommittedIndex
from bayplan.store.sqlite.maintenance import Upkeep
from bayplan.store.watching import Subscription
from bayplan.support.worker import WorkerThread

_EVENTS_PER_READ = 1000


class StoreReader:
    """Gets, ranges, and the past of watches."""

    def __init__(self, path: Path, file: SqliteFile, index: CommittedIndex, upkeep: Upkeep) -> None:
        self._path = path
        self._file = file
        self._index = index
        self._upkeep = upkeep
        self.thread: WorkerThread | None = None
        """None while the store is not open."""

    async def _read(self, job: Callable[[], Any]) -> Any:
        reader = self.thread
        if reader is None:
            raise StoreClosed("the store is closed")
        return await reader.run(job)

    def _check_readable(self, revision: int) -> None:
        if self.thread is None:
            raise StoreClosed("the store is closed")
        if revision > self._index.revision:
            raise FutureRevision(revision, self._index.revision)
        if 0 < revision < self._upkeep.compacted:
            raise Compacted(revision, self._upkeep.compacted)

    async def get(self, key: str, revision: int) -> KeyValue | None:
        """See `Store.get`."""
        self._check_readable(revision)
        entry = self._index.entries.get(key)
        if entry is None and revision in (0, self._index.revision):
            return None
        if entry is not None and (revision == 0 or entry[0] <= revision):
            value = self._index.values.get(key)
            if value is not None:
                return KeyValue(key, value, entry[1], entry[0])
        items = (await self.range(key, key + "\0", 0, revision)).items
        return items[0] if items else None

    async def range(self, start: str, end: str, limit: int, revision: int) -> RangeResult:
        """See `Store.range`."""
        while True:
            self._check_readable(revision)
            shown = revision or self._index.revision
            if shown == self._index.revision:
                found = self._index.keys.between(start, end, limit)
                count = len(found) if limit <= 0 else self._index.keys.count(start, end)
                wanted = [(key, *self._index.entries[key]) for key in found]
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
        current = {key: self._index.entries[key] for key in self._index.keys.between(start, end)}
        until = self._index.revision
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
        index = self._index
        at_hand: dict[int, bytes] = {}
        for key, revision, _ in wanted:
            value = index.value(key, revision)
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
                    if revision in gone and index.is_current(key, revision)
                )
                if lost:
                    raise StoreCorrupt(
                        f"{self._path}: values of current keys are missing, such as that of {lost[0][0]}", lost
                    )
                return None
            at_hand.update(read)
            for key, revision, _ in wanted:
                if revision in read:
                    index.read(key, revision, read[revision])
        return [KeyValue(key, at_hand[revision], created, revision) for key, revision, created in wanted]

    async def catch_up(self, subscription: Subscription, start: int, until: int) -> None:
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
