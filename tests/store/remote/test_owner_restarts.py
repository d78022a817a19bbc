"""The owner of a store ends in the worst moment, and its clients go on with the next one."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.store.errors import Conflict, StoreUnavailable
from bayplan.store.memory import MemoryStore
from bayplan.store.remote.client import RemoteStore
from bayplan.store.remote.link import PATIENCE
from bayplan.store.remote.server import StoreServer
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock
from bayplan.testing.clock import ManualClock
from bayplan.testing.store_conformance import Recorder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="paths of sockets are shortened by /proc")
_WRITERS = 20


class Owner:
    """The process of `tests.store.remote.owner`."""

    def __init__(self, folder: Path) -> None:
        self._command = [
            sys.executable,
            "-m",
            "tests.store.remote.owner",
            str(folder / "store.db"),
            str(folder / "socket"),
        ]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "serving\n"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    found = Owner(tmp_path)
    found.start()
    yield found
    found.kill()


def test_writes_survive_owners_that_are_killed_and_each_is_made_once(owner: Owner, tmp_path: Path) -> None:
    """Writers count in keys of their own, each step guarded by the one before: a step that is lost or made twice breaks the chain."""

    async def run() -> None:
        clients = [RemoteStore(tmp_path / "socket", clock=SystemClock()) for _ in range(2)]
        recorders = [Recorder(), Recorder()]
        for client, recorder in zip(clients, recorders, strict=True):
            await client.open()
            await client.watch("/", 1, recorder)
        acknowledged: dict[str, list[int]] = {}
        is_over = False

        async def count(client: RemoteStore, key: str) -> None:
            steps, guard = acknowledged.setdefault(key, []), 0
            while not is_over:
                guard = await client.put(key, b"%d" % len(steps), guard=guard)
                steps.append(guard)

        writers = [asyncio.ensure_future(count(clients[number % 2], f"/{number}")) for number in range(_WRITERS)]
        for _ in range(3):
            await recorders[0].until(clients[0].revision + 40 * _WRITERS)
            await asyncio.to_thread(owner.kill)
            await asyncio.to_thread(owner.start)
        is_over = True
        await asyncio.wait_for(asyncio.gather(*writers), PATIENCE)
        for client in clients:
            await client.catch_up()
        for recorder in recorders:
            assert recorder.revisions == list(range(1, clients[0].revision + 1))
            for key, steps in acknowledged.items():
                told = [(event.revision, event.value) for event in recorder.events if event.key == key]
                assert told == [(revision, b"%d" % step) for step, revision in enumerate(steps)]
        for client in clients:
            await client.close()

    asyncio.run(run())


def test_a_write_fails_when_no_owner_comes_back_and_says_what_is_wrong(tmp_path: Path) -> None:
    async def run() -> None:
        clock = ManualClock()
        server = StoreServer(MemoryStore(clock=clock), tmp_path / "socket")
        await server.start()
        client = RemoteStore(tmp_path / "socket", clock=clock)
        await client.open()
        await client.put("/a", b"1")
        await server.stop()
        while client.write_error == "":
            clock.advance(0.001)
            await asyncio.sleep(0)
        assert "does not answer" in client.write_error
        waiting = [asyncio.ensure_future(one) for one in (client.put("/b", b"1"), client.get("/a"), client.catch_up())]
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting)
        clock.advance(PATIENCE)
        for one in waiting:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await one
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await client.put("/c", b"1")
        await client.close()

    asyncio.run(run())


def test_a_store_that_has_lost_what_was_seen_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        clock = SystemClock()
        server = StoreServer(MemoryStore(clock=clock), tmp_path / "socket")
        await server.start()
        client = RemoteStore(tmp_path / "socket", clock=clock)
        await client.open()
        await client.put("/a", b"1")
        await server.stop()
        server = StoreServer(MemoryStore(clock=clock), tmp_path / "socket")
        await server.start()
        with pytest.raises(StoreUnavailable, match="revision 0, and has been at 1"):
            await client.put("/a", b"2")
        assert "has been replaced" in client.write_error
        await client.close()
        await server.stop()

    asyncio.run(run())


def test_a_client_that_missed_compacted_events_loses_its_watches(tmp_path: Path) -> None:
    async def run() -> None:
        clock = SystemClock()
        path = tmp_path / "socket"
        server = StoreServer(SqliteStore(tmp_path / "store.db", clock=clock), path)
        await server.start()
        client = RemoteStore(path, clock=clock)
        await client.open()
        recorder, lost = Recorder(), asyncio.get_running_loop().create_future()
        await client.watch("/", 1, recorder, lost.set_result)
        await client.put("/a", b"1")
        await server.stop()
        store = SqliteStore(tmp_path / "store.db", clock=clock)
        await store.open()
        for number in range(5):
            await store.put("/a", b"%d" % number)
        await store.compact(4)
        await store.close()
        server = StoreServer(SqliteStore(tmp_path / "store.db", clock=clock), path)
        await server.start()
        assert await lost == 4
        assert (client.revision, recorder.revisions) == (6, [1])
        again = Recorder()
        await client.watch("/", 7, again)
        assert await client.put("/a", b"7", guard=6) == 7
        assert again.revisions == [7]
        await client.close()
        await server.stop()

    asyncio.run(run())


def test_a_read_after_a_write_of_another_client_sees_it(tmp_path: Path) -> None:
    async def run() -> None:
        clock, path = SystemClock(), tmp_path / "socket"
        server = StoreServer(SqliteStore(tmp_path / "store.db", clock=clock), path)
        await server.start()
        writer, reader = (RemoteStore(path, clock=clock) for _ in range(2))
        await writer.open()
        await reader.open()
        recorder = Recorder()
        await reader.watch("/", 1, recorder)
        for number in range(1, 200):
            revision = await writer.put("/a", b"%d" % number)
            await reader.catch_up()
            assert recorder.revisions[-1] == reader.revision == revision
        with pytest.raises(Conflict) as caught:
            await reader.put("/a", b"late", guard=3)
        assert caught.value.actual == writer.revision
        await writer.close()
        await reader.close()
        await server.stop()

    asyncio.run(run())


def test_catching_up_waits_for_what_is_committed_and_has_not_come(tmp_path: Path) -> None:
    async def run() -> None:
        clock, path = SystemClock(), tmp_path / "socket"
        server = StoreServer(MemoryStore(clock=clock), path)
        await server.start()
        writer, reader = (RemoteStore(path, clock=clock) for _ in range(2))
        await writer.open()
        await reader.open()
        assert reader._link.pipe is not None
        transport = reader._link.pipe._transport
        assert transport is not None
        transport.pause_reading()
        revision = await writer.put("/a", b"1")
        reading = asyncio.ensure_future(reader.catch_up())
        await writer.get("/a")
        assert not reading.done()
        assert (reader.may_be_behind, writer.may_be_behind) == (True, False)
        transport.resume_reading()
        await reading
        assert reader.revision == revision
        assert not reader.may_be_behind
        await writer.close()
        await reader.close()
        await server.stop()

    asyncio.run(run())


def test_the_socket_is_the_owners_alone_and_its_path_may_be_long(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()

    async def run() -> None:
        clock, path = SystemClock(), folder / "socket"
        server = StoreServer(MemoryStore(clock=clock), path)
        await server.start()
        for file in folder.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        client = RemoteStore(path, clock=clock)
        await client.open()
        assert await client.put("/a", b"1") == 1
        await client.close()
        await server.stop()
        assert not path.exists()

    asyncio.run(run())


def test_a_client_that_does_not_read_is_cut_off_and_comes_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.store.remote.server._MOST_WAITING_BYTES", 1 << 20)

    async def run() -> None:
        clock, path = SystemClock(), tmp_path / "socket"
        server = StoreServer(SqliteStore(tmp_path / "store.db", clock=clock), path)
        await server.start()
        slow, writer = (RemoteStore(path, clock=clock) for _ in range(2))
        await slow.open()
        await writer.open()
        recorder = Recorder()
        await slow.watch("/", 1, recorder)
        pipe = slow._link.pipe
        assert pipe is not None
        transport = pipe._transport
        assert transport is not None
        transport.pause_reading()
        while server.clients == 2:
            await writer.put("/a", bytes(1 << 20))
        transport.resume_reading()
        await writer.put("/b", b"")
        await recorder.until(writer.revision)
        assert recorder.revisions == list(range(1, writer.revision + 1))
        await slow.close()
        await writer.close()
        await server.stop()

    asyncio.run(run())
