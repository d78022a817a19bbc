"""Reading a store's file at start: everything is verified before anything is used."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bayplan.store.checksums import has_intact_facts, has_intact_value
from bayplan.store.sqlite.examine import structure_errors
from bayplan.store.sqlite.schema import LOG_COLUMNS, read_summary

_HEADER_SIZE = 100
_WRITTEN_AHEAD = b"\2\2"
"""What the header says of a file that has a write-ahead log."""
REPAIR_NOTE = b"a repair of this Bayplan store was interrupted: "
"""How the file begins that stands in for a store while a repaired one takes its place."""


class Damage(Exception):
    """The file is damaged; the message says how this was noticed."""


class NotAStore(Exception):
    """The file is something else, or of a form that this program does not know."""


class Current(NamedTuple):
    """The newest record of a key that exists."""

    revision: int
    create_revision: int
    expires: float | None
    """Unix seconds; None without a time to live."""


@dataclass(slots=True)
class Contents:
    """What a store needs to know at start."""

    revision: int
    compacted: int
    current: dict[str, Current]
    """The newest record of every key that exists."""


def check_header(path: Path) -> bool:
    """Whether there is anything in the file. Raises Damage, NotAStore, OSError."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            header = stream.read(_HEADER_SIZE)
            note = header + stream.readline(4096) if header.startswith(REPAIR_NOTE) else b""
    except FileNotFoundError:
        return False
    if size == 0:
        return False
    if len(header) < _HEADER_SIZE or not header.startswith(b"SQLite format 3\0"):
        raise NotAStore(note.decode(errors="replace").strip() or "not a SQLite database")
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size > 0:
        # Pages of the file may be older than its header until the write-ahead log is folded in.
        if header[18:20] != _WRITTEN_AHEAD:
            raise Damage("its header says that there is no write-ahead log, but there is one")
        return True
    page_size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    page_size = 65536 if page_size == 1 else page_size
    if size < pages * page_size:
        raise Damage(f"it is {size} bytes long instead of {pages * page_size}")
    return True


def load(connection: sqlite3.Connection) -> Contents:
    """The contents of a file of the current form. Raises Damage, sqlite3.Error."""
    if errors := structure_errors(connection, 1):
        raise Damage(errors[0])
    summary = read_summary(connection)
    if summary is None:
        raise Damage("the compacted revision is damaged")
    compacted = summary.compacted
    current: dict[str, Current] = {}
    last = kept = kept_checksums = 0
    for row in connection.execute(f"SELECT {LOG_COLUMNS} FROM log NOT INDEXED ORDER BY revision"):
        revision, key, create_revision, _, expires, deleted, value_checksum, checksum, value = row
        if not has_intact_facts(row[:7], checksum) or not has_intact_value(value, value_checksum):
            raise Damage(f"revision {revision} is damaged")
        if revision <= compacted:
            kept += 1
            kept_checksums += checksum
        elif revision != (last if last > compacted else compacted) + 1:
            raise Damage(f"revision {last + 1} is missing")
        if revision <= last:
            raise Damage(f"revision {revision} is out of order")
        last = revision
        if deleted:
            current.pop(key, None)
        else:
            current[key] = Current(revision, create_revision, expires)
    if (kept, kept_checksums) != (summary.kept, summary.kept_checksums):
        raise Damage(f"{kept} of {summary.kept} records up to the compacted revision {compacted} are there")
    return Contents(max(last, compacted), compacted, current)


def load_version_1(connection: sqlite3.Connection) -> None:
    """Check a file of version 1, which has no checksums, as far as that goes. Raises Damage, sqlite3.Error."""
    if errors := structure_errors(connection, 1):
        raise Damage(errors[0])
    row = connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
    if row is None or not isinstance(row[0], int):
        raise Damage("it lacks the compacted revision")
    compacted, last = row[0], 0
    for (revision,) in connection.execute("SELECT revision FROM log INDEXED BY log_facts ORDER BY revision"):
        if revision > max(compacted, 1) and revision != last + 1:
            raise Damage(f"revision {last + 1} is missing")
        last = revision
    if last < compacted:
        raise Damage(f"revision {compacted} is missing")
