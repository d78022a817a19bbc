"""Opening a store's file with suspicion: what is in it is verified without changing it, and damage is named."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from bayplan.store.errors import StoreCorrupt, StoreUnavailable
from bayplan.store.sqlite.connect import READ_ERRORS, connect
from bayplan.store.sqlite.examine import Examination, Step, examine
from bayplan.store.sqlite.load import Contents, Damage, NotAStore, check_header, load, load_version_1
from bayplan.store.sqlite.report import StoreReport
from bayplan.store.sqlite.schema import FORM_VERSION, foreign_error, form_version, schema_error
from bayplan.store.sqlite.wal import wal_error

_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)


def corrupt(path: Path, reason: str) -> StoreCorrupt:
    """The error for a file of which nothing more can be said than why it is not used."""
    return StoreCorrupt(
        f"{path} is damaged or not a Bayplan store ({reason}); nothing was changed in it. Move it away to start empty,"
        f" or to bring a backup back with `bayplan store restore FILE --store sqlite:{path}`"
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file is damaged, in one way or another."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in _DAMAGE_CODES or "Could not decode" in str(error)


@contextlib.contextmanager
def translated(path: Path, action: str) -> Iterator[None]:
    """Turn SQLite's errors into the store's."""
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise corrupt(path, str(error)) from error
        raise StoreUnavailable(f"{path}: cannot {action}: {error}") from error
    except (MemoryError, OverflowError, UnicodeDecodeError) as error:
        raise corrupt(path, f"what was read from it makes no sense: {error!r}") from error


def inspect(path: Path) -> Contents | None:
    """The contents, read without writing to the file; None if nothing is in it, or nothing of the current form.

    Raises StoreCorrupt, StoreUnavailable. The caller holds the lock of the store.
    """
    if not _has_content(path):
        return None
    with translated(path, "open"), contextlib.closing(connect(path, "ro")) as connection:
        version = form_version(connection)
        log_error = wal_error(path)
        if version == 0:
            if reason := log_error or _not_blank(connection):
                raise corrupt(path, reason)
            return None
        if reason := foreign_error(connection):
            raise corrupt(path, reason)
        if version == FORM_VERSION:
            return verified(path, connection, log_error)
        _check_version_1(path, connection, log_error)
        return None


def _not_blank(connection: sqlite3.Connection) -> str:
    """Why a file without tables is not that of a first start that was killed, which has its first page at most."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    return f"it has {pages} pages and no tables" if pages > 1 else ""


def verified(path: Path, connection: sqlite3.Connection, log_error: str = "") -> Contents:
    """All that a file of the current form holds. Raises StoreCorrupt, which names what is lost."""
    try:
        if reason := log_error or schema_error(connection):
            raise Damage(reason)
        return load(connection)
    except (Damage, *READ_ERRORS) as error:
        report = examine(path, connection, lambda _: None, log_error).report
        if report.is_intact:
            raise corrupt(path, str(error)) from error
        raise damage_error(report) from error


def damage_error(report: StoreReport) -> StoreCorrupt:
    """The error that says what is damaged and how to go on."""
    return StoreCorrupt(report.message(), lost=tuple((one.key, one.revision) for one in report.lost))


def examined(path: Path, connection: sqlite3.Connection, step: Step, *, is_idle: bool = True) -> Examination:
    """Everything intact in a file of the current form, and what is not. Raises StoreCorrupt for anything else,
    StoreUnavailable.

    is_idle: whether nobody has the store open.
    """
    if not _has_content(path):
        raise corrupt(path, "it is empty")
    with translated(path, "read"):
        version = form_version(connection)
        if reason := foreign_error(connection):
            raise corrupt(path, reason)
        log_error = wal_error(path) if is_idle else ""
        if version == FORM_VERSION:
            return examine(path, connection, step, log_error)
        _check_version_1(path, connection, log_error)
        raise StoreUnavailable(
            f"{path} was written by an earlier version and has no checksums; its structure is intact."
            " Start a cluster on it once to bring it to the current form"
        )


def _has_content(path: Path) -> bool:
    try:
        return check_header(path)
    except OSError as error:
        raise StoreUnavailable(f"{path}: cannot read it ({error.strerror})") from error
    except (Damage, NotAStore) as error:
        raise corrupt(path, str(error)) from error


def _check_version_1(path: Path, connection: sqlite3.Connection, log_error: str) -> None:
    try:
        if reason := log_error or schema_error(connection):
            raise Damage(reason)
        load_version_1(connection)
    except Damage as error:
        raise corrupt(path, str(error)) from error
