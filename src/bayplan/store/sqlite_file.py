"""The SQLite file of a store: its form, opening it with suspicion, and all statements. Blocking calls only.

The table `log` has one row per revision. A write appends; nothing is ever updated. The current value of a key is its
newest row, so the file needs no second copy of anything; which row that is, the store knows from its index in memory.
The covering index `log_facts` repeats everything but the values, in the same order, so that opening the store and
looking for changes do not read values.

A write batch is one statement where possible: SQLite works outside Python's interpreter lock, and each statement costs
a wait for that lock while the event loop is busy.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from bayplan.store.errors import StoreCorrupt, StoreUnavailable
from bayplan.store.settings import SqliteSettings

APPLICATION_ID = 0x42415950
"""`BAYP`: marks the file as ours."""
FORM_VERSION = 1
"""Version of the tables, in `user_version`."""

_PAGE_SIZE = 8192
_ROWS_PER_STATEMENT = 128
COLUMNS = 7
"""Number of parameters of one row: revision, key, value, create_revision, previous_revision, expires, deleted."""

_SCHEMA = (
    "CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, create_revision INTEGER NOT NULL,"
    " previous_revision INTEGER NOT NULL, expires REAL, deleted INTEGER NOT NULL)",
    "CREATE INDEX log_facts ON log (revision, key, create_revision, previous_revision, expires, deleted)",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('compacted', 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORM_VERSION}",
)
_TABLES = {"log", "log_facts", "meta"}

_VALUES = "SELECT revision, value FROM log WHERE revision IN (SELECT value FROM json_each(?))"


class Change(NamedTuple):
    """One row of the log without values."""

    revision: int
    key: str
    create_revision: int
    previous_revision: int
    expires: float | None
    """Unix seconds; None without a time to live."""
    deleted: int
    """1 if the revision deleted the key, else 0."""


class PastEvent(NamedTuple):
    """One row of the log with its value and the one that it replaced."""

    revision: int
    key: str
    value: bytes | None
    create_revision: int
    previous_revision: int
    previous: bytes | None


@dataclass(slots=True)
class Contents:
    """What a store needs to know at start."""

    revision: int
    compacted: int
    current: dict[str, Change]
    """The newest change of every key that exists."""


@cache
def _insert(rows: int) -> str:
    return "INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?,?,?)"] * rows)


class SqliteFile:
    """One database file with a connection for the writing thread and one for the reading thread.

    Methods named `read_...` belong to the reading thread, all others to the writing one. They raise `StoreUnavailable`,
    or `StoreCorrupt` when SQLite finds the file damaged.
    """

    def __init__(self, path: Path, settings: SqliteSettings) -> None:
        self._path = path
        self._settings = settings
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    def open(self) -> Contents:
        """Check the file without changing it, create it if there is none, and read the newest change of every key."""
        contents = self._inspect()
        with self._translated("open"):
            self._writer = writer = self._connect("rwc")
            writer.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
            writer.execute("PRAGMA journal_mode = WAL").fetchone()
            writer.execute("PRAGMA synchronous = FULL")
            writer.execute(f"PRAGMA wal_autocheckpoint = {self._settings.checkpoint_pages}").fetchone()
            writer.execute(f"PRAGMA journal_size_limit = {2 * self._settings.checkpoint_pages * _PAGE_SIZE}").fetchone()
            if contents is None:
                writer.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    writer.execute(statement)
                writer.execute("COMMIT")
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                contents = Contents(0, 0, {})
            if self._settings.max_size_bytes:
                page_size = int(writer.execute("PRAGMA page_size").fetchone()[0])
                pages = max(1, self._settings.max_size_bytes // page_size)
                writer.execute(f"PRAGMA max_page_count = {pages}").fetchone()
            self._reader = self._connect("ro")
        return contents

    def close(self) -> None:
        """Close both connections; SQLite then folds its write-ahead log into the file."""
        reader, writer = self._reader, self._writer
        self._reader = self._writer = None
        with self._translated("close"):
            if reader is not None:
                reader.close()
            if writer is not None:
                writer.close()

    def _connect(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(self._path))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=2 * _ROWS_PER_STATEMENT,
            timeout=5.0,
        )

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn SQLite's errors into the store's."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise self._corrupt(str(error)) from error
            raise StoreUnavailable(f"{self._path}: cannot {action}: {error}") from error

    def _corrupt(self, reason: str) -> StoreCorrupt:
        return StoreCorrupt(
            f"{self._path} is damaged or not a Bayplan store ({reason}); nothing was changed in it. "
            f"Restore it from a copy, or move it away to start empty"
        )

    def _inspect(self) -> Contents | None:
        """The contents, read without writing to the file; None if there is no file yet or nothing in it."""
        try:
            size = self._path.stat().st_size
            with self._path.open("rb") as stream:
                header = stream.read(100)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: cannot read it ({error.strerror})") from error
        if size == 0:
            return None
        self._check_header(header, size)
        with self._translated("open"), contextlib.closing(self._connect("ro")) as connection:
            if self._is_blank(connection):
                return None
            return self._load(connection)

    def _check_header(self, header: bytes, size: int) -> None:
        if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
            raise self._corrupt("not a SQLite database")
        log = self._path.with_name(self._path.name + "-wal")
        if log.exists() and log.stat().st_size > 0:
            # Pages of the file may legitimately be older than its header until the write-ahead log is folded in.
            return
        page_size = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        page_size = 65536 if page_size == 1 else page_size
        if size < pages * page_size:
            raise self._corrupt(f"it is {size} bytes long instead of {pages * page_size}")

    def _is_blank(self, connection: sqlite3.Connection) -> bool:
        """Whether nothing was ever stored (a first start that was killed). Raises `StoreCorrupt` for a foreign file."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if not tables and application == 0 and version == 0:
            return True
        if application != APPLICATION_ID:
            raise self._corrupt(f"its application id is {application:#x}, a store has {APPLICATION_ID:#x}")
        if version != FORM_VERSION:
            raise self._corrupt(f"its form has version {version}, this program knows {FORM_VERSION}")
        if missing := _TABLES - tables:
            raise self._corrupt(f"it lacks {', '.join(sorted(missing))}")
        return False

    def _load(self, connection: sqlite3.Connection) -> Contents:
        row = connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
        if row is None or not isinstance(row[0], int):
            raise self._corrupt("it lacks the compacted revision")
        compacted = row[0]
        current: dict[str, Change] = {}
        last = 0
        changes = connection.execute(
            "SELECT revision, key, create_revision, previous_revision, expires, deleted"
            " FROM log INDEXED BY log_facts ORDER BY revision"
        )
        for change in map(Change._make, changes):
            if change.revision > max(compacted, 1) and change.revision != last + 1:
                raise self._corrupt(f"revision {last + 1} is missing")
            last = change.revision
            if change.deleted:
                current.pop(change.key, None)
            else:
                current[change.key] = change
        if last < compacted:
            raise self._corrupt(f"revision {compacted} is missing")
        return Contents(last, compacted, current)

    def append(self, parameters: Sequence[object], unknown: list[int]) -> dict[int, bytes]:
        """Write rows (`COLUMNS` parameters each) in one durable transaction; all or none.

        Returns the values of the revisions `unknown`, read before.
        """
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("write"):
            found = dict(writer.execute(_VALUES, (json.dumps(unknown),)).fetchall()) if unknown else {}
            if len(found) != len(unknown):
                raise self._corrupt("values of current keys are missing")
            rows = len(parameters) // COLUMNS
            try:
                if rows <= _ROWS_PER_STATEMENT:
                    writer.execute(_insert(rows), parameters)
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
            part = parameters[start : start + width]
            writer.execute(_insert(len(part) // COLUMNS), part)
        writer.execute("COMMIT")

    def forget(self, start: int, end: int) -> None:
        """Delete what only reads before `end` need, given that this is done for reads before `start`: the values that
        the changes start <= revision < end replaced, and deletions among these changes."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("compact"):
            try:
                writer.execute("BEGIN IMMEDIATE")
                writer.execute(
                    "DELETE FROM log WHERE revision IN (SELECT previous_revision FROM log INDEXED BY log_facts"
                    " WHERE revision >= ? AND revision < ? AND previous_revision > 0)",
                    (start, end),
                )
                writer.execute("DELETE FROM log WHERE revision >= ? AND revision < ? AND deleted = 1", (start, end))
                writer.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (end,))
                writer.execute("COMMIT")
            except sqlite3.Error:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    def give_back(self, pages: int) -> bool:
        """Cut up to `pages` free pages off the file if a good part of it is free. Returns whether more remains to be
        cut."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self._path} is not open")
        with self._translated("shrink"):
            free = int(writer.execute("PRAGMA freelist_count").fetchone()[0])
            used = int(writer.execute("PRAGMA page_count").fetchone()[0]) - free
            excess = free - max(128, used // 4)
            if excess <= 0:
                return False
            writer.execute(f"PRAGMA incremental_vacuum({min(pages, excess)})").fetchall()
            return excess > pages

    def _reading(self) -> sqlite3.Connection:
        if self._reader is None:
            raise StoreUnavailable(f"{self._path} is not open")
        return self._reader

    def read_values(self, revisions: list[int]) -> dict[int, bytes]:
        """The values written by these revisions; those that are gone are left out."""
        with self._translated("read"):
            return dict(self._reading().execute(_VALUES, (json.dumps(revisions),)).fetchall())

    def read_changes(self, start: str, end: str, after: int, until: int) -> list[Change]:
        """Changes of the keys start <= key < end with after < revision <= until, in order."""
        with self._translated("read"):
            rows = self._reading().execute(
                "SELECT revision, key, create_revision, previous_revision, expires, deleted"
                " FROM log INDEXED BY log_facts"
                " WHERE revision > ? AND revision <= ? AND key >= ? AND key < ? ORDER BY revision",
                (after, until, start, end),
            )
            return list(map(Change._make, rows))

    def read_events(self, prefix: str, start: int, until: int, limit: int) -> list[PastEvent]:
        """At most `limit` changes of keys with the prefix, start <= revision <= until, in order, with values."""
        with self._translated("read"):
            rows = self._reading().execute(
                "SELECT log.revision, log.key, log.value, log.create_revision, log.previous_revision, old.value"
                " FROM log LEFT JOIN log AS old ON old.revision = log.previous_revision"
                " WHERE log.revision >= ? AND log.revision <= ? AND substr(log.key, 1, ?) = ?"
                " ORDER BY log.revision LIMIT ?",
                (start, until, len(prefix), prefix, limit),
            )
            return list(map(PastEvent._make, rows))
