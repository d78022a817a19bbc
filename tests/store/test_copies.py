"""Checking, backing up, restoring, compacting and repairing store files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from bayplan.store.errors import StoreCorrupt, StoreLocked, StoreUnavailable
from bayplan.store.interface import KeyValue
from bayplan.store.sqlite.copies import backup, check, compact, restore
from bayplan.store.sqlite.repair import REVISION_JUMP, RepairError, repair
from bayplan.store.sqlite.store import SqliteStore
from bayplan.testing.clock import ManualClock
from bayplan.testing.store_conformance import Recorder
from tests.store.test_sqlite import fill, in_store, opened


def items_of(path: Path) -> list[KeyValue]:
    found: list[KeyValue] = []

    async def read(store: SqliteStore) -> None:
        found.extend((await store.range("/", "0")).items)

    in_store(path, read)
    return found


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    """Damage the first place in a closed file that has these bytes."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed store with one more key, the value of which is easily found in the file."""
    path = tmp_path / "store.db"

    async def write(store: SqliteStore) -> None:
        await fill(store)
        await store.put("/secret", b"older value of the secret")
        await store.put("/secret", b"newer value of the secret")
        await store.put("/last", b"1")

    in_store(path, write)
    return path


def test_a_check_of_an_intact_store_counts_and_changes_nothing(filled: Path) -> None:
    before = sorted((one.name, one.read_bytes()) for one in filled.parent.iterdir() if one.suffix != ".lock")
    checked = check(filled)
    report = checked.report
    assert (report.is_intact, report.objects, report.records, report.revision) == (True, 272, 633, 633)
    assert not checked.is_in_use
    after = sorted((one.name, one.read_bytes()) for one in filled.parent.iterdir() if one.suffix != ".lock")
    assert after == before


def test_a_store_in_use_can_be_checked_and_backed_up(tmp_path: Path) -> None:
    path, target = tmp_path / "store.db", tmp_path / "backup.db"

    async def scenario(store: SqliteStore) -> None:
        stop = asyncio.Event()
        rounds: asyncio.Queue[None] = asyncio.Queue()

        async def write() -> None:
            while not stop.is_set():
                await asyncio.gather(*[store.put(f"/k/{number}", os.urandom(2000)) for number in range(20)])
                rounds.put_nowait(None)

        writer = asyncio.create_task(write())
        for _ in range(5):
            await rounds.get()
        checked = await asyncio.to_thread(check, path)
        report = await asyncio.to_thread(backup, path, target)
        for _ in range(rounds.qsize() + 2):
            await rounds.get()
        stop.set()
        await writer
        assert checked.is_in_use
        assert checked.report.is_intact
        assert (report.is_intact, report.objects) == (True, 20)
        assert checked.report.revision <= report.revision < store.revision

    in_store(path, scenario)
    assert target.stat().st_mode & 0o777 == 0o600
    assert len(items_of(target)) == 20
    assert {one.name for one in tmp_path.iterdir()} == {"store.db", "store.db.lock", "backup.db", "backup.db.lock"}


def test_a_backup_overwrites_nothing_and_leaves_nothing_half_done(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_bytes(b"mine")
    with pytest.raises(StoreUnavailable, match=r"backup\.db exists and is not overwritten"):
        backup(filled, target)
    assert target.read_bytes() == b"mine"
    target.unlink()
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable, match="exists"):
        backup(filled, target)
    with pytest.raises(StoreUnavailable, match="nowhere"):
        backup(filled, tmp_path / "nowhere" / "backup.db")
    assert not [one for one in tmp_path.iterdir() if "unfinished" in one.name]


def test_a_backup_of_a_damaged_store_names_what_is_lost(filled: Path, tmp_path: Path) -> None:
    overwrite(filled, b"newer value", b"newer vaIue")
    with pytest.raises(StoreCorrupt, match=r"/secret \(revision 632\)"):
        backup(filled, tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()


def test_a_restored_store_has_the_same_objects_and_a_higher_revision(filled: Path, tmp_path: Path) -> None:
    target, restored = tmp_path / "backup.db", tmp_path / "new" / "store.db"
    backup(filled, target)
    report = restore(target, restored)
    assert report.revision == 633 + REVISION_JUMP
    assert restored.stat().st_mode & 0o777 == 0o600
    assert items_of(restored) == items_of(filled)

    async def go_on(store: SqliteStore) -> None:
        assert store.revision == store.compacted_revision == report.revision
        recorder = Recorder()
        await store.watch("/", store.revision, recorder)
        assert await store.put("/secret", b"2", guard=632) == report.revision + 1
        await store.delete("/last")
        assert recorder.revisions == [report.revision + 1, report.revision + 2]
        await store.compact(store.revision)
        await store.put("/after", b"1")

    in_store(restored, go_on)
    assert check(restored).report.is_intact
    assert len(items_of(restored)) == 272


def test_restoring_overwrites_no_store_and_waits_for_no_cluster(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    backup(filled, target)
    before = filled.read_bytes()
    with pytest.raises(StoreUnavailable, match="exists and is not overwritten"):
        restore(target, filled)
    assert filled.read_bytes() == before

    async def in_use(store: SqliteStore) -> None:
        with pytest.raises(StoreLocked, match=str(os.getpid())):
            restore(target, filled)

    in_store(filled, in_use)


def test_a_damaged_backup_is_not_restored(filled: Path, tmp_path: Path) -> None:
    target, restored = tmp_path / "backup.db", tmp_path / "restored.db"
    backup(filled, target)
    overwrite(target, b"newer value", b"newer vaIue")
    with pytest.raises(StoreCorrupt, match=r"/secret \(revision 632\)"):
        restore(target, restored)
    assert not restored.exists()
    target.write_bytes(b"something else")
    with pytest.raises(StoreCorrupt, match="not a Bayplan store"):
        restore(target, restored)


def test_compacting_makes_the_file_small_and_keeps_the_objects(filled: Path) -> None:
    before = items_of(filled)
    done = compact(filled)
    assert done.revision == 633
    assert done.size < done.size_before
    assert items_of(filled) == before
    assert check(filled).report.records == 272

    async def in_use(store: SqliteStore) -> None:
        with pytest.raises(StoreLocked):
            compact(filled)

    in_store(filled, in_use)


def test_a_lost_object_is_named_and_never_replaced_by_its_past(filled: Path) -> None:
    overwrite(filled, b"newer value", b"newer vaIue")
    with pytest.raises(StoreCorrupt) as caught:
        asyncio.run(opened(filled))
    assert caught.value.lost == (("/secret", 632),)
    for text in ("1 object is lost", "/secret (revision 632)", "bayplan store check", "--repair", "restore"):
        assert text in str(caught.value)
    others = [one for one in items_after_repair(filled) if one.key != "/last"]
    assert len(others) == 270
    assert not any(one.key == "/secret" for one in others)


def items_after_repair(path: Path) -> list[KeyValue]:
    done = repair(path, accept_unknown=False)
    assert done.aside is not None
    assert b"newer vaIue" in done.aside.read_bytes()
    assert done.revision > done.report.revision
    assert [one.key for one in done.report.lost] == ["/secret"]
    assert check(path).report.is_intact
    assert path.stat().st_mode & 0o777 == 0o600
    return items_of(path)


def test_a_damaged_past_loses_no_object(filled: Path) -> None:
    overwrite(filled, b"older value", b"older vaIue")
    with pytest.raises(StoreCorrupt, match="past are damaged") as caught:
        asyncio.run(opened(filled))
    assert caught.value.lost == ()
    assert repair(filled, accept_unknown=False).objects == 272
    assert {one.key: one.value for one in items_of(filled)}["/secret"] == b"newer value of the secret"


def test_damage_beside_the_records_is_repaired_without_loss(filled: Path) -> None:
    was = items_of(filled)
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA journal_mode = DELETE")
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'log_facts'").fetchone()[0]
    connection.close()
    data = bytearray(filled.read_bytes())
    data[(root - 1) * 8192 : (root - 1) * 8192 + 100] = bytes(100)
    filled.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="no object is lost"):
        asyncio.run(opened(filled))
    done = repair(filled, accept_unknown=False)
    assert (done.revision, done.objects) == (633, 272)
    assert items_of(filled) == was


def test_records_lost_without_a_trace_need_consent(filled: Path) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("DELETE FROM log WHERE revision = 632")
    connection.commit()
    connection.close()
    with pytest.raises(RepairError, match=r"revision 632 is missing(.|\n)*--accept-unknown"):
        repair(filled, accept_unknown=False)
    assert not check(filled).report.is_intact
    assert repair(filled, accept_unknown=True).report.missing == ((632, 632),)
    assert len(items_of(filled)) == 272


def test_a_repair_that_was_interrupted_is_named(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overwrite(filled, b"newer value", b"newer vaIue")

    class Killed(BaseException):
        pass

    def killed(path: Path, target: Path) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(
            Path,
            "replace",
            lambda path, target: killed(path, target) if ".repaired" in path.name else os.replace(path, target),
        )
        with pytest.raises(Killed):
            repair(filled, accept_unknown=False)
    with pytest.raises(StoreCorrupt, match=r"interrupted: rename store\.db\.repaired to store\.db"):
        asyncio.run(opened(filled))
    filled.with_name("store.db.repaired").replace(filled)
    assert len(items_of(filled)) == 271


def test_damage_that_is_met_while_running_is_an_error(filled: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        connection = sqlite3.connect(filled)
        connection.execute("UPDATE log SET value = replace(value, 'newer', 'never') WHERE revision = 632")
        connection.execute("UPDATE log SET value = replace(value, 'older', 'colder') WHERE revision = 631")
        connection.execute("UPDATE log SET previous_revision = 5 WHERE revision = 600")
        connection.commit()
        connection.close()
        with pytest.raises(StoreCorrupt, match=r"/secret \(revision 632\)"):
            await store.get("/secret")
        with pytest.raises(StoreCorrupt, match="/secret"):
            await store.watch("/", 620, Recorder())
        with pytest.raises(StoreCorrupt, match="/k/"):
            await store.range("/", "0", revision=500)
        with pytest.raises(StoreCorrupt, match="/secret"):
            await store.put("/secret", b"3")
        found = await store.get("/last")
        assert found is not None
        assert found.value == b"1"

    in_store(filled, scenario)


VERSION_1 = (
    "CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, create_revision INTEGER NOT NULL,"
    " previous_revision INTEGER NOT NULL, expires REAL, deleted INTEGER NOT NULL)",
    "CREATE INDEX log_facts ON log (revision, key, create_revision, previous_revision, expires, deleted)",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('compacted', 4)",
    "PRAGMA application_id = 0x42415950",
    "PRAGMA user_version = 1",
)


def make_version_1(path: Path) -> None:
    """A store as versions without checksums made it: /a was written at 2 and 6, /b at 4, /c at 5 with a deadline, /d deleted."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    for statement in VERSION_1:
        connection.execute(statement)
    rows = [
        (2, "/a", b"a" * 9000, 2, 0, None, 0),
        (3, "/d", b"d", 3, 0, None, 0),
        (4, "/b", b"", 4, 0, None, 0),
        (5, "/c", b"c", 5, 0, 5000.5, 0),
        (6, "/a", b"new", 2, 2, None, 0),
        (7, "/d", None, 3, 3, None, 1),
    ]
    connection.executemany("INSERT INTO log VALUES (?,?,?,?,?,?,?)", rows)
    connection.close()


def test_a_store_of_version_1_is_brought_to_the_current_form(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_version_1(path)
    clock = ManualClock()

    async def read(store: SqliteStore) -> None:
        assert (store.revision, store.compacted_revision) == (7, 4)
        items = [
            (one.key, one.value, one.create_revision, one.mod_revision) for one in (await store.range("/", "0")).items
        ]
        assert items == [("/a", b"new", 2, 6), ("/b", b"", 4, 4), ("/c", b"c", 5, 5)]
        past = await store.range("/", "0", revision=5)
        assert [(one.key, one.mod_revision) for one in past.items] == [("/a", 2), ("/b", 4), ("/c", 5), ("/d", 3)]
        recorder = Recorder()
        await store.watch("/", 8, recorder)
        clock.advance(max(0.0, 5001 - clock.now()))
        await recorder.until(8)
        assert (recorder.events[0].key, recorder.events[0].value) == ("/c", None)

    in_store(path, read, clock=clock)
    assert check(path).report.is_intact
    in_store(path, read_revision_8)


async def read_revision_8(store: SqliteStore) -> None:
    assert store.revision == 8


@pytest.mark.parametrize(
    "statement", ["DELETE FROM log WHERE revision = 5", "DELETE FROM meta", "DROP INDEX log_facts"]
)
def test_a_damaged_store_of_version_1_is_refused_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "store.db"
    make_version_1(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute(statement)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt):
        asyncio.run(opened(path))
    assert path.read_bytes() == before


def test_an_interrupted_migration_leaves_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    make_version_1(path)

    def failing(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bayplan.store.sqlite.schema.summarize", failing)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(opened(path))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (6,)
    connection.close()
    assert len(items_of(path)) == 3


def test_a_record_that_compaction_kept_is_missed(filled: Path) -> None:
    """Table and index agree that it never was there; only the count of what was kept tells."""
    compact(filled)
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("DELETE FROM log WHERE key = '/secret'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreCorrupt, match="up to 1 further objects are lost"):
        asyncio.run(opened(filled))
    assert not check(filled).report.is_intact


def damage_index(path: Path, key: bytes) -> None:
    """Change a key in the index alone: in all pages that are leaves of an index."""
    data = bytearray(path.read_bytes())
    for start in range(0, len(data), 8192):
        if data[start] == 0x0A:
            data[start : start + 8192] = data[start : start + 8192].replace(key, b"/z/" + key[3:])
    path.write_bytes(data)


def test_a_key_that_is_damaged_in_the_index_hides_no_change(filled: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        damage_index(filled, b"/k/251")
        with pytest.raises(StoreCorrupt, match="differ from the index"):
            await store.range("/k/", "/k0", revision=500)

    in_store(filled, scenario)


def test_compaction_deletes_nothing_by_a_damaged_index(filled: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        damage_index(filled, b"/k/251")
        with pytest.raises(StoreCorrupt, match="differ from the index"):
            await store.compact(600)
        found = await store.get("/k/251")
        assert found is not None
        assert found.value == b"2" * 500

    in_store(filled, scenario)
