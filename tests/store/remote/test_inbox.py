"""Events whose values need a key that somebody has to be asked for: they wait, in their order, and the loop does not."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bayplan.store.memory import MemoryStore
from bayplan.store.remote.client import RemoteStore
from bayplan.store.remote.server import StoreServer
from bayplan.support.clock import SystemClock
from bayplan.testing.store_conformance import Recorder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="paths of sockets are shortened by /proc")


class _Keys:
    """Knows all keys but that of one value, until it is told."""

    def __init__(self, unknown: bytes) -> None:
        self._unknown = unknown
        self.asked, self.told = asyncio.Event(), asyncio.Event()

    def is_ready(self, key: str, value: bytes) -> bool:
        return value != self._unknown or self.told.is_set()

    async def make_ready(self, key: str, value: bytes) -> None:
        self.asked.set()
        await self.told.wait()


def test_events_behind_an_unreadable_one_wait_for_its_key_and_everything_else_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        clock, keys = SystemClock(), _Keys(b"secret")
        server = StoreServer(MemoryStore(clock=clock), tmp_path / "socket")
        await server.start()
        writer = RemoteStore(tmp_path / "socket", clock=clock)
        reader = RemoteStore(tmp_path / "socket", clock=clock, readiness=keys)
        live, past = Recorder(), Recorder()
        for client in (writer, reader):
            await client.open()
        await reader.watch("/", 1, live)
        for value in (b"1", b"secret", b"3"):
            await writer.put("/a", value)
        await asyncio.wait_for(keys.asked.wait(), 5)
        assert live.revisions == [1]
        assert reader.may_be_behind
        watching = asyncio.create_task(reader.watch("/", 1, past))
        own = asyncio.create_task(reader.put("/b", b"4"))
        await writer.put("/c", b"5")  # the owner and other clients have not noticed
        assert not own.done()
        keys.told.set()
        await asyncio.wait_for(asyncio.gather(watching, own), 5)
        await reader.catch_up()
        for recorder in (live, past):
            await asyncio.wait_for(recorder.until(5), 5)
            assert recorder.revisions == [1, 2, 3, 4, 5]
        for client in (reader, writer):
            await client.close()
        await server.stop()

    asyncio.run(run())


def test_what_waits_when_the_owner_goes_is_told_once_by_the_next_one(tmp_path: Path) -> None:
    async def run() -> None:
        clock, keys = SystemClock(), _Keys(b"secret")
        store = MemoryStore(clock=clock)
        server = StoreServer(store, tmp_path / "socket")
        await server.start()
        reader = RemoteStore(tmp_path / "socket", clock=clock, readiness=keys)
        recorder = Recorder()
        await reader.open()
        await reader.watch("/", 1, recorder)
        for value in (b"1", b"secret", b"3"):
            await store.put("/a", value)
        await asyncio.wait_for(keys.asked.wait(), 5)
        former = reader._link.pipe
        for pipe in tuple(server._connections):
            pipe.abort()
        async with asyncio.timeout(5):
            while reader._link.pipe in (None, former):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        keys.told.set()
        await asyncio.wait_for(recorder.until(3), 5)
        assert recorder.revisions == [1, 2, 3]
        await reader.close()
        await server.stop()

    asyncio.run(run())
