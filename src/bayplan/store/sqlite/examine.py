"""Examining a store's file record by record, whatever its state: which records are intact, which are damaged, which are gone.

The facts of every record are in the file twice, in the table and in the index, so a damaged record can nearly always be
named. This is the slow path: opening an intact file does not come here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bayplan.store.checksums import has_intact_facts, has_intact_value
from bayplan.store.sqlite.connect import READ_ERRORS
from bayplan.store.sqlite.report import DamagedRecord, StoreReport
from bayplan.store.sqlite.schema import FACT_COLUMNS, LOG_COLUMNS, Summary, read_summary, schema_error

_STRUCTURE_ERRORS = 100
"""Most errors of the file's structure that are collected."""
_QUERIES = 20_000
"""Most queries spent on reading around damaged pages."""
_QUERIES_IN_VAIN = 1000
"""Most of them before the first row."""
_ROWS_PER_STEP = 5000

Step = Callable[[int], None]
"""Called now and then with the number of records read so far."""


class Facts(NamedTuple):
    """A record without its value."""

    revision: int
    key: str
    create_revision: int
    previous_revision: int
    expires: float | None
    deleted: int
    value_checksum: int
    checksum: int


@dataclass(slots=True)
class Examination:
    """Everything intact that a file has, and the report on the rest."""

    report: StoreReport
    facts: dict[int, Facts] = field(default_factory=dict)
    """By revision: every record whose facts are intact."""
    intact: set[int] = field(default_factory=set)
    """The revisions whose records are intact with their values."""
    summary: Summary | None = None
    """What the table `meta` says; None if that is damaged."""

    def newest(self) -> dict[str, Facts]:
        """The newest record of every key, deletions and damaged ones included."""
        return {one.key: one for _, one in sorted(self.facts.items())}


def examine(path: Path, connection: sqlite3.Connection, step: Step, log_error: str = "") -> Examination:
    """Read everything that can be read of a file of the current form. Raises nothing for damage; the caller holds a read
    transaction, if others write to the file.

    log_error: how the write-ahead log is damaged, if that is known.
    """
    errors = structure_errors(connection)
    try:
        if error := schema_error(connection):
            errors.append(error)
    except READ_ERRORS as failure:
        errors.append(str(failure))
    facts: dict[int, Facts] = {}
    intact: set[int] = set()
    for row in _tolerant(connection, f"SELECT {FACT_COLUMNS} FROM log INDEXED BY log_facts", errors, ()):
        if has_intact_facts(row[:7], row[7]):
            facts[row[0]] = Facts._make(row)
    indexed = len(facts)
    for row in readable_records(connection, errors, facts):
        if has_intact_facts(row[:7], row[7]):
            facts.setdefault(row[0], Facts._make(row[:8]))
            if has_intact_value(row[8], row[6]):
                intact.add(row[0])
        if len(intact) % _ROWS_PER_STEP == 0:
            step(len(intact))
    intact.update(one.revision for one in facts.values() if one.deleted)  # nothing but facts belongs to a deletion
    if not errors and indexed != len(facts):
        errors.append(f"the index has {indexed} of {len(facts)} records")
    return _judge(path, connection, facts, intact, errors, log_error)


def structure_errors(connection: sqlite3.Connection, limit: int = _STRUCTURE_ERRORS) -> list[str]:
    """What SQLite finds wrong with the pages of the file, index against table included; nothing if all is well."""
    try:
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({limit})")]
    except READ_ERRORS as error:
        return [str(error)]
    lines = [line for text in found for line in text.splitlines() if not line.startswith("***")]
    return [] if lines == ["ok"] else lines


def readable_records(
    connection: sqlite3.Connection, errors: list[str], known: Collection[int]
) -> Iterator[tuple[Any, ...]]:
    """All records (`LOG_COLUMNS`) that can be read, in no certain order, not verified. `known`: revisions to look for."""
    return _tolerant(connection, f"SELECT {LOG_COLUMNS} FROM log NOT INDEXED", errors, tuple(known))


def _tolerant(
    connection: sqlite3.Connection, select: str, errors: list[str], known: tuple[int, ...]
) -> Iterator[tuple[Any, ...]]:
    """All rows that can be read, in no certain order. Where a page is damaged, ranges of revisions around it are halved.

    known: revisions that the rows may have; the highest of them limits the search where the end of the table is damaged.
    """
    ranges = [(0, _last(connection, select, known))]
    queries = 0
    found = False
    while ranges and queries < (_QUERIES if found else _QUERIES_IN_VAIN):
        first, last = ranges.pop()
        queries += 1
        reached = first - 1
        try:
            for row in connection.execute(f"{select} WHERE revision BETWEEN ? AND ? ORDER BY revision", (first, last)):
                found = True
                if isinstance(row[0], int):
                    reached = max(reached, row[0])
                yield row
        except READ_ERRORS as error:
            if not errors:
                errors.append(str(error))
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) == sqlite3.SQLITE_ERROR:
                return  # the table or the index is not there at all
            start = reached + 1
            if first < start <= last:
                ranges.append((start, last))
            elif start <= last and first < last:
                middle = (start + last) // 2
                ranges += [(middle + 1, last), (start, middle)]


def _last(connection: sqlite3.Connection, select: str, known: tuple[int, ...]) -> int:
    """The highest revision to look for."""
    try:
        row = connection.execute(f"{select} ORDER BY revision DESC LIMIT 1").fetchone()
    except READ_ERRORS:
        row = None
    last = row[0] if row is not None and isinstance(row[0], int) else 0
    return max(last, max(known, default=0)) or 2**62


def _judge(
    path: Path,
    connection: sqlite3.Connection,
    facts: dict[int, Facts],
    intact: set[int],
    errors: list[str],
    log_error: str,
) -> Examination:
    try:
        summary = read_summary(connection)
    except READ_ERRORS:
        summary = None
    found = summary
    revisions = sorted(facts)
    newest = {facts[revision].key: revision for revision in revisions}
    damaged = tuple(
        DamagedRecord(facts[revision].key, revision, newest[facts[revision].key] == revision)
        for revision in revisions
        if revision not in intact
    )
    if summary is None:
        errors.append("the compacted revision is damaged")
        # Without it, gaps are damage only where something else is damaged as well.
        is_whole = len(errors) == 1 and not damaged
        summary = Summary(revisions[-1] if is_whole and revisions else 0, 0, 0)
        missing, missing_objects = _gaps(revisions, summary.compacted), 0
    else:
        missing = _gaps(revisions, summary.compacted)
        kept = [facts[revision].checksum for revision in revisions if revision <= summary.compacted]
        missing_objects = max(0, summary.kept - len(kept))
        if missing_objects and summary.compacted not in facts:
            missing.insert(0, (summary.compacted, summary.compacted))
        if not missing_objects and (len(kept), sum(kept)) != (summary.kept, summary.kept_checksums):
            errors.append("the records up to the compacted revision are not those that were kept")
    report = StoreReport(
        path,
        form_version=2,
        revision=max(revisions[-1] if revisions else 0, summary.compacted),
        compacted=summary.compacted,
        objects=sum(revision in intact and not facts[revision].deleted for revision in newest.values()),
        records=len(intact),
        structure_errors=tuple(errors),
        damaged=damaged,
        missing=tuple(missing),
        missing_objects=missing_objects,
        log_error=log_error,
    )
    return Examination(report, facts, intact, found)


def _gaps(revisions: list[int], compacted: int) -> list[tuple[int, int]]:
    """Ranges of revisions after the compacted one that are not there."""
    gaps = []
    last = compacted
    for revision in revisions:
        if revision > last + 1:
            gaps.append((last + 1, revision - 1))
        last = max(last, revision)
    return gaps
