"""Heads and replicas over real connections: what is acknowledged is on every replica in sync, whoever fails."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from examples.operators.storage.head import BLOCK, Fenced, Head, Member
from examples.operators.storage.replica import DIGEST, READ, REQUEST, WRITE, ReplicaStore, Session

SIZE = 3 * BLOCK + 4096
VOLUME, DISK = "pvc-1", "/disk"


class Log:
    """A record of replicas in sync that remembers each change."""

    def __init__(self) -> None:
        self.changes: list[tuple[list[str], list[str]]] = []
        self.is_fenced = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def put(self, in_sync: Iterable[str], rebuilding: Iterable[str]) -> None:
        await self.answers.wait()
        if self.is_fenced:
            raise Fenced
        self.changes.append((sorted(in_sync), sorted(rebuilding)))


class Machine:
    """A node's replicas, at a port."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.directory = name, directory
        directory.mkdir()
        self.store = ReplicaStore(lambda disk: directory if disk == DISK else None)
        self.refuses_reads = False
        self.server: asyncio.Server | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.serving: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.writers.append(writer)
            task = asyncio.current_task()
            assert task is not None
            self.serving.add(task)
            await self.store.serve(reader, writer)

        opened = self.store.open

        def open_failing(*args: Any, **options: Any) -> Session:
            session = opened(*args, **options)
            do = session.do

            async def fail(operation: int, offset: int, length: int, data: bytes) -> bytes:
                if self.refuses_reads and operation in (READ, DIGEST):
                    raise OSError(errno.EIO, "a bad sector")
                return await do(operation, offset, length, data)

            session.do = fail  # type: ignore[method-assign]
            return session

        self.store.open = open_failing  # type: ignore[method-assign]

        self.server = await asyncio.start_server(serve, "127.0.0.1", 0)

    async def die(self) -> None:
        """All connections break, and nobody listens."""
        if self.server is not None:
            self.server.close()
            self.server = None
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*self.serving, return_exceptions=True)

    async def member(self, epoch: int = 1, *, create: bool = True) -> Member:
        assert self.server is not None
        host, port = self.server.sockets[0].getsockname()
        return await Member.open(self.name, host, port, disk=DISK, volume=VOLUME, size=SIZE, epoch=epoch, create=create)

    def content(self) -> bytes:
        return (self.directory / f"{VOLUME}.img").read_bytes()


@contextlib.asynccontextmanager
async def machines(directory: Path, *names: str) -> AsyncIterator[list[Machine]]:
    found = [Machine(name, directory / name) for name in names]
    try:
        for one in found:
            await one.start()
        yield found
    finally:
        for one in found:
            await one.die()


async def head_of(log: Log, *found: Machine, epoch: int = 1, least: int = 1, create: bool = True) -> Head:
    head = Head(SIZE, least, log, found[0].name)
    await head.start([await one.member(epoch, create=create) for one in found])
    return head


def test_writes_are_on_all_replicas_when_they_are_acknowledged(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b", "c") as found:
            head = await head_of(Log(), *found)
            await head.write(BLOCK - 2, b"over the edge")
            await head.flush()
            assert await head.read(BLOCK - 2, 13) == b"over the edge"
            for one in found:
                assert one.content()[BLOCK - 2 : BLOCK + 11] == b"over the edge"
                assert len(one.content()) == SIZE
            await head.close()

    asyncio.run(steps())


def test_replica_that_missed_a_write_is_recorded_before_the_write_is_acknowledged(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            log = Log()
            head = await head_of(log, a, b)
            assert log.changes == [(["a", "b"], [])]
            await a.die()
            await head.write(0, b"kept")
            assert log.changes[-1] == (["b"], [])
            assert await head.read(0, 4) == b"kept", "the local replica has gone, the other one is read"
            assert b.content()[:4] == b"kept"
            await head.close()

    asyncio.run(steps())


def test_nothing_is_acknowledged_while_it_is_not_recorded_that_a_replica_misses_writes(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            log = Log()
            head = await head_of(log, a, b)
            await a.die()
            log.answers.clear()
            first = asyncio.create_task(head.write(0, b"1"))
            await asyncio.wait({first}, timeout=0.1)
            second = asyncio.create_task(head.write(1, b"2"))
            done, _ = await asyncio.wait({first, second}, timeout=0.2)
            assert done == set()
            log.answers.set()
            await asyncio.gather(first, second)
            assert log.changes[1:] == [(["b"], [])]
            await head.close()

    asyncio.run(steps())


def test_rebuilding_goes_on_from_another_replica_if_one_fails(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b", "c") as (a, b, c):
            log = Log()
            head = await head_of(log, a, b)
            await head.write(SIZE - 4, b"last")
            a.refuses_reads = True
            await head.rebuild(await c.member())
            assert log.changes[-1] == (["b", "c"], [])
            assert c.content() == b.content()
            await head.close()

    asyncio.run(steps())


def test_write_fails_if_it_cannot_be_recorded_who_missed_it(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            log = Log()
            head = await head_of(log, a, b)
            await b.die()
            log.is_fenced = True
            with pytest.raises(Fenced):
                await head.write(0, b"lost")
            await head.close()

    asyncio.run(steps())


def test_last_replica_is_never_struck_from_the_record(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a") as (a,):
            log = Log()
            head = await head_of(log, a)
            await a.die()
            with pytest.raises(OSError, match="last replica"):
                await head.write(0, b"x")
            with pytest.raises(OSError, match="last replica"):
                await head.read(0, 1)
            assert log.changes == [(["a"], [])]
            await head.close()

    asyncio.run(steps())


def test_writes_wait_until_enough_replicas_are_in_sync(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b", "c") as (a, b, c):
            log = Log()
            head = await head_of(log, a, b, least=2)
            await b.die()
            writing = asyncio.create_task(head.write(7, b"waits"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(writing), 0.2)
            assert log.changes[-1] == (["a"], [])
            await head.rebuild(await c.member())
            await writing
            assert log.changes[-2:] == [(["a"], ["c"]), (["a", "c"], [])]
            assert c.content()[7:12] == b"waits"
            await head.close()

    asyncio.run(steps())


def test_replica_is_rebuilt_while_the_volume_is_written(tmp_path: Path) -> None:
    chance = random.Random(1)

    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            head = await head_of(Log(), a)
            await head.write(0, chance.randbytes(SIZE))
            rebuilding = asyncio.create_task(head.rebuild(await b.member()))
            written = 0
            while not rebuilding.done():
                data = chance.randbytes(chance.randrange(1, 5000))
                await head.write(chance.randrange(SIZE - len(data)), data)
                written += 1
            await rebuilding
            assert written > 3
            assert set(head.in_sync) == {"a", "b"}
            assert a.content() == b.content()
            await head.close()

    asyncio.run(steps())


def test_replica_that_fails_while_it_is_rebuilt_is_not_in_sync(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            log = Log()
            head = await head_of(log, a)
            member = await b.member()
            await b.die()
            with pytest.raises(OSError, match="gone"):
                await head.rebuild(member)
            assert log.changes[-1] == (["a"], [])
            await head.write(0, b"goes on")
            await head.close()

    asyncio.run(steps())


def test_old_head_can_change_nothing_after_a_new_one_has_come(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            old = await head_of(Log(), a, b)
            await old.write(0, b"old")
            new = await head_of(Log(), a, epoch=2, create=False)
            with pytest.raises(Fenced):
                await old.write(0, b"bad")
            assert a.content()[:3] == b"old"
            with pytest.raises(OSError, match="has passed") as error:
                await a.member(epoch=1)
            assert error.value.errno == errno.ESTALE
            await new.write(0, b"new")
            assert a.content()[:3] == b"new"
            await old.close()
            await new.close()

    asyncio.run(steps())


def test_new_head_makes_replicas_equal_that_an_old_one_left_different(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a", "b") as (a, b):
            old = await head_of(Log(), a, b)
            await old.write(BLOCK, b"acknowledged")
            await old.in_sync["b"].submit(WRITE, 5, 4, b"half")  # it dies before the other one has it
            await old.close()
            assert a.content() != b.content()
            new = await head_of(Log(), a, b, epoch=2, create=False)
            assert a.content() == b.content()
            assert await new.read(BLOCK, 12) == b"acknowledged"
            await new.close()

    asyncio.run(steps())


def test_replica_that_is_not_there_is_not_made_by_who_expects_data(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a") as (a,):
            with pytest.raises(OSError, match="no replica") as error:
                await a.member(create=False)
            assert error.value.errno == errno.ENOENT
            assert list(a.directory.glob("*.img")) == []

    asyncio.run(steps())


@pytest.mark.parametrize("volume", ["../x", "", "a/b", "A"])
def test_replicas_stay_in_their_disk(tmp_path: Path, volume: str) -> None:
    store = ReplicaStore(lambda _: tmp_path)
    with pytest.raises(OSError, match="no disk"):
        store.image(DISK, volume)


def test_volume_whose_replicas_cannot_be_reached_is_not_served() -> None:
    with pytest.raises(OSError, match="no replica"):
        asyncio.run(Head(SIZE, 1, Log()).start([]))


def test_stranger_is_hung_up_on(tmp_path: Path) -> None:
    async def steps() -> None:
        async with machines(tmp_path, "a") as (a,):
            assert a.server is not None
            reader, writer = await asyncio.open_connection(*a.server.sockets[0].getsockname())
            writer.write(b"GET / HTTP/1.1\r\n" + REQUEST.pack(WRITE, 0, 0))
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

    asyncio.run(steps())
