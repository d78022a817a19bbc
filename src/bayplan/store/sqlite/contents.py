"""The contents of a store's file as a source and as a target of copies."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bayplan.store.copying import StoredEntry
from bayplan.store.errors import StoreUnavailable
from bayplan.store.sqlite.connect import held_lock, refusing, snapshot
from bayplan.store.sqlite.copies import refuse_existing, restore
from bayplan.store.sqlite.load import Contents, Current
from bayplan.store.sqlite.open import damage_error, examined, translated, verified
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import Clock

_PAGE: Final = 500


class SqliteContents:
    """See Contents: one state of a file, which may be in use."""

    def __init__(self, path: Path, connection: sqlite3.Connection, contents: Contents, now: float) -> None:
        """now: Unix seconds; what should have ended by then has."""
        self._path = path
        self._connection = connection
        self._now = now
        self._current: Mapping[str, Current] = contents.current
        self.revision = contents.revision

    async def pages(self) -> AsyncIterator[Sequence[StoredEntry]]:
        """See Contents."""
        keys = sorted(self._current)
        for start in range(0, len(keys), _PAGE):
            yield self._page(keys[start : start + _PAGE])
            await asyncio.sleep(0)

    def _page(self, keys: Sequence[str]) -> list[StoredEntry]:
        """Raises StoreCorrupt, StoreUnavailable."""
        places = ",".join("?" * len(keys))
        revisions = [self._current[key].revision for key in keys]
        with translated(self._path, "read"):
            rows = self._connection.execute(f"SELECT revision, value FROM log WHERE revision IN ({places})", revisions)
            values = dict(rows.fetchall())
        found = []
        for key in keys:
            current = self._current[key]
            seconds = None if current.expires is None else current.expires - self._now
            if seconds is None or seconds > 0:
                found.append(StoredEntry(key, values[current.revision], seconds))
        return found


@contextlib.contextmanager
def opened_contents(path: Path, now: float) -> Iterator[SqliteContents]:
    """The contents of a file, verified. now: Unix seconds. Raises StoreError."""
    if not path.exists():
        raise StoreUnavailable(f"{path}: there is no such store")
    with (
        held_lock(path) as is_idle,
        refusing(path, "read it"),
        snapshot(path, is_idle=is_idle) as connection,
    ):
        report = examined(path, connection, lambda _: None, is_idle=is_idle).report
        if not report.is_intact:
            raise damage_error(report)
        yield SqliteContents(path, connection, verified(path, connection), now)


class SqliteTarget:
    """See Target: a new file. It appears when it is whole, with a revision far above any that clients can have seen."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._unfinished = path.with_name(f".{path.name}.copy")
        self._store = SqliteStore(self._unfinished, clock=clock)
        self._is_finished = False

    async def begin(self) -> None:
        """See Target."""
        for suffix in ("", "-wal"):
            refuse_existing(self._path.with_name(f"{self._path.name}{suffix}"))
        _remove(self._unfinished)
        await self._store.open()

    async def write(self, entries: Sequence[StoredEntry]) -> None:
        """See Target."""
        await asyncio.gather(*(self._store.put(key, value, guard=0, ttl=seconds) for key, value, seconds in entries))

    async def finish(self) -> None:
        """See Target."""
        await self._store.close()
        restore(self._unfinished, self._path)
        self._is_finished = True
        _remove(self._unfinished)

    async def abandon(self) -> None:
        """See Target."""
        await self._store.close()
        _remove(self._unfinished)
        if self._is_finished:
            _remove(self._path)

    @contextlib.asynccontextmanager
    async def contents(self) -> AsyncIterator[SqliteContents]:
        """See Target."""
        with opened_contents(self._path, self._clock.now()) as contents:
            yield contents


def _remove(path: Path) -> None:
    """Remove a file and what lies beside it."""
    for suffix in ("", "-wal", "-shm", ".lock"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
