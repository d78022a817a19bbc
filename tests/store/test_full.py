"""A store that cannot write says why, still reads, and goes on once it can."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.store.errors import StoreUnavailable
from bayplan.store.memory import MemoryStore
from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.copies import check
from bayplan.store.sqlite.store import SqliteStore
from bayplan.testing.clock import ManualClock
from tests.store.test_sqlite import in_store, opened

LIMITED = SqliteSettings(max_size_bytes=400_000, history=HistorySettings(automatic=False))


async def write_until_full(store: SqliteStore) -> tuple[int, str]:
    """The revision of the last write that was stored, and why the next one was not."""
    stored = 0
    for _ in range(100_000):
        try:
            stored = await store.put("/a", b"x" * 20_000, guard=stored)
        except StoreUnavailable as error:
            return stored, str(error)
    raise AssertionError("the store never got full")


def test_a_store_at_its_limit_tells_until_it_can_write_again(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        assert store.write_error == ""
        stored, reason = await write_until_full(store)
        assert "the store is full, it may have 400000 bytes" in reason
        assert store.write_error.startswith(f"{tmp_path}/store.db: cannot write: the store is full")
        found = await store.get("/a")
        assert found is not None
        assert found.mod_revision == stored
        await store.compact(stored)
        await store.put("/b", b"small")
        assert store.write_error == ""

    in_store(tmp_path / "store.db", scenario, settings=LIMITED)


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    """A file system of this size; skips where this user may not make one."""
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if done.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_fails_writes_until_there_is_space(tmp_path: Path) -> None:
    disk = tmp_path / "disk"

    async def scenario() -> None:
        store = await opened(disk / "store.db")
        await store.put("/kept", b"1")
        ballast.write_bytes(b"x" * 1_500_000)
        stored, reason = await write_until_full(store)
        assert "the disk is full; free space on the file system of" in reason
        assert str(disk) in store.write_error
        for key in ("/a", "/kept"):
            assert await store.get(key) is not None
        assert (await store.range("/", "0", revision=stored)).count == 2
        ballast.unlink()
        assert await store.put("/a", b"y", guard=stored) == stored + 1
        assert store.write_error == ""
        await store.close()
        assert check(disk / "store.db").report.is_intact

    with small_disk(disk, "4m"):
        ballast = disk / "ballast"
        asyncio.run(scenario())


def test_a_write_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, may_write = ManualClock(), threading.Event()

    async def scenario(store: SqliteStore) -> None:
        append = store._file.append

        def slow(*arguments: object) -> object:
            assert may_write.wait(30)
            return append(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(store._file, "append", slow)
        write = asyncio.ensure_future(store.put("/a", b"1"))
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(9)
        assert store.write_error == ""
        clock.advance(2)
        assert "waiting for the disk for 11 seconds" in store.write_error
        may_write.set()
        await write
        assert store.write_error == ""

    in_store(tmp_path / "store.db", scenario, clock=clock)


def test_memory_takes_every_write() -> None:
    assert MemoryStore(clock=ManualClock()).write_error == ""
