"""What only the SQLite store promises: durability, damage control, refusing to share, staying small."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.store.errors import Compacted, StoreClosed, StoreCorrupt, StoreError, StoreLocked, StoreUnavailable
from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.file import SqliteFile
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock
from bayplan.testing.clock import ManualClock
from bayplan.testing.store_conformance import Recorder


async def opened(path: Path, clock: ManualClock | None = None, settings: SqliteSettings | None = None) -> SqliteStore:
    store = SqliteStore(path, clock=clock or ManualClock(), settings=settings)
    await store.open()
    return store


def in_store(
    path: Path,
    scenario: Callable[[SqliteStore], Awaitable[None]],
    *,
    clock: ManualClock | None = None,
    settings: SqliteSettings | None = None,
) -> None:
    """Open the store, run the scenario, close the store."""

    async def run() -> None:
        store = await opened(path, clock, settings)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())


async def fill(store: SqliteStore) -> None:
    """300 keys, each written twice, one in ten deleted: 630 revisions."""
    for value in (b"1" * 500, b"2" * 500):
        await asyncio.gather(*[store.put(f"/k/{number:03d}", value) for number in range(300)])
    await asyncio.gather(*[store.delete(f"/k/{number:03d}") for number in range(0, 300, 10)])


def refusal(path: Path) -> StoreError:
    """The error with which the store does not open; nothing may be left locked or changed by it."""
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError) as caught:
        asyncio.run(opened(path))
    assert (path.read_bytes() if path.is_file() else b"") == before
    return caught.value


def test_restart_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    in_store(path, fill)

    async def check(store: SqliteStore) -> None:
        assert (store.revision, store.compacted_revision) == (630, 0)
        result = await store.range("/k/", "/k0")
        assert (result.count, result.items[0].key, result.items[0].value) == (270, "/k/001", b"2" * 500)
        assert (result.items[0].create_revision, result.items[0].mod_revision) == (2, 302)
        assert (await store.range("/k/", "/k0", revision=300)).items[0].value == b"1" * 500
        recorder = Recorder()
        await store.watch("/k/", 1, recorder)
        assert recorder.revisions == list(range(1, 631))
        assert await store.put("/k/001", b"3", guard=302) == 631
        assert (recorder.events[-1].previous, recorder.events[-1].previous_revision) == (b"2" * 500, 302)

    in_store(path, check)


def test_restart_keeps_compaction(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def compact(store: SqliteStore) -> None:
        await fill(store)
        await store.compact(629)

    in_store(path, compact)

    async def check(store: SqliteStore) -> None:
        assert (store.revision, store.compacted_revision) == (630, 629)
        with pytest.raises(Compacted):
            await store.range("/", "0", revision=628)
        assert (await store.range("/k/", "/k0")).count == 270

    in_store(path, check)


def test_restart_keeps_times_to_live(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", ManualClock()

    async def write(store: SqliteStore) -> None:
        await store.put("/overdue", b"1", ttl=10)
        await store.put("/later", b"2", ttl=100)
        await store.put("/ever", b"3", ttl=10)
        await store.put("/ever", b"4")

    in_store(path, write, clock=clock)
    clock.advance(50)

    async def check(store: SqliteStore) -> None:
        recorder = Recorder()
        await store.watch("/", 5, recorder)
        clock.advance(0)
        await recorder.until(5)
        clock.advance(51)
        await recorder.until(6)
        assert [(event.key, event.value) for event in recorder.events] == [("/overdue", None), ("/later", None)]
        assert [item.key for item in (await store.range("/", "0")).items] == ["/ever"]

    in_store(path, check, clock=clock)


def test_a_second_instance_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def check(store: SqliteStore) -> None:
        await store.put("/a", b"1")
        with pytest.raises(StoreLocked, match=rf"{path} is in use by process {os.getpid()}"):
            await opened(path)
        assert await store.put("/a", b"2") == 2

    in_store(path, check)
    in_store(path, check_revision(2))


def check_revision(revision: int) -> Callable[[SqliteStore], Awaitable[None]]:
    async def check(store: SqliteStore) -> None:
        assert store.revision == revision

    return check


def test_missing_directories_are_made(tmp_path: Path) -> None:
    path = tmp_path / "not" / "yet" / "store.db"
    in_store(path, fill)
    assert path.is_file()


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "store.db", Path("/proc/nowhere/store.db"), tmp_path):
        with pytest.raises(StoreUnavailable, match=str(path.parent)) as caught:
            asyncio.run(opened(path))
        assert not isinstance(caught.value, StoreLocked | StoreCorrupt)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"hello", "not a SQLite database"), (b"x" * 100_000, "not a SQLite database"), (b"SQLite format 3\0", "not a")],
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    error = refusal(path)
    assert isinstance(error, StoreCorrupt)
    assert str(path) in str(error)
    assert reason in str(error)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("PRAGMA application_id = 7", "application id"),
        ("PRAGMA user_version = 99", "version 99"),
        ("DROP TABLE meta", "lacks meta"),
        ("DROP INDEX log_facts", "lacks log_facts"),
        ("DELETE FROM meta", "compacted"),
        ("DELETE FROM log WHERE revision = 400", "revision 400 is missing"),
        ("DELETE FROM log WHERE revision = 1", "revision 1 is missing"),
        ("UPDATE meta SET value = 1000", "the compacted revision is damaged"),
    ],
)
def test_a_tampered_database_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    path = tmp_path / "store.db"
    in_store(path, fill)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute(statement)
    connection.commit()
    connection.close()
    error = refusal(path)
    assert isinstance(error, StoreCorrupt)
    assert reason in str(error)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    in_store(path, fill)
    whole = path.read_bytes()
    for part in (0.1, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * part)])
        assert isinstance(refusal(path), StoreCorrupt)
    path.write_bytes(whole)
    in_store(path, check_revision(630))


def test_damaged_pages_never_go_unnoticed_as_missing_keys(tmp_path: Path) -> None:
    """Whatever 8 KiB page is overwritten: the store refuses to open or to read, or all is still there."""
    path = tmp_path / "store.db"
    in_store(path, fill)
    whole = path.read_bytes()
    outcomes: set[str] = set()
    for start in range(0, len(whole), 8192):
        path.write_bytes(whole[:start] + b"\xa5" * 8192 + whole[start + 8192 :])
        try:
            in_store(path, check_complete)
            outcomes.add("complete")
        except StoreCorrupt:
            outcomes.add("refused")
    assert "refused" in outcomes


async def check_complete(store: SqliteStore) -> None:
    result = await store.range("/k/", "/k0")
    assert result.count == len(result.items) == 270
    assert all(item.value == b"2" * 500 for item in result.items)


def test_a_torn_write_ahead_log_loses_only_its_torn_end(tmp_path: Path) -> None:
    """A copy made while the store is open has its newest writes in the write-ahead log only."""
    path = tmp_path / "store.db"
    copy = tmp_path / "copy.db"
    log, copied_log = Path(f"{path}-wal"), Path(f"{copy}-wal")

    async def write(store: SqliteStore) -> None:
        for number in range(1, 51):
            await store.put("/a", b"%d" % number * 100)
        shutil.copy(path, copy)
        shutil.copy(log, copied_log)

    in_store(path, write)
    whole = copied_log.read_bytes()
    pristine = copy.read_bytes()
    last = 51
    for size in range(len(whole), 32, -7001):
        for suffix in ("-shm", ".lock"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
        copy.write_bytes(pristine)
        copied_log.write_bytes(whole[:size] + b"\xff" * 100)

        async def check(store: SqliteStore) -> None:
            nonlocal last
            assert store.revision <= last
            last = store.revision
            if last:
                found = await store.get("/a")
                assert found is not None
                assert found.value == b"%d" % last * 100

        in_store(copy, check)
    assert last < 50


def test_a_start_killed_before_its_first_commit_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    in_store(path, fill)
    path.unlink()
    path.touch()
    in_store(path, fill)
    in_store(path, check_revision(630))


SMALL = SqliteSettings(max_size_bytes=400_000, compaction_step=10, history=HistorySettings(automatic=False))


def test_a_full_disk_fails_writes_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def overfill(store: SqliteStore) -> None:
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        stored = 0
        failure = ""
        while not failure:
            try:
                stored = await store.put("/a", b"x" * 5000, guard=stored)
            except StoreUnavailable as error:
                failure = str(error)
        assert "full" in failure
        assert "full" in store.write_error
        assert 20 < stored == store.revision
        outcomes = await asyncio.gather(
            *[store.put(f"/b/{number}", b"x" * 5000) for number in range(20)],
            store.delete("/a", guard=stored),
            return_exceptions=True,
        )
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        found = await store.get("/a")
        assert found is not None
        assert found.mod_revision == stored == store.revision
        assert recorder.revisions == list(range(1, stored + 1))
        await store.compact(stored)
        assert await store.put("/a", b"y", guard=stored) == stored + 1
        assert store.write_error == ""
        assert recorder.revisions == list(range(1, stored + 2))

    in_store(path, overfill, settings=SMALL)

    async def check(store: SqliteStore) -> None:
        found = await store.get("/a")
        assert found is not None
        assert (found.value, found.mod_revision) == (b"y", store.revision)

    in_store(path, check)


def test_a_disk_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class LaterClock(SystemClock):
        later = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.later

    answers = threading.Event()
    append = SqliteFile.append

    def hanging(*arguments: Any) -> Any:
        answers.wait(20)
        return append(*arguments)

    async def run() -> None:
        clock = LaterClock()
        store = SqliteStore(tmp_path / "store.db", clock=clock)
        await store.open()
        monkeypatch.setattr(SqliteFile, "append", hanging)
        writing = asyncio.create_task(store.put("/a", b"x"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store.write_error == ""
        clock.later = 11.0
        assert "has been waiting for the disk for 11 seconds" in store.write_error
        answers.set()
        await writing
        assert store.write_error == ""
        await store.close()

    asyncio.run(run())


def test_writes_that_build_on_a_failed_one_fail_too(tmp_path: Path) -> None:
    """The second batch gathers while the first is being written, with guards that rest on it."""

    async def check(store: SqliteStore) -> None:
        first = asyncio.ensure_future(store.put("/a", b"x" * 1_000_000))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = asyncio.ensure_future(store.put("/a", b"small", guard=1))
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable, StoreUnavailable]
        assert await store.get("/a") is None
        assert await store.put("/a", b"small", guard=0) == 1

    in_store(tmp_path / "store.db", check, settings=SMALL)


def test_what_has_begun_fails_with_what_it_builds_on(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        large = store.submit("/a", b"x" * 1_000_000, guard=0)
        large.committed.cancel()
        gone = store.submit("/a", None, guard=large.revision)
        with pytest.raises(StoreUnavailable):
            await gone.committed
        assert store.pending("/a") is None
        assert await store.put("/a", b"small", guard=0) == 1
        del large, gone
        gc.collect()
        assert not told

    in_store(tmp_path / "store.db", check, settings=SMALL)


def test_a_store_that_need_not_tell_previous_values_reads_what_is_current(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        for number in range(1, 4):
            await store.put("/a", b"%d" % number)
            found = await store.get("/a")
            assert found is not None
            assert found.value == b"%d" % number
        writes = [store.submit("/a", b"%d" % number, guard=number - 1) for number in range(4, 7)]
        assert [await one.committed for one in writes] == [4, 5, 6]
        items = (await store.range("/", "0")).items
        assert [one.value for one in items] == [b"6"]
        await store.delete("/a")
        assert await store.get("/a") is None
        assert [event.previous for event in recorder.events] == [None] * 7
        assert [event.previous_revision for event in recorder.events] == list(range(7))

    in_store(tmp_path / "store.db", check, settings=SqliteSettings(tells_previous=False))


def test_an_expiry_that_could_not_be_stored_is_tried_again(tmp_path: Path) -> None:
    clock = ManualClock()

    async def check(store: SqliteStore) -> None:
        await store.put("/a", b"1", ttl=10)
        recorder = Recorder()
        await store.watch("/", 2, recorder)
        blocker = asyncio.ensure_future(store.put("/b", b"x" * 1_000_000))
        await asyncio.sleep(0)
        clock.advance(10)
        with pytest.raises(StoreUnavailable):
            await blocker
        assert recorder.events == []
        clock.advance(5)
        await recorder.until(2)
        assert recorder.events[0].key == "/a"

    in_store(tmp_path / "store.db", check, clock=clock, settings=SMALL)


def test_history_goes_with_age(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = SqliteSettings(compaction_interval=30, history=HistorySettings(keep_seconds=300))

    async def check(store: SqliteStore) -> None:
        await fill(store)
        clock.advance(299)
        await store.put("/young", b"1")
        assert store.compacted_revision == 0
        clock.advance(62)
        assert store.compacted_revision == 630
        clock.advance(400)
        assert store.compacted_revision == 631
        assert clock.timers == 0, "an idle store has nothing to do"
        await store.put("/young", b"2")
        assert clock.timers == 1

    in_store(tmp_path / "store.db", check, clock=clock, settings=settings)


def test_history_and_file_stay_bounded_under_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    settings = SqliteSettings(checkpoint_pages=20, compaction_step=50, history=HistorySettings(keep_revisions=200))

    async def check(store: SqliteStore) -> None:
        sizes = []
        for round_number in range(30):
            await asyncio.gather(*[store.put(f"/k/{number}", b"x" * 2000) for number in range(100)])
            assert store.revision - store.compacted_revision <= 250 + 100
            if round_number >= 10:
                sizes.append(path.stat().st_size)
        assert max(sizes) < 3_000_000
        assert (await store.range("/k/", "/k0")).count == 100

    in_store(path, check, settings=settings)


def test_compaction_gives_space_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def grow(store: SqliteStore) -> None:
        for _ in range(20):
            await asyncio.gather(*[store.put(f"/k/{number}", b"x" * 4000) for number in range(100)])
        with contextlib.closing(sqlite3.connect(path)) as reader:
            assert pages(reader) > 700
            await store.compact(store.revision)
            async with asyncio.timeout(10):
                while pages(reader) > 300:  # noqa: ASYNC110 - another connection is asked, which has no events
                    await asyncio.sleep(0)

    in_store(path, grow)
    assert path.stat().st_size < 3_000_000
    in_store(path, check_revision(2000))


def pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA page_count").fetchone()[0])


def test_closing_ends_a_waiting_compaction(tmp_path: Path) -> None:
    async def run() -> None:
        store = await opened(tmp_path / "store.db", settings=SqliteSettings(compaction_step=1))
        await fill(store)
        compaction = asyncio.ensure_future(store.compact(600))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await compaction

    asyncio.run(run())


def test_a_saturated_loop_does_not_starve_writes(tmp_path: Path) -> None:
    """The loop never runs out of ready callbacks; the writing thread must get its turn within milliseconds all the
    same."""

    async def check(store: SqliteStore) -> None:
        clock_loop = asyncio.get_running_loop()
        done = False

        async def spin() -> None:
            while not done:
                until = clock_loop.time() + 0.0002
                while clock_loop.time() < until:
                    pass
                await asyncio.sleep(0)

        spinning = asyncio.ensure_future(spin())
        async with asyncio.timeout(10):
            for number in range(1, 101):
                assert await store.put("/a", b"x") == number
        done = True
        await spinning

    in_store(tmp_path / "store.db", check)


def test_batches_of_every_size_are_stored_whole(tmp_path: Path) -> None:
    sizes = [*range(1, 132), 255, 256, 257, 300]

    async def write() -> None:
        store = SqliteStore(tmp_path / "db", clock=SystemClock())
        await store.open()
        for size in sizes:
            await asyncio.gather(*(store.put(f"{size}/{index:03}", b"%d" % index, guard=0) for index in range(size)))
        await store.close()

    async def read() -> None:
        store = SqliteStore(tmp_path / "db", clock=SystemClock())
        await store.open()
        assert store.revision == sum(sizes)
        for size in sizes:
            found = await store.range(f"{size}/", f"{size}0")
            assert [(one.key, one.value) for one in found.items] == [
                (f"{size}/{index:03}", b"%d" % index) for index in range(size)
            ]
        await store.close()

    asyncio.run(write())
    asyncio.run(read())
