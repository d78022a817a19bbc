"""The tables of a store's SQLite file, how they are recognised, and how older files are brought to the current form.

The table `log` has one row per revision. A write appends; nothing is ever updated. The current value of a key is its
newest row, so the file needs no second copy of anything; which row that is, the store knows from its index in memory.
The covering index `log_facts` repeats everything but the values, in the same order, so that looking for changes does not
read values. Every row carries the checksums of `checksums`; the value is the last column, so that nothing has to be read
past it.

The table `meta` has the compacted revision, and how many rows up to it are kept with the sum of their checksums: these
rows have gaps between them, so nothing else would tell that one is missing.
"""

from __future__ import annotations

import sqlite3
from struct import error as StructError
from typing import NamedTuple

from bayplan.store.checksums import facts_checksum, summary_checksum, value_checksum

APPLICATION_ID = 0x42415950
"""`BAYP`: marks the file as ours."""
FORM_VERSION = 2
"""Version of the tables, in `user_version`. Version 1 had no checksums."""
COLUMNS = 9
"""Number of parameters of one row, in the order of `LOG_COLUMNS`."""

FACT_COLUMNS = "revision, key, create_revision, previous_revision, expires, deleted, value_checksum, checksum"
LOG_COLUMNS = f"{FACT_COLUMNS}, value"

_LOG = (
    "CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, create_revision INTEGER NOT NULL,"
    " previous_revision INTEGER NOT NULL, expires REAL, deleted INTEGER NOT NULL, value_checksum INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL, value BLOB)"
)
_LOG_FACTS = f"CREATE INDEX log_facts ON log ({FACT_COLUMNS})"
_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"
_EXPECTED = {("table", "log", _LOG), ("index", "log_facts", _LOG_FACTS), ("table", "meta", _META)}
_VERSION_1_NAMES = {"log", "log_facts", "meta"}


class Summary(NamedTuple):
    """What the table `meta` says."""

    compacted: int
    """The compacted revision."""
    kept: int
    """Number of rows with this revision or a lower one."""
    kept_checksums: int
    """Sum of the checksums (column `checksum`) of these rows."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty store; in a transaction of the caller."""
    for statement in (_LOG, _LOG_FACTS, _META):
        connection.execute(statement)
    write_summary(connection, Summary(0, 0, 0))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORM_VERSION}")


def write_summary(connection: sqlite3.Connection, summary: Summary) -> None:
    """Replace what the table `meta` says."""
    rows = [*summary._asdict().items(), ("checksum", summary_checksum(*summary))]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def read_summary(connection: sqlite3.Connection) -> Summary | None:
    """What the table `meta` says; None if that is damaged."""
    found = dict(connection.execute("SELECT name, value FROM meta"))
    try:
        summary = Summary(found["compacted"], found["kept"], found["kept_checksums"])
        intact = summary_checksum(*summary) == found["checksum"]
    except (KeyError, TypeError, ValueError, ArithmeticError, StructError):
        return None
    return summary if intact and summary.compacted >= 0 else None


def form_version(connection: sqlite3.Connection) -> int:
    """The version of the file's tables; 0 if nothing was ever stored (a first start that was killed)."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if version == 0 and application == 0 and not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        return 0
    return version or -1


def foreign_error(connection: sqlite3.Connection) -> str:
    """Why the file is not a store of a form that this program knows; "" if it is one."""
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if application != APPLICATION_ID:
        return f"its application id is {application:#x}, a store has {APPLICATION_ID:#x}"
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version not in (1, FORM_VERSION):
        return f"its form has version {version}, this program knows {FORM_VERSION}"
    return ""


def schema_error(connection: sqlite3.Connection) -> str:
    """How the tables differ from those of the file's form; "" if they do not."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    found = set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    if missing := _VERSION_1_NAMES - {name for _, name, _ in found}:
        return f"it lacks {', '.join(sorted(missing))}"
    if version == FORM_VERSION and found != _EXPECTED:
        changed = sorted(str(name) for _, name, _ in found ^ _EXPECTED)
        return f"the definition of {', '.join(dict.fromkeys(changed))} is not that of a store"
    return ""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file of version 1 to the current form in one transaction: a crash leaves either form, never a mixture."""
    connection.create_function("value_checksum", 1, value_checksum, deterministic=True)
    connection.create_function("facts_checksum", 7, facts_checksum, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        compacted = int(connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()[0])
        connection.execute("DROP INDEX log_facts")
        connection.execute("ALTER TABLE log RENAME TO log_version_1")
        connection.execute("DROP TABLE meta")
        for statement in (_LOG, _META):
            connection.execute(statement)
        connection.execute(
            f"INSERT INTO log ({LOG_COLUMNS}) SELECT revision, key, create_revision, previous_revision, expires, deleted,"
            " value_checksum(value), facts_checksum(revision, key, create_revision, previous_revision, expires, deleted,"
            " value_checksum(value)), value FROM log_version_1 ORDER BY revision"
        )
        connection.execute("DROP TABLE log_version_1")
        connection.execute(_LOG_FACTS)
        write_summary(connection, summarize(connection, compacted))
        connection.execute(f"PRAGMA user_version = {FORM_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def summarize(connection: sqlite3.Connection, compacted: int) -> Summary:
    """What the table `meta` is to say of the rows in the file."""
    kept, checksums = connection.execute(
        "SELECT count(*), coalesce(sum(checksum), 0) FROM log INDEXED BY log_facts WHERE revision <= ?", (compacted,)
    ).fetchone()
    return Summary(compacted, kept, checksums)
