"""The SQLite file of a store: opening it with suspicion, and all statements. Blocking calls only.

Every record is verified wherever it is read, see `checksums`; `sqlite_schema` describes the tables.

A write batch is one statement where possible: SQLite works outside Python's interpreter lock, and each statement costs
a wait for that lock while the event loop is busy.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bayplan.store.checksums import has_intact_facts, has_intact_value
from bayplan.store.errors import StoreCorrupt, StoreUnavailable
from bayplan.store.settings import SqliteSettings
from bayplan.store.sqlite.connect import PAGE_SIZE, connect
from bayplan.store.sqlite.load import Contents
from bayplan.store.sqlite.open import corrupt, inspect, translated, verified
from bayplan.store.sqlite.schema import (
    COLUMNS,
    FACT_COLUMNS,
    FORM_VERSION,
    LOG_COLUMNS,
    Summary,
    create_tables,
    form_version,
    migrate,
    read_summary,
    write_summary,
)
from bayplan.support.system.private_files import create_private, make_file_private

log = logging.getLogger(__name__)

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Rows of one statement. A prepared statement takes a kilobyte and more for each of its rows: one for every number of rows would take 16 MiB."""
_ROWS_PER_STATEMENT = _SIZES[-1]
_LITTLE_SPACE = 4 << 20
"""Bytes; with less than this on the disk, it is the disk that is full, and not the store."""
_NAMED = 20
"""Most damaged records that an error names."""

_RECORDS = f"SELECT {LOG_COLUMNS} FROM log NOT INDEXED WHERE revision IN (SELECT value FROM json_each(?))"
_GOING = (
    "revision IN (SELECT previous_revision FROM log INDEXED BY log_facts"
    " WHERE revision >= :start AND revision < :end AND previous_revision > 0)"
    " OR (revision >= :start AND revision < :end AND deleted = 1)"
)
"""The records that only reads before `end` need."""
_DIFFERENCES = (
    "SELECT count(*) FROM log AS entry INDEXED BY log_facts"
    " LEFT JOIN log AS record NOT INDEXED ON record.revision = entry.revision"
    " WHERE entry.revision >= :start AND entry.revision < :end AND"
    " (record.key IS NOT entry.key OR record.previous_revision IS NOT entry.previous_revision"
    " OR record.deleted IS NOT entry.deleted OR record.checksum IS NOT entry.checksum)"
)
"""How many records differ from their entries in the index."""


class Change(NamedTuple):
    """One record without its value."""

    revision: int
    key: str
    create_revision: int
    previous_revision: int


class PastEvent(NamedTuple):
    """One record with its value and the one that it replaced."""

    revision: int
    key: str
    value: bytes | None
    create_revision: int
    previous_revision: int
    previous: bytes | None


@cache
def _insert(size: int, *, is_padded: bool) -> str:
    """The statement that writes `size` rows; of padded ones the last may be NULL, which are not written."""
    rows = "VALUES " + ",".join(["(?,?,?,?,?,?,?,?,?)"] * size)
    return f"INSERT INTO log ({LOG_COLUMNS}) " + (
        f"SELECT * FROM ({rows}) WHERE column1 IS NOT NULL" if is_padded else rows
    )


def _write_rows(writer: sqlite3.Connection, parameters: Sequence[object]) -> None:
    """Write up to _ROWS_PER_STATEMENT rows with one statement."""
    rows = len(parameters) // COLUMNS
    size = _SIZES[bisect_left(_SIZES, rows)]
    padding = [None] * ((size - rows) * COLUMNS)
    writer.execute(_insert(size, is_padded=bool(padding)), [*parameters, *padding] if padding else parameters)


class SqliteFile:
    """One database file with a connection for the writing thread and one for the reading thread.

    Methods named `read_...` belong to the reading thread, all others to the writing one. They raise `StoreUnavailable`,
    or `StoreCorrupt` when the file or a record in it is damaged.
    """

    def __init__(self, path: Path, settings: SqliteSettings) -> None:
        self._path = path
        self._settings = settings
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    def open(self) -> Contents:
        """Verify the file without changing it, create it if there is none, and read the newest change of every key."""
        self._make_private()
        contents = inspect(self._path)
        with self._translated("open"):
            self._writer = writer = connect(self._path, "rw")
            writer.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
            writer.execute("PRAGMA journal_mode = WAL").fetchone()
            writer.execute("PRAGMA synchronous = FULL")
            writer.execute(f"PRAGMA wal_autocheckpoint = {self._settings.checkpoint_pages}").fetchone()
            writer.execute(f"PRAGMA journal_size_limit = {2 * self._settings.checkpoint_pages * PAGE_SIZE}").fetchone()
            contents = contents or self._create(writer)
            # A new log, so that nothing of what a crash left in the old one can be taken for damage later.
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if self._settings.max_size_bytes:
                page_size = int(writer.execute("PRAGMA page_size").fetchone()[0])
                pages = max(1, self._settings.max_size_bytes // page_size)
                writer.execute(f"PRAGMA max_page_count = {pages}").fetchone()
            self._reader = connect(self._path, "ro")
        return contents

    def _make_private(self) -> None:
        """Make the file, if there is none, and see that nobody else may read it. SQLite gives its other files the same
        mode."""
        if self._path.is_symlink():
            raise StoreUnavailable(
                f"{self._path} is a symbolic link, which is not followed; name the file itself: --store sqlite:{self._path.resolve()}"
            )
        try:
            if not create_private(self._path):
                make_file_private(self._path)
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    make_file_private(self._path.with_name(f"{self._path.name}{suffix}"))
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreUnavailable(
                f"{self._path}: cannot use it as a file in {self._path.parent} ({reason})"
            ) from error

    def _create(self, writer: sqlite3.Connection) -> Contents:
        """Make the tables of an empty file, or bring those of an older form to the current one."""
        if form_version(writer) == 1:
            migrate(writer)
            log.warning("%s: brought to form version %d, which has checksums", self._path, FORM_VERSION)
            return verified(self._path, writer)
        writer.execute("BEGIN IMMEDIATE")
        create_tables(writer)
        writer.execute("COMMIT")
        return Contents(0, 0, {})

    def close(self) -> None:
        """Close both connections; SQLite then folds its write-ahead log into the file."""
        reader, writer = self._reader, self._writer
        self._reader = self._writer = None
        with self._translated("close"):
            if reader is not None:
                reader.close()
            if writer is not None:
                writer.close()

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn SQLite's errors into the store's."""
        with translated(self._path, action):
            try:
                yield
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_FULL:
                    raise
                raise StoreUnavailable(f"{self._path}: cannot {action}: {self._full_reason()}") from error

    def _full_reason(self) -> str:
        """Why there is no room for a write, and what to do."""
        limit = self._settings.max_size_bytes
        disk = os.statvfs(self._path.parent)
        if limit and disk.f_bavail * disk.f_frsize > _LITTLE_SPACE:
            return f"the store is full, it may have {limit} bytes; delete objects or raise the limit"
        return f"the disk is full; free space on the file system of {self._path.parent}"

    def append(self, parameters: Sequence[object], unknown: list[int]) -> dict[int, bytes]:
        """Write rows (`COLUMNS` parameters each) in one durable transaction; all or none.

        Returns the values of the revisions `unknown`, read before.
        """
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("write"):
            found = self._values_of(writer, unknown) if unknown else {}
            if len(found) != len(unknown):
                raise corrupt(self._path, "values of current keys are missing")
            rows = len(parameters) // COLUMNS
            try:
                if rows <= _ROWS_PER_STATEMENT:
                    _write_rows(writer, parameters)
                else:
                    self._append_many(writer, parameters)
            except sqlite3.Error:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                # An error after the commit took effect must not let the same revisions be given out again.
                newest = writer.execute("SELECT max(revision) FROM log").fetchone()[0]
                if newest != parameters[-COLUMNS]:
                    raise
        return found

    def _append_many(self, writer: sqlite3.Connection, parameters: Sequence[object]) -> None:
        width = _ROWS_PER_STATEMENT * COLUMNS
        writer.execute("BEGIN IMMEDIATE")
        for start in range(0, len(parameters), width):
            _write_rows(writer, parameters[start : start + width])
        writer.execute("COMMIT")

    def forget(self, start: int, end: int) -> None:
        """Delete what only reads before `end` need, given that this is done for reads before `start`: the values that
        the changes start <= revision < end replaced, and deletions among these changes."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("compact"):
            bounds = {"start": start, "end": end}
            try:
                writer.execute("BEGIN IMMEDIATE")
                summary = read_summary(writer)
                if summary is None or summary.compacted != start:
                    raise corrupt(self._path, "the compacted revision is damaged")
                if different := writer.execute(_DIFFERENCES, bounds).fetchone()[0]:
                    raise corrupt(self._path, f"{different} records differ from the index")
                added, added_checksums = self._count(writer, "revision > :start AND revision <= :end", bounds)
                gone, gone_checksums = self._count(writer, _GOING, bounds)
                writer.execute(f"DELETE FROM log WHERE {_GOING}", bounds)
                kept = summary.kept + added - gone
                write_summary(writer, Summary(end, kept, summary.kept_checksums + added_checksums - gone_checksums))
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    def _count(self, writer: sqlite3.Connection, condition: str, bounds: dict[str, int]) -> tuple[int, int]:
        """The number of the records that meet a condition, and the sum of their checksums."""
        count, checksums = writer.execute(
            f"SELECT count(*), coalesce(sum(checksum), 0) FROM log INDEXED BY log_facts WHERE {condition}", bounds
        ).fetchone()
        return int(count), int(checksums)

    def give_back(self, pages: int) -> bool:
        """Cut up to `pages` free pages off the file if a good part of it is free, and in the end forget the pages that are kept in memory. Returns
        whether more remains to be cut."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("shrink"):
            free = int(writer.execute("PRAGMA freelist_count").fetchone()[0])
            used = int(writer.execute("PRAGMA page_count").fetchone()[0]) - free
            excess = free - max(128, used // 4)
            if excess > 0:
                writer.execute(f"PRAGMA incremental_vacuum({min(pages, excess)})").fetchall()
            if excess <= pages:
                writer.execute("PRAGMA shrink_memory")
            return excess > pages

    def give_back_all(self) -> None:
        """Cut all free pages off the file."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("shrink"):
            writer.execute("PRAGMA incremental_vacuum").fetchall()
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _reading(self) -> sqlite3.Connection:
        if self._reader is None:
            raise StoreUnavailable(f"{self._path} is not open")
        return self._reader

    def read_values(self, revisions: list[int]) -> dict[int, bytes]:
        """The values written by these revisions; those that are gone are left out."""
        with self._translated("read"):
            return self._values_of(self._reading(), revisions)

    def _values_of(self, connection: sqlite3.Connection, revisions: list[int]) -> dict[int, bytes]:
        rows = connection.execute(_RECORDS, (json.dumps(revisions),)).fetchall()
        self._verify(rows)
        return {row[0]: row[8] for row in rows}

    def _verify(self, rows: list[tuple[Any, ...]]) -> None:
        """Raises StoreCorrupt if a record (`LOG_COLUMNS`, or `FACT_COLUMNS` of the index) is damaged."""
        damaged = [
            row
            for row in rows
            if not has_intact_facts(row[:7], row[7]) or (len(row) > 8 and not has_intact_value(row[8], row[6]))
        ]
        if damaged:
            named = ", ".join(f"{row[1]} (revision {row[0]})" for row in damaged[:_NAMED])
            more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
            message = (
                f"{self._path}: damaged records are not served: {named}{more};"
                f" `bayplan store check --store sqlite:{self._path}` names everything that is damaged"
            )
            log.error("%s", message)
            raise StoreCorrupt(message, lost=tuple((str(row[1]), row[0]) for row in damaged))

    def read_changes(self, start: str, end: str, after: int, until: int) -> tuple[list[Change], int]:
        """Changes of the keys start <= key < end with after < revision <= until, in order; and how many records of any
        key there are between these revisions."""
        with self._translated("read"):
            reader = self._reading()
            bounds = {"start": after + 1, "end": until + 1}
            # The key selects rows before their checksums are verified, so a damaged key is found by its other copy.
            if different := reader.execute(_DIFFERENCES, bounds).fetchone()[0]:
                raise corrupt(self._path, f"{different} records differ from the index")
            count = reader.execute(
                "SELECT count(*) FROM log INDEXED BY log_facts WHERE revision > ? AND revision <= ?", (after, until)
            ).fetchone()[0]
            rows = reader.execute(
                f"SELECT {FACT_COLUMNS} FROM log INDEXED BY log_facts"
                " WHERE revision > ? AND revision <= ? AND key >= ? AND key < ? ORDER BY revision",
                (after, until, start, end),
            ).fetchall()
        self._verify(rows)
        return [Change(*row[:4]) for row in rows], count

    def read_events(self, start: int, until: int) -> list[PastEvent]:
        """The changes start <= revision <= until, in order, with the values that are still there."""
        with self._translated("read"):
            rows = (
                self._reading()
                .execute(
                    f"SELECT {LOG_COLUMNS} FROM log NOT INDEXED WHERE revision BETWEEN ? AND ? ORDER BY revision",
                    (start, until),
                )
                .fetchall()
            )
            self._verify(rows)
            previous = self._values_of(self._reading(), [row[3] for row in rows if row[3]])
        return [PastEvent(row[0], row[1], row[8], row[2], row[3], previous.get(row[3])) for row in rows]
