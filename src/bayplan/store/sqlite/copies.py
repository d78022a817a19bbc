"""Backing up a store's file, bringing a backup back, and compacting a store that nobody has open. Blocking calls only."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bayplan.store.errors import StoreUnavailable
from bayplan.store.settings import SqliteSettings
from bayplan.store.sqlite.connect import connect, held_lock, lock_of, refusing, snapshot
from bayplan.store.sqlite.examine import Examination, Step
from bayplan.store.sqlite.file import SqliteFile
from bayplan.store.sqlite.open import damage_error, examined, translated, verified
from bayplan.store.sqlite.repair import REVISION_JUMP
from bayplan.store.sqlite.report import StoreReport
from bayplan.store.sqlite.schema import form_version, migrate, summarize, write_summary
from bayplan.support.system.private_files import create_private, make_private_directory, sync_directory

_PAGES_PER_STEP = 2000
_REVISIONS_PER_STEP = 5000

Copied = Callable[[int, int], None]
"""Called now and then with the pages copied and the pages of the whole."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found."""

    report: StoreReport
    is_in_use: bool
    """Whether a process had the store open meanwhile."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compacting a store achieved."""

    revision: int
    """The compacted revision now."""
    size_before: int
    size: int
    """Bytes of the file."""


def check(path: Path, step: Step = lambda _: None) -> Checked:
    """Verify every record of a store, which may be in use. Raises StoreError for a file that is not a store at all."""
    if not path.exists():
        raise StoreUnavailable(f"{path}: there is no such store")
    with held_lock(path) as is_idle, refusing(path, "check it"), snapshot(path, is_idle=is_idle) as connection:
        return Checked(examined(path, connection, step, is_idle=is_idle).report, not is_idle)


def backup(path: Path, target: Path, copied: Copied = lambda _done, _of: None) -> StoreReport:
    """Copy a store, which may be in use, as of one moment, and verify the copy. Returns the report on the copy.

    Raises StoreError: also if there is something at `target`, and StoreCorrupt if the store is damaged.
    """
    with refusing(target, "write the backup"):
        refuse_existing(target)
        with held_lock(path) as is_idle, _unfinished(target) as copy:
            with snapshot(path, is_idle=is_idle) as connection:
                _copy_pages(connection, copy, copied)
            report = _examine_copy(copy).report
            if not report.is_intact:
                raise damage_error(_as_report_of(report, path))
    return _as_report_of(report, target)


def restore(source: Path, path: Path, copied: Copied = lambda _done, _of: None) -> StoreReport:
    """Make a store of a backup. Its revision goes up by `REVISION_JUMP` with everything before compacted, so that no client
    takes the older state for the one that it has seen. Returns the report on the store.

    Raises StoreError: also if there is a store already, or a process has it open; StoreCorrupt if the backup is damaged.
    """
    with refusing(path, "restore it"):
        make_private_directory(path.parent)
        lock = lock_of(path)
        lock.acquire()
        try:
            for suffix in ("", "-wal"):
                refuse_existing(path.with_name(f"{path.name}{suffix}"))
            with _unfinished(path) as copy:
                with snapshot(source, is_idle=True) as connection:
                    with translated(source, "read"):
                        is_older = form_version(connection) == 1
                    if not is_older:
                        report = examined(source, connection, lambda _: None).report
                        if not report.is_intact:
                            raise damage_error(report)
                    _copy_pages(connection, copy, copied)
                _raise_revision(copy)
                report = _examine_copy(copy).report
        finally:
            lock.release()
    return _as_report_of(report, path)


def compact(path: Path, step: Copied = lambda _done, _of: None) -> Compaction:
    """Forget everything but the current state, and give the free space back. Raises StoreError; StoreLocked if a process has
    the store open."""
    if not path.exists():
        raise StoreUnavailable(f"{path}: there is no such store")
    lock = lock_of(path)
    lock.acquire()
    try:
        size_before = path.stat().st_size
        file = SqliteFile(path, SqliteSettings())
        contents = file.open()
        try:
            start = contents.compacted
            while start < contents.revision:
                end = min(contents.revision, start + _REVISIONS_PER_STEP)
                file.forget(start, end)
                start = end
                step(start - contents.compacted, contents.revision - contents.compacted)
            file.give_back_all()
        finally:
            file.close()
        return Compaction(start, size_before, path.stat().st_size)
    finally:
        lock.release()


def refuse_existing(path: Path) -> None:
    """Raises StoreUnavailable if there is something at a path."""
    if os.path.lexists(path):
        raise StoreUnavailable(f"{path} exists and is not overwritten; move it away or choose another name")


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A private empty file that gets the name `target`, safely on disk, when the context ends without an exception."""
    copy = target.with_name(f".{target.name}.unfinished-{os.getpid()}")
    copy.unlink(missing_ok=True)
    create_private(copy)
    try:
        yield copy
        with copy.open("rb") as stream:
            os.fsync(stream.fileno())
        _give_name(copy, target)
        sync_directory(target.parent)
    finally:
        copy.unlink(missing_ok=True)


def _give_name(copy: Path, target: Path) -> None:
    """Rename, but never over something that came meanwhile."""
    try:
        os.link(copy, target)
    except FileExistsError:
        refuse_existing(target)
    except PermissionError:  # a file system without hard links
        refuse_existing(target)
        shutil.move(copy, target)


def _copy_pages(source: sqlite3.Connection, target: Path, copied: Copied) -> None:
    with contextlib.closing(connect(target, "rw")) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = OFF").fetchone()
        source.backup(
            connection, pages=_PAGES_PER_STEP, progress=lambda _status, left, total: copied(total - left, total)
        )


def _examine_copy(copy: Path) -> Examination:
    with snapshot(copy, is_idle=True) as connection:
        return examined(copy, connection, lambda _: None)


def _raise_revision(copy: Path) -> None:
    """Let the revision begin far above everything that clients can have seen."""
    with contextlib.closing(connect(copy, "rw")) as connection:
        if form_version(connection) == 1:
            migrate(connection)
        contents = verified(copy, connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "DELETE FROM log WHERE deleted = 1 OR revision IN (SELECT previous_revision FROM log INDEXED BY log_facts)"
        )
        write_summary(connection, summarize(connection, contents.revision + REVISION_JUMP))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _as_report_of(report: StoreReport, path: Path) -> StoreReport:
    return dataclasses.replace(report, path=path)
