"""Connections to a store's file from outside the store: to examine, to copy, to repair. Blocking calls only."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from bayplan.store.errors import StoreError, StoreLocked, StoreUnavailable
from bayplan.store.file_lock import FileLock

PAGE_SIZE = 8192
_STATEMENTS = 64

READ_ERRORS = (sqlite3.Error, MemoryError, OverflowError, UnicodeDecodeError)
"""What reading a damaged file raises: a damaged length can ask for more memory than there is, and SQLite's messages repeat
damaged text."""


def lock_of(path: Path) -> FileLock:
    """The lock that whoever has the store open holds."""
    return FileLock(path.with_name(f"{path.name}.lock"), path)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection in SQLite's mode `ro`, `rw` or `immutable` (nobody writes to the file, and no file is made beside it)."""
    option = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{option}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
        timeout=5.0,
    )
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


@contextlib.contextmanager
def held_lock(path: Path) -> Iterator[bool]:
    """Holds the store's lock if it is free; gives whether it is held. Raises StoreUnavailable."""
    lock = lock_of(path)
    try:
        lock.acquire()
    except StoreLocked:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextlib.contextmanager
def snapshot(path: Path, *, is_idle: bool) -> Iterator[sqlite3.Connection]:
    """A connection that reads one state of the file throughout, whoever writes to it meanwhile.

    is_idle: whether nobody has the store open. Then no file is left beside it that was not there before.
    """
    if not path.exists():
        raise StoreUnavailable(f"{path}: there is no such store")
    log = path.with_name(f"{path.name}-wal")
    is_closed = is_idle and (not log.exists() or log.stat().st_size == 0)
    with contextlib.closing(connect(path, "immutable" if is_closed else "ro")) as connection:
        connection.execute("BEGIN")
        with contextlib.suppress(*READ_ERRORS):  # whoever reads on meets the damage as well
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection


@contextlib.contextmanager
def refusing(path: Path, action: str) -> Iterator[None]:
    """Turn errors of the system and of SQLite into StoreUnavailable."""
    try:
        yield
    except StoreError:
        raise
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: cannot {action}: {error}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename and str(error.filename) != str(path) else ""
        raise StoreUnavailable(f"{path}: cannot {action}: {where}{error.strerror or error}") from error
