"""What a SQLite store sees in its file before it trusts it: a log that was not folded in, tables of somebody else, damage at its very bounds."""

from __future__ import annotations

import asyncio
import sqlite3
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bayplan.store.errors import StoreCorrupt
from bayplan.store.settings import SqliteSettings
from bayplan.store.sqlite import file
from bayplan.store.sqlite.contents import opened_contents
from bayplan.store.sqlite.load import Damage, check_header
from bayplan.store.sqlite.open import is_damage
from bayplan.store.sqlite.store import SqliteStore
from bayplan.store.sqlite.wal import wal_error
from bayplan.testing.clock import ManualClock
from tests.store.test_copies import make_version_1
from tests.store.test_sqlite import in_store, refusal

PAGE = 512
SALTS, OTHER_SALTS = b"12345678", b"87654321"
DIRECT = SqliteSettings(value_cache_bytes=0)


def change(path: Path, statement: str) -> None:
    """Do something to a file behind the back of its store."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


def log_of(path: Path, frames: Sequence[tuple[int, bool, bytes]], valid: int) -> Path:
    """A database with a log of such frames (page, whether it ends a transaction, salts), the first few of which SQLite found valid."""
    first = second = 0
    words = (0x377F0683, 3007000, PAGE, 0, *struct.unpack(">2I", SALTS))
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    log = struct.pack(">8I", *words, first, second)
    for page, ends, salts in frames:
        log += struct.pack(">2I", page, 9 if ends else 0) + salts + bytes(8) + bytes(PAGE)
    path.with_name(f"{path.name}-wal").write_bytes(log)
    path.with_name(f"{path.name}-shm").write_bytes(bytes(16) + valid.to_bytes(4, sys.byteorder) + bytes(28))
    return path


@pytest.mark.parametrize(
    ("frames", "valid", "is_damaged"),
    [
        pytest.param([(1, True, SALTS)], 1, False, id="all is valid"),
        pytest.param([(1, True, SALTS), (2, True, SALTS)], 1, False, id="the last transaction is torn"),
        pytest.param([(1, False, SALTS), (2, True, SALTS)], 0, False, id="the only transaction is torn"),
        pytest.param([(1, False, SALTS), (2, False, SALTS)], 0, False, id="it has no end"),
        pytest.param([(1, True, SALTS), (2, False, SALTS)], 0, True, id="something follows a transaction that is dropped"),
        pytest.param([(1, False, SALTS), (1, False, SALTS)], 0, True, id="a page comes again"),
        pytest.param([(1, False, SALTS), (1, True, SALTS)], 0, False, id="a page comes again in the last frame"),
        pytest.param([(1, True, SALTS), (2, True, OTHER_SALTS)], 0, False, id="what follows is of an older log"),
    ],
)  # fmt: skip
def test_a_log_that_lost_what_was_acknowledged_is_damaged(
    tmp_path: Path, frames: list[tuple[int, bool, bytes]], valid: int, is_damaged: bool
) -> None:
    told = f"the write-ahead log is damaged after {valid} of {len(frames)} pages"
    assert wal_error(log_of(tmp_path / "store.db", frames, valid)) == (told if is_damaged else "")


def headed(path: Path, form: bytes, pages: int, size: int) -> Path:
    header = bytearray(100)
    header[:16], header[16:18], header[18:20] = b"SQLite format 3\0", PAGE.to_bytes(2, "big"), form
    header[28:32] = pages.to_bytes(4, "big")
    path.write_bytes(bytes(header) + bytes(size - 100))
    return path


@pytest.mark.parametrize(
    ("form", "log", "size", "damage"),
    [
        pytest.param(b"\2\2", None, 2 * PAGE, "", id="whole"),
        pytest.param(b"\2\2", None, 2 * PAGE - 1, "1023 bytes long instead of 1024", id="cut off"),
        pytest.param(b"\2\2", b"", 2 * PAGE - 1, "1023 bytes long instead of 1024", id="cut off, with an empty log"),
        pytest.param(b"\2\2", b"x", 2 * PAGE - 1, "", id="the log has the rest"),
        pytest.param(b"\1\1", b"x", 2 * PAGE, "there is no write-ahead log, but there is one", id="a log that is denied"),
        pytest.param(b"\1\1", b"", 2 * PAGE, "", id="an empty log"),
    ],
)  # fmt: skip
def test_the_header_tells_how_long_a_file_is_and_whether_it_has_a_log(
    tmp_path: Path, form: bytes, log: bytes | None, size: int, damage: str
) -> None:
    path = headed(tmp_path / "store.db", form, 2, size)
    if log is not None:
        path.with_name("store.db-wal").write_bytes(log)
    if damage:
        with pytest.raises(Damage, match=damage):
            check_header(path)
    else:
        assert check_header(path)


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    change(path, "CREATE TABLE theirs (a)")
    assert "application id" in str(refusal(path))


@pytest.mark.parametrize(
    ("compacted", "gone", "missing"),
    [
        pytest.param(7, 0, 0, id="compacted to its last revision"),
        pytest.param(8, 0, 8, id="compacted further than there is"),
        pytest.param(5, 4, 0, id="a gap in front of the compacted revision"),
        pytest.param(3, 4, 4, id="a gap behind it"),
    ],
)
def test_a_store_of_version_1_has_everything_after_its_compaction(
    tmp_path: Path, compacted: int, gone: int, missing: int
) -> None:
    path = tmp_path / "store.db"
    make_version_1(path)
    change(path, f"UPDATE meta SET value = {compacted}")
    change(path, f"DELETE FROM log WHERE revision = {gone}")

    async def read(store: SqliteStore) -> None:
        assert (store.revision, store.compacted_revision) == (7, compacted)

    if missing:
        assert f"revision {missing} is missing" in str(refusal(path))
    else:
        in_store(path, read)


@pytest.mark.parametrize(
    ("message", "code", "expected"),
    [
        ("database disk image is malformed", sqlite3.SQLITE_CORRUPT, True),
        ("Could not decode to UTF-8 column 'key'", 0, True),
        ("no such table: log", sqlite3.SQLITE_ERROR, False),
        ("database is locked", sqlite3.SQLITE_BUSY, False),
    ],
)
def test_which_errors_mean_damage(message: str, code: int, expected: bool) -> None:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    assert is_damage(error) is expected


@pytest.mark.parametrize(("later", "left"), [(9.0, [1.0]), (10.0, []), (11.0, [])])
def test_what_has_ended_is_not_copied(tmp_path: Path, later: float, left: list[float]) -> None:
    path, clock = tmp_path / "store.db", ManualClock()

    async def put(store: SqliteStore) -> None:
        await store.put("/a", b"1", ttl=10)
        await store.put("/b", b"2")

    async def seconds() -> list[float | None]:
        with opened_contents(path, clock.now() + later) as contents:
            return [entry.seconds async for page in contents.pages() for entry in page]

    in_store(path, put, clock=clock)
    assert asyncio.run(seconds()) == [*left, None]


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "served: /0 (revision 1); "),
        (2, "served: /0 (revision 1), /1 (revision 2); "),
        (3, "served: /0 (revision 1), /1 (revision 2) and 1 more; "),
    ],
)
def test_the_first_damaged_records_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, told: str
) -> None:
    monkeypatch.setattr(file, "_NAMED", 2)
    path = tmp_path / "store.db"

    async def read(store: SqliteStore) -> None:
        for number in range(3):
            await store.put(f"/{number}", b"1")
        change(path, f"UPDATE log SET value = x'32' WHERE revision <= {count}")
        with pytest.raises(StoreCorrupt) as caught:
            await store.range("/", "0")
        assert told in str(caught.value)
        assert caught.value.lost == tuple((f"/{number}", number + 1) for number in range(count))

    in_store(path, read, settings=DIRECT)


def test_a_current_value_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def read(store: SqliteStore) -> None:
        for key in ("/a", "/b", "/c"):
            await store.put(key, b"1")
        change(path, "DELETE FROM log WHERE revision = 2")
        with pytest.raises(StoreCorrupt, match="such as that of /b") as caught:
            await store.range("/", "0")
        assert caught.value.lost == (("/b", 2),)

    in_store(path, read, settings=DIRECT)


@pytest.mark.parametrize(
    ("header", "rest", "told"),
    [
        pytest.param(bytes(32), bytes(24 + PAGE), "", id="nothing was written yet"),
        pytest.param(bytes(32), bytes(PAGE) + b"x" * 24, "the header of the write-ahead log is damaged", id="it was"),
        pytest.param(b"x" * 32, bytes(24 + PAGE), "the header of the write-ahead log is damaged", id="no header"),
        pytest.param(b"x" * 32, bytes(24), "", id="no page fits in"),
        pytest.param(b"x" * 32, bytes(25), "the header of the write-ahead log is damaged", id="one fits in"),
    ],
)
def test_a_log_whose_header_was_not_written_has_nothing_in_it(
    tmp_path: Path, header: bytes, rest: bytes, told: str
) -> None:
    (tmp_path / "store.db-wal").write_bytes(header + rest)
    assert wal_error(tmp_path / "store.db") == told


class Pragmas:
    """A connection to a file with so many pages, and what it is told to do."""

    def __init__(self, pages: int, free: int) -> None:
        self._known = {"PRAGMA freelist_count": free, "PRAGMA page_count": pages}
        self.told: list[str] = []

    def execute(self, statement: str) -> Pragmas:
        self._found = self._known.get(statement, 0)
        if statement not in self._known:
            self.told.append(statement.removeprefix("PRAGMA "))
        return self

    def fetchone(self) -> tuple[int]:
        return (self._found,)

    def fetchall(self) -> list[tuple[int]]:
        return [(self._found,)]


@pytest.mark.parametrize(
    ("pages", "free", "told", "remains"),
    [
        pytest.param(300, 127, ["shrink_memory"], False, id="little is free"),
        pytest.param(300, 128, ["shrink_memory"], False, id="as much as may be free"),
        pytest.param(300, 129, ["incremental_vacuum(1)", "shrink_memory"], False, id="a page more"),
        pytest.param(300, 138, ["incremental_vacuum(10)", "shrink_memory"], False, id="as many as are cut off at a time"),
        pytest.param(300, 139, ["incremental_vacuum(10)"], True, id="more"),
        pytest.param(1000, 200, ["shrink_memory"], False, id="a fifth of a large file"),
        pytest.param(1000, 201, ["incremental_vacuum(2)", "shrink_memory"], False, id="more than that"),
    ],
)  # fmt: skip
def test_pages_that_are_free_are_cut_off(pages: int, free: int, told: list[str], remains: bool, tmp_path: Path) -> None:
    connection = Pragmas(pages, free)
    store_file = file.SqliteFile(tmp_path / "store.db", SqliteSettings())
    store_file._writer = connection  # type: ignore[assignment]
    assert store_file.give_back(10) is remains
    assert connection.told == told
