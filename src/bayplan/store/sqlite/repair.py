"""Going on after damage: a new file with everything that is intact takes the place of a damaged one, which is set aside.

If no record is damaged, the new file has all of them. Otherwise it has the current state only: an object whose newest
record is damaged is left out rather than shown as it was before, and the revision goes up by `REVISION_JUMP`, with all
before it compacted, so that clients list everything anew instead of believing that nothing happened.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from bayplan.store.checksums import has_intact_facts, has_intact_value
from bayplan.store.errors import StoreError
from bayplan.store.sqlite.connect import PAGE_SIZE, connect, lock_of, refusing, snapshot
from bayplan.store.sqlite.examine import Examination, Step, readable_records
from bayplan.store.sqlite.load import REPAIR_NOTE, load
from bayplan.store.sqlite.open import examined
from bayplan.store.sqlite.report import StoreReport
from bayplan.store.sqlite.schema import LOG_COLUMNS, create_tables, summarize, write_summary
from bayplan.support.system.private_files import create_private, sync_directory, write_private

REVISION_JUMP = 1_000_000_000
"""What a repaired or restored store adds to its revision, as etcd's guide proposes: more than the writes that are lost."""

_INSERT = f"INSERT OR IGNORE INTO log ({LOG_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"


class RepairError(StoreError):
    """The store cannot be repaired; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did."""

    report: StoreReport
    """The state of the file before."""
    aside: Path | None
    """Where the damaged file is now; None if nothing was damaged."""
    revision: int
    """The revision of the store now."""
    objects: int
    """Number of objects in it."""


def repair(path: Path, *, accept_unknown: bool, step: Step = lambda _: None) -> Repair:
    """Put a file with everything that is intact in the place of a damaged one. Raises RepairError, StoreError.

    accept_unknown: whether to go on if records are lost whose keys are unknown, so that objects may show an older state.
    """
    lock = lock_of(path)
    lock.acquire()
    try:
        with refusing(path, "repair it"), snapshot(path, is_idle=True) as connection:
            examination = examined(path, connection, step)
            report = examination.report
            if report.is_intact:
                return Repair(report, None, report.revision, report.objects)
            if not report.records and not examination.facts:
                raise RepairError(f"{path}: no record can be read, so there is nothing to keep. {_from_backup(path)}")
            if report.has_unknown_changes and not accept_unknown:
                lines = "\n".join(report.lines())
                raise RepairError(
                    f"{path}: records are lost whose keys are unknown, so objects may show an older state after a repair:\n"
                    f"{lines}\n{_from_backup(path)}, or accept that with --accept-unknown"
                )
            repaired = path.with_name(f"{path.name}.repaired")
            contents_revision, objects = _write(repaired, connection, examination, step)
        aside = _replace(path, repaired)
        return Repair(report, aside, contents_revision, objects)
    finally:
        lock.release()


def _from_backup(path: Path) -> str:
    return f"Move the file away and bring a backup back with `bayplan store restore FILE --store sqlite:{path}`"


def _write(target: Path, source: sqlite3.Connection, examination: Examination, step: Step) -> tuple[int, int]:
    """Make the new file; returns its revision and its number of objects."""
    keeps_all = examination.report.is_complete and examination.summary is not None
    newest = examination.newest()
    if keeps_all:
        wanted = set(examination.facts)
    else:
        wanted = {one.revision for one in newest.values() if not one.deleted and one.revision in examination.intact}
    for suffix in ("", "-journal", "-wal", "-shm"):
        target.with_name(f"{target.name}{suffix}").unlink(missing_ok=True)
    create_private(target)
    with contextlib.closing(connect(target, "rw")) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN IMMEDIATE")
        create_tables(connection)
        done = 0
        for row in readable_records(source, [""], wanted):
            if row[0] in wanted and has_intact_facts(row[:7], row[7]) and has_intact_value(row[8], row[6]):
                done += connection.execute(_INSERT, row).rowcount
                step(done)
        if keeps_all:
            for one in examination.facts.values():
                if one.deleted:
                    done += connection.execute(_INSERT, (*one, None)).rowcount
        if done != len(wanted):
            raise RepairError(
                f"{target}: {len(wanted) - done} records could not be read again; the disk may be failing"
            )
        compacted = examination.report.compacted if keeps_all else examination.report.revision + REVISION_JUMP
        write_summary(connection, summarize(connection, compacted))
        connection.execute("COMMIT")
    with contextlib.closing(connect(target, "immutable")) as connection:
        contents = load(connection)
    return contents.revision, len(contents.current)


def _replace(path: Path, repaired: Path) -> Path:
    """Set the damaged file aside and put the repaired one in its place. Whenever this is interrupted, there is a whole store
    under the name or a note that says what to do, never an old write-ahead log beside a new file."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    with refusing(path, "set the damaged file aside"):
        for suffix in ("", "-wal"):
            file = path.with_name(f"{path.name}{suffix}")
            if file.exists():
                _link(file, aside.with_name(f"{aside.name}{suffix}"))
        sync_directory(path.parent)
        write_private(path, REPAIR_NOTE + f"rename {repaired.name} to {path.name} to go on\n".encode().ljust(100))
        for suffix in ("-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        sync_directory(path.parent)
        repaired.replace(path)
        sync_directory(path.parent)
    return aside


def _link(file: Path, target: Path) -> None:
    """A second name for a file, or a copy where the file system has no such thing."""
    try:
        os.link(file, target)
    except PermissionError:
        shutil.copy2(file, target)
