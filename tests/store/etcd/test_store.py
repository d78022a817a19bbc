"""What an etcd store does besides the contract: leases, compaction beside others, lost answers, errors."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.store.errors import StoreUnavailable, ValueTooLarge
from bayplan.store.etcd.attachments import Attachments
from bayplan.store.etcd.client import EtcdClient, TxnResult
from bayplan.store.etcd.compactor import KEY, Compactor
from bayplan.store.etcd.errors import EtcdUnavailable
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.leases import LeasePool
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.store.etcd.store import EtcdStore
from bayplan.support.clock import SystemClock
from bayplan.testing.clock import ManualClock
from bayplan.testing.store_conformance import Recorder
from tests.store.etcd.clients import client_of, running
from tests.store.etcd.server import free_ports, needs_etcd, shared_server

pytestmark = needs_etcd
_numbers = itertools.count(1)


def new_layout() -> KeyLayout:
    """A prefix that no other test has."""
    return KeyLayout(f"/store-{os.getpid()}-{next(_numbers)}")


def client_to(endpoint: str, **settings: Any) -> EtcdClient:
    """A client that its store closes."""
    return EtcdClient(EtcdSettings(endpoints=(endpoint,), **settings), clock=SystemClock())


@contextlib.asynccontextmanager
async def opened(client: EtcdClient | None = None, layout: KeyLayout | None = None) -> AsyncIterator[EtcdStore]:
    """An open store under a prefix of its own."""
    store = EtcdStore(
        client or client_to(shared_server().endpoint),
        clock=SystemClock(),
        layout=layout or new_layout(),
        compaction_interval=0,
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Key:
    """A key that somebody has to be asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.is_here = asyncio.Event()

    def is_ready(self, key: str, value: bytes) -> bool:
        return value != b"needs it" or self.is_here.is_set()

    async def make_ready(self, key: str, value: bytes) -> None:
        self.asked.append((key, value))
        await self.is_here.wait()


def test_events_wait_for_what_somebody_has_to_be_asked_for_and_so_does_who_wrote() -> None:
    async def run() -> None:
        layout, key = new_layout(), Key()
        async with opened(layout=layout) as other:
            client = client_to(shared_server().endpoint)
            store = EtcdStore(client, clock=SystemClock(), layout=layout, compaction_interval=0, readiness=key)
            await store.open()
            seen: list[str] = []
            await store.watch("/", store.revision + 1, lambda events: seen.extend(event.key for event in events))
            await other.put("/a", b"needs it")
            own = asyncio.ensure_future(store.put("/b", b"does not"))
            async with asyncio.timeout(20):
                while not key.asked:  # noqa: ASYNC110 - nobody tells when
                    await asyncio.sleep(0.01)
            assert (key.asked, seen, own.done()) == ([("/a", b"needs it")], [], False)
            key.is_here.set()
            await own
            assert seen == ["/a", "/b"]
            await store.close()

    asyncio.run(run())


def test_keys_with_a_time_to_live_go_by_themselves_unless_written_again() -> None:
    async def run() -> None:
        layout, recorder = new_layout(), Recorder()
        async with opened(layout=layout) as store, client_of(shared_server().endpoint) as client:
            await store.watch("/", store.revision + 1, recorder)
            await store.put("/kept", b"1", ttl=1000)
            await store.put("/kept", b"2")
            assert (await client.range(layout.to_etcd("/kept"))).kvs[0].lease == 0
            first = await store.put("/short", b"1", ttl=1)
            await recorder.until(first + 1)
            gone = recorder.events[-1]
            assert (gone.key, gone.value, gone.previous, gone.previous_revision) == ("/short", None, b"1", first)

    asyncio.run(run())


def test_keys_that_end_at_about_the_same_time_share_a_lease() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            clock = ManualClock()
            pool = LeasePool(client, clock)
            leases = await asyncio.gather(*[pool.lease(3600.0) for _ in range(1000)])
            assert len(set(leases)) == 1
            assert 3600 < await client.time_to_live(leases[0]) <= 3660
            full = await pool.lease(3600.0)
            assert full != leases[0]
            assert await pool.lease(10.0) not in (full, leases[0])
            clock.advance(59)
            assert await pool.lease(3600.0) == full
            clock.advance(2)
            late = await pool.lease(3600.0)
            assert late != full
            pool.forget(late)
            assert await pool.lease(3600.0) != late

    asyncio.run(run())


def test_a_lease_that_has_gone_is_replaced() -> None:
    async def run() -> None:
        layout = new_layout()
        async with opened(layout=layout) as store, client_of(shared_server().endpoint) as client:
            await store.put("/a", b"1", ttl=1000)
            lease = (await client.range(layout.to_etcd("/a"))).kvs[0].lease
            await client.revoke(lease)
            await store.put("/b", b"1", ttl=1000)
            assert (await client.range(layout.to_etcd("/b"))).kvs[0].lease not in (0, lease)

    asyncio.run(run())


def test_one_of_several_servers_compacts_in_each_interval(tmp_path: Path) -> None:
    async def run() -> None:
        with running(tmp_path) as server:
            async with client_of(server.endpoint) as client:
                told: list[list[int]] = [[], []]
                pair = [Compactor(client, ManualClock(), 300.0, told[index].append) for index in range(2)]
                revisions = []
                for turn in range(4):
                    revisions.append(await client.put(b"/a", b"%d" % turn) + 1)
                    for one in pair:
                        await one.take_turn()
                assert [kv.value for kv in (await client.range(KEY)).kvs] == [b"%d" % revisions[2]]
                assert await client.compacted_revision() == revisions[2]
                assert told == [revisions[:3], revisions[:3]]

    asyncio.run(run())


class LosesAnswers(EtcdClient):
    """Carries transactions out, and says that nobody answered, so many times."""

    losses = 0
    meanwhile: Callable[[], Awaitable[object]] | None = None
    """What happens before the client learns that there is no answer."""

    async def transaction(self, *arguments: Any) -> TxnResult:
        result = await super().transaction(*arguments)
        if self.losses:
            self.losses -= 1
            if self.meanwhile is not None:
                await self.meanwhile()
            raise EtcdUnavailable("Socket closed", maybe_done=True)
        return result


def losing() -> LosesAnswers:
    """A client that can lose answers."""
    return LosesAnswers(EtcdSettings(endpoints=(shared_server().endpoint,)), clock=SystemClock())


def test_a_guarded_write_whose_answer_was_lost_succeeds_once() -> None:
    async def run() -> None:
        client = losing()
        async with opened(client) as store:
            recorder = Recorder()
            await store.watch("/", store.revision + 1, recorder)
            client.losses = 1
            first = await store.put("/a", b"1", guard=0)
            client.losses = 1
            second = await store.put("/a", b"2", guard=first)
            assert [event.value for event in recorder.events] == [b"1", b"2"]
            assert recorder.revisions == [first, second]
            client.losses = 1
            with pytest.raises(StoreUnavailable):
                await store.put("/b", b"1")

    asyncio.run(run())


@pytest.mark.parametrize("by_another", [None, b"3"])
def test_a_write_is_not_made_again_when_its_answer_was_lost_and_others_wrote_since(by_another: bytes | None) -> None:
    async def run() -> None:
        client, layout = losing(), new_layout()
        async with opened(client, layout) as store, opened(layout=layout) as other:
            written: list[bytes | None] = []
            await other.watch("/", other.revision + 1, lambda events: written.extend(event.value for event in events))

            async def overwritten() -> None:
                await (other.delete("/a") if by_another is None else other.put("/a", by_another))

            client.meanwhile, client.losses = overwritten, 1
            with pytest.raises(StoreUnavailable, match=r"the answer to a write was lost|Socket closed"):
                await store.put("/a", b"1", guard=0)
            await other.catch_up()
            assert written == [b"1", by_another]
            client.meanwhile = None
            revision = await store.put("/a", b"4")
            client.meanwhile, client.losses = overwritten, 1
            with pytest.raises(StoreUnavailable, match="the answer to a write was lost"):
                await store.put("/a", b"5", guard=revision)
            await other.catch_up()
            assert written[2:] == [b"4", b"5", by_another]

    asyncio.run(run())


def test_who_deleted_a_key_is_not_known_when_the_answer_was_lost() -> None:
    async def run() -> None:
        client = losing()
        async with opened(client) as store:
            revision = await store.put("/a", b"1")
            client.losses = 1
            with pytest.raises(StoreUnavailable, match="the answer to a write was lost"):
                await store.delete("/a", guard=revision)
            assert await store.get("/a") is None

    asyncio.run(run())


def test_a_write_that_was_not_made_is_made_when_its_answer_was_lost() -> None:
    class Drops(EtcdClient):
        drops = 1

        async def transaction(self, *arguments: Any) -> TxnResult:
            if (
                self.drops
                and arguments[1][0].WhichOneof("request") == "request_put"
                and b"/kept" in arguments[0][0].key
            ):
                self.drops -= 1
                raise EtcdUnavailable("Socket closed", maybe_done=True)
            return await super().transaction(*arguments)

    async def run() -> None:
        client = Drops(EtcdSettings(endpoints=(shared_server().endpoint,)), clock=SystemClock())
        async with opened(client) as store:
            client.drops = 0
            revision = await store.put("/kept", b"1")
            client.drops = 1
            assert await store.put("/kept", b"2", guard=revision) > revision

    asyncio.run(run())


def test_a_value_that_is_too_large_is_no_failure_of_the_store() -> None:
    async def run() -> None:
        async with opened() as store:
            with pytest.raises(ValueTooLarge):
                await store.put("/a", b"x" * 4_400_000)
            assert store.write_error == ""
            await store.put("/a", b"x")

    asyncio.run(run())


def test_no_etcd_is_said_at_open() -> None:
    async def run() -> None:
        with pytest.raises(StoreUnavailable, match=r"does not answer.*check that etcd runs"):
            async with opened(client_to(f"127.0.0.1:{free_ports(1)[0]}", request_timeout=0.5)):
                pass

    asyncio.run(run())


async def fill(store: EtcdStore) -> None:
    """Write more than fits."""
    for number in range(10):
        await store.put(f"/{number}", b"x" * 2_000_000)


def test_a_full_etcd_is_said_with_the_next_step_and_shown_as_the_write_error(tmp_path: Path) -> None:
    async def run() -> None:
        with running(tmp_path, "--quota-backend-bytes=6000000") as server:
            async with opened(client_to(server.endpoint)) as store:
                with pytest.raises(StoreUnavailable, match="etcdctl alarm disarm"):
                    await fill(store)
                assert "etcdctl alarm disarm" in store.write_error
                assert await store.get("/none") is None

    asyncio.run(run())


def test_attachments_go_to_the_event_with_their_bytes_and_to_no_other() -> None:
    attachments = Attachments()
    first, second = object(), object()
    pending = attachments.add("/a", b"1", first)
    attachments.add("/a", b"2", second)
    assert attachments.take("/a", b"3") is None
    assert attachments.take("/b", b"1") is None
    assert attachments.take("/a", b"2") is second
    assert attachments.take("/a", b"2") is None
    attachments.discard(pending)
    attachments.discard(pending)
    assert attachments.take("/a", b"1") is None
    attachments.add("/a", None, first)
    attachments.add("/a", None, second)
    assert attachments.take("/a", None) is None
