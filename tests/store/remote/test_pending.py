"""Writes of another process that wait for their answer, and which events tell of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bayplan.store.errors import Compacted, FutureRevision, StoreClosed
from bayplan.store.memory import MemoryStore
from bayplan.store.remote.client import RemoteStore
from bayplan.store.remote.messages import WireEvent
from bayplan.store.remote.pending import RemoteWrite
from bayplan.store.remote.server import StoreServer
from bayplan.testing.clock import ManualClock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="paths of sockets are shortened by /proc")


@pytest.mark.parametrize(
    ("guard", "key", "value", "previous", "expected"),
    [
        pytest.param(None, "/a", b"1", 5, True, id="without a guard"),
        pytest.param(5, "/a", b"1", 5, True, id="the guard held"),
        pytest.param(0, "/a", b"1", 0, True, id="a new key"),
        pytest.param(4, "/a", b"1", 5, False, id="the guard did not hold"),
        pytest.param(0, "/a", b"1", 5, False, id="no new key"),
        pytest.param(None, "/b", b"1", 5, False, id="another key"),
        pytest.param(5, "/a", b"2", 5, False, id="another value"),
        pytest.param(5, "/a", None, 5, False, id="a deletion"),
    ],
)
def test_an_event_tells_of_the_write_that_says_the_same(
    guard: int | None, key: str, value: bytes | None, previous: int, expected: bool
) -> None:
    async def run() -> None:
        committed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        write = RemoteWrite(1, "/a", b"1", guard, None, None, committed, 0.0)
        assert write.is_told_by(WireEvent(key, 9, value, 1, None, previous, "", 0)) is expected

    asyncio.run(run())


async def served(path: Path, clock: ManualClock) -> tuple[RemoteStore, StoreServer]:
    server = StoreServer(MemoryStore(clock=clock), path)
    await server.start()
    client = RemoteStore(path, clock=clock)
    await client.open()
    return client, server


def test_a_write_that_waits_for_more_than_ten_seconds_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        clock = ManualClock()
        client, server = await served(tmp_path / "socket", clock)
        assert client.write_error == ""
        write = asyncio.ensure_future(client.put("/a", b"1"))
        await asyncio.sleep(0)
        told = []
        for seconds in (9, 1, 1):
            clock.advance(seconds)
            told.append(client.write_error)
        assert told == ["", "", "a write has been waiting for the store for 11 seconds"]
        assert await write == 1
        assert client.write_error == ""
        await client.close()
        await server.stop()

    asyncio.run(run())


def test_a_store_is_compacted_up_to_what_there_is(tmp_path: Path) -> None:
    async def run() -> None:
        client, server = await served(tmp_path / "socket", ManualClock())
        for value in (b"1", b"2", b"3"):
            await client.put("/a", value)
        with pytest.raises(FutureRevision):
            await client.compact(4)
        await client.compact(3)
        assert client.compacted_revision == 3
        with pytest.raises(Compacted):
            await client.range("/", "0", revision=2)
        assert (await client.range("/", "0", revision=3)).items[0].value == b"3"
        await client.close()
        await server.stop()

    asyncio.run(run())


def test_a_server_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        store = MemoryStore(clock=ManualClock())
        await store.open()
        await StoreServer(store, tmp_path / "socket").stop()
        with pytest.raises(StoreClosed):
            await store.put("/a", b"1")

    asyncio.run(run())
