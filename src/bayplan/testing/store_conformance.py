"""The contract of `bayplan.store.interface`, as tests that every store must pass.

Derive a class whose name starts with `Test` from `StoreConformance` in a test file, and say how to make a store:

    class TestMemoryStore(StoreConformance):
        def make_store(self, folder: Path, clock: Clock) -> Store:
            return MemoryStore(clock=clock)

Needs pytest and hypothesis. The larger properties (concurrency, a model) are in `store_properties`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bayplan.store.errors import Compacted, Conflict, FutureRevision, SharedStore, StoreClosed
from bayplan.store.interface import Event, Store
from bayplan.support.clock import Clock
from bayplan.testing.clock import ManualClock

PATIENCE = 20.0
"""Seconds after which waiting for something that must come is a failure."""


class Recorder:
    """A `deliver` that keeps the events and lets a test wait for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def __call__(self, events: Sequence[Event]) -> None:
        assert events, "deliver was called without events"
        self.events.extend(events)
        self._changed.set()

    @property
    def revisions(self) -> list[int]:
        """Revisions of the events, in the order of delivery."""
        return [event.revision for event in self.events]

    async def until(self, revision: int) -> None:
        """Return when an event of this revision or a later one has come."""
        while not self.events or self.events[-1].revision < revision:
            self._changed.clear()
            async with asyncio.timeout(PATIENCE):
                await self._changed.wait()


class ConformanceBase(ABC):
    """How the tests get their store."""

    @abstractmethod
    def make_store(self, folder: Path, clock: Clock) -> Store:
        """A new, unopened store; `folder` is empty and only this store's."""


C = TypeVar("C", bound=ConformanceBase)


def with_store(scenario: Callable[[C, Store, ManualClock], Awaitable[None]]) -> Callable[[C, Path], None]:
    """Make a test of a scenario: it gets an open store, which is closed afterwards, and the clock that the store
    uses."""

    def test(self: C, tmp_path: Path) -> None:
        async def run() -> None:
            clock = ManualClock()
            store = self.make_store(tmp_path, clock)
            await store.open()
            try:
                await scenario(self, store, clock)
            finally:
                await store.close()

        asyncio.run(run())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def needs_sole_writer(store: Store, reason: str) -> None:
    """Skip the test for a store that has other writers, which cannot promise this."""
    if not store.sole_writer:
        pytest.skip(f"a shared store: {reason}")


async def put_in_order(store: Store, keys: Sequence[str]) -> None:
    """Write the keys, at once if the store keeps the order of calls."""
    if store.sole_writer:
        await asyncio.gather(*[store.put(key, b"") for key in keys])
        return
    for key in keys:
        await store.put(key, b"")


def as_tuples(items: Sequence[Any]) -> list[tuple[str, bytes, int, int]]:
    """Key, value, create and mod revision of `KeyValue` items."""
    return [(item.key, item.value, item.create_revision, item.mod_revision) for item in items]


class StoreConformance(ConformanceBase):
    """What one caller at a time can observe."""

    @with_store
    async def test_an_empty_store_is_at_revision_zero(self, store: Store, clock: ManualClock) -> None:
        assert isinstance(store, Store)
        assert (store.revision, store.compacted_revision) == (0, 0)
        assert await store.get("/a") is None
        result = await store.range("", "\U0010ffff")
        assert (result.items, result.revision, result.count, result.more) == ([], 0, 0, False)

    @with_store
    async def test_writes_get_consecutive_revisions(self, store: Store, clock: ManualClock) -> None:
        assert await store.put("/a", b"1") == 1
        assert await store.put("/b", b"2") == 2
        assert await store.put("/a", b"3") == 3
        assert await store.delete("/b") == 4
        assert await store.put("/b", b"5") == 5
        assert store.revision == 5
        assert as_tuples((await store.range("/", "0")).items) == [("/a", b"3", 1, 3), ("/b", b"5", 5, 5)]

    @with_store
    async def test_guard_zero_means_must_not_exist(self, store: Store, clock: ManualClock) -> None:
        assert await store.put("/a", b"1", guard=0) == 1
        with pytest.raises(Conflict) as caught:
            await store.put("/a", b"2", guard=0)
        assert (caught.value.key, caught.value.expected, caught.value.actual) == ("/a", 0, 1)
        await store.delete("/a", guard=1)
        assert await store.put("/a", b"3", guard=0) == 3

    @with_store
    async def test_a_failed_guard_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        await store.put("/a", b"1")
        await store.put("/a", b"2")
        recorder = Recorder()
        await store.watch("/", 3, recorder)
        for guard in (0, 1, 3, 99):
            with pytest.raises(Conflict) as caught:
                await store.put("/a", b"x", guard=guard)
            assert caught.value.actual == 2
            with pytest.raises(Conflict):
                await store.delete("/a", guard=guard)
        with pytest.raises(Conflict) as caught:
            await store.put("/none", b"x", guard=7)
        assert caught.value.actual == 0
        assert (store.revision, recorder.events) == (2, [])
        assert await store.put("/a", b"3", guard=2) == 3

    @with_store
    async def test_what_has_begun_can_be_built_on(self, store: Store, clock: ManualClock) -> None:
        needs_sole_writer(store, "it gives out revisions when it commits")
        recorder, mark = Recorder(), object()
        await store.watch("/", 1, recorder)
        created = store.submit("/a", b"1", guard=0)
        changed = store.submit("/a", b"2", guard=created.revision, attachment=mark)
        pending = store.pending("/a")
        assert changed.attachment is mark
        assert pending is None or (pending.revision, pending.attachment) == (changed.revision, mark)
        deleted = store.submit("/a", None, guard=changed.revision)
        assert [one.revision for one in (created, changed, deleted)] == [1, 2, 3]
        for guard in (1, 2, 3):
            with pytest.raises(Conflict):
                store.submit("/a", b"late", guard=guard)
            with pytest.raises(Conflict):
                store.submit("/a", None, guard=guard)
        created.committed.cancel()
        changed.committed.cancel()
        assert await deleted.committed == 3
        assert [(event.revision, event.value, event.attachment) for event in recorder.events] == [
            (1, b"1", None), (2, b"2", mark), (3, None, None),
        ]  # fmt: skip
        assert await store.get("/a") is None
        assert store.pending("/a") is None
        again = store.submit("/a", b"4", guard=0)
        assert await again.committed == again.revision == await store.put("/a", b"5") - 1

    @with_store
    async def test_deleting_a_missing_key_conflicts(self, store: Store, clock: ManualClock) -> None:
        for guard in (None, 0, 1):
            with pytest.raises(Conflict) as caught:
                await store.delete("/a", guard=guard)
            assert caught.value.actual == 0
        assert store.revision == 0

    @with_store
    async def test_keys_and_values_are_arbitrary(self, store: Store, clock: ManualClock) -> None:
        everything = {"/": b"", "/ü/☃/𝄞": bytes(range(256)), "/'\"%_\\;--": b"\x00", "plain": b"x" * 1_600_000}
        for key, value in everything.items():
            await store.put(key, value)
        for key, value in everything.items():
            found = await store.get(key)
            assert found is not None
            assert found.value == value
        listed = await store.range("", "\U0010ffff")
        assert [item.key for item in listed.items] == sorted(everything)

    @with_store
    async def test_range_is_ordered_half_open_and_limited(self, store: Store, clock: ManualClock) -> None:
        for name in ("d", "b", "a", "c", "e"):
            await store.put(f"/{name}", name.encode())
        await store.delete("/c")

        async def keys(start: str, end: str, limit: int = 0) -> tuple[list[str], int, bool]:
            result = await store.range(start, end, limit=limit)
            return [item.key for item in result.items], result.count, result.more

        assert await keys("/a", "/e") == (["/a", "/b", "/d"], 3, False)
        assert await keys("/a", "/f", 2) == (["/a", "/b"], 4, True)
        assert await keys("/b\0", "/f", 2) == (["/d", "/e"], 2, False)
        assert await keys("/a", "/a") == ([], 0, False)
        assert await keys("/e", "/a") == ([], 0, False)

    @with_store
    async def test_long_ranges_page_without_gap_or_repeat(self, store: Store, clock: ManualClock) -> None:
        await asyncio.gather(*[store.put(f"/k/{number * 7919 % 5000:04d}", b"v") for number in range(5000)])
        revision = store.revision
        await asyncio.gather(*[store.delete(f"/k/{number:04d}") for number in range(0, 5000, 3)])
        seen: list[str] = []
        start = "/k/"
        while True:
            page = await store.range(start, "/k0", limit=617, revision=revision)
            seen.extend(item.key for item in page.items)
            assert page.revision == revision
            if not page.more:
                break
            start = seen[-1] + "\0"
        assert seen == [f"/k/{number:04d}" for number in range(5000)]
        now = await store.range("/k/", "/k0", limit=10)
        assert (now.count, len(now.items)) == (3333, 10)

    @with_store
    async def test_reads_at_a_revision_show_that_revision(self, store: Store, clock: ManualClock) -> None:
        await store.put("/a", b"1")
        await store.put("/b", b"2")
        await store.put("/a", b"3")
        await store.delete("/b")
        await store.put("/b", b"5")
        await store.put("/c", b"6")
        await store.delete("/a")
        a1, a3 = ("/a", b"1", 1, 1), ("/a", b"3", 1, 3)
        b2, b5, c6 = ("/b", b"2", 2, 2), ("/b", b"5", 5, 5), ("/c", b"6", 6, 6)
        expected = {1: [a1], 2: [a1, b2], 3: [a3, b2], 4: [a3], 5: [a3, b5], 6: [a3, b5, c6], 7: [b5, c6]}
        for revision, items in expected.items():
            result = await store.range("/", "0", revision=revision)
            assert (as_tuples(result.items), result.revision, result.count) == (items, revision, len(items))
            for key in ("/a", "/b", "/c"):
                found = await store.get(key, revision=revision)
                assert as_tuples([found] if found else []) == [item for item in items if item[0] == key]
            limited = await store.range("/", "0", revision=revision, limit=1)
            assert (as_tuples(limited.items), limited.count) == (items[:1], len(items))

    @with_store
    async def test_the_future_cannot_be_read(self, store: Store, clock: ManualClock) -> None:
        await store.put("/a", b"1")
        for read in (store.get("/a", revision=2), store.range("/", "0", revision=2), store.compact(2)):
            with pytest.raises(FutureRevision) as caught:
                await read
            assert (caught.value.revision, caught.value.current) == (2, 1)

    @with_store
    async def test_compaction_forgets_the_past_only(self, store: Store, clock: ManualClock) -> None:
        for number in range(1, 6):
            await store.put("/a", b"%d" % number)
        await store.put("/old", b"kept")
        await store.delete("/a")
        await store.put("/b", b"8")
        await store.compact(4)
        assert store.compacted_revision == 4
        for revision in (1, 2, 3):
            with pytest.raises(Compacted) as caught:
                await store.range("/", "0", revision=revision)
            assert caught.value.compacted_revision == 4
            with pytest.raises(Compacted):
                await store.get("/a", revision=revision)
            with pytest.raises(Compacted):
                await store.watch("/", revision, Recorder())
        assert as_tuples((await store.range("/", "0", revision=4)).items) == [("/a", b"4", 1, 4)]
        recorder = Recorder()
        await store.watch("/", 4, recorder)
        await recorder.until(8)
        assert recorder.revisions == [4, 5, 6, 7, 8]
        assert [event.previous for event in recorder.events] == [b"3", b"4", None, b"5", None]
        await store.compact(8)
        await store.compact(3)
        assert store.compacted_revision == 8
        assert as_tuples((await store.range("/", "0")).items) == [("/b", b"8", 8, 8), ("/old", b"kept", 6, 6)]
        assert await store.put("/a", b"9", guard=0) == 9

    @with_store
    async def test_events_tell_everything_about_a_change(self, store: Store, clock: ManualClock) -> None:
        live, mark = Recorder(), object()
        await store.watch("/", 1, live)
        await store.put("/a", b"1", attachment=mark)
        await store.put("/a", b"2")
        await store.delete("/a", attachment=mark)
        await store.put("/a", b"4")
        past = Recorder()
        await store.watch("/", 1, past)
        expected = [
            ("/a", 1, b"1", 1, None, 0),
            ("/a", 2, b"2", 1, b"1", 1),
            ("/a", 3, None, 1, b"2", 2),
            ("/a", 4, b"4", 4, None, 0),
        ]
        for recorder in (live, past):
            assert [
                (one.key, one.revision, one.value, one.create_revision, one.previous, one.previous_revision)
                for one in recorder.events
            ] == expected
        assert [event.attachment for event in live.events] == [mark, None, mark, None]
        assert [event.attachment for event in past.events] == [None] * 4

    @with_store
    async def test_a_watch_gets_its_prefix_only(self, store: Store, clock: ManualClock) -> None:
        prefixes = ("", "/p/", "/p/a", "/p/a/", "/p/a/x", "/q/")
        early = {prefix: Recorder() for prefix in prefixes}
        for prefix, recorder in early.items():
            await store.watch(prefix, 1, recorder)
        keys = ["/p/a/x", "/p/a/y", "/p/ab", "/p/b/x", "/q/a", "top", "/p/a/xyz"]
        await put_in_order(store, keys)
        late = {prefix: Recorder() for prefix in prefixes}
        for prefix, recorder in late.items():
            await store.watch(prefix, 1, recorder)
        for prefix in prefixes:
            expected = [key for key in keys if key.startswith(prefix)]
            assert [event.key for event in early[prefix].events] == expected
            assert [event.key for event in late[prefix].events] == expected

    @with_store
    async def test_an_event_arrives_before_its_write_returns(self, store: Store, clock: ManualClock) -> None:
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        for number in range(1, 20):
            revision = await store.put("/a", b"%d" % number)
            assert recorder.revisions[-1] == revision == store.revision
        revision = await store.delete("/a")
        assert recorder.revisions == list(range(1, revision + 1))

    @with_store
    async def test_a_watch_may_start_in_the_future(self, store: Store, clock: ManualClock) -> None:
        recorder = Recorder()
        await store.watch("/", 4, recorder)
        for number in range(6):
            await store.put("/a", b"%d" % number)
        assert recorder.revisions == [4, 5, 6]

    @with_store
    async def test_a_cancelled_watch_is_silent(self, store: Store, clock: ManualClock) -> None:
        stopped, going = Recorder(), Recorder()
        watch = await store.watch("/", 1, stopped)
        await store.watch("/", 1, going)
        await store.put("/a", b"1")
        watch.cancel()
        watch.cancel()
        await store.put("/a", b"2")
        assert (stopped.revisions, going.revisions) == ([1], [1, 2])

    @with_store
    async def test_a_watch_cancelled_by_another_watch_is_silent(self, store: Store, clock: ManualClock) -> None:
        other = Recorder()
        watches: list[Any] = []
        await store.watch("/", 1, lambda events: watches[0].cancel())
        watches.append(await store.watch("/", 1, other))
        await store.put("/a", b"1")
        assert other.events == []

    @with_store
    async def test_a_watch_that_raises_harms_nobody_else(self, store: Store, clock: ManualClock) -> None:
        reports: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

        def broken(events: Sequence[Event]) -> None:
            raise ValueError("broken watcher")

        recorder = Recorder()
        await store.watch("/", 1, broken)
        await store.watch("/", 1, recorder)
        assert await store.put("/a", b"1") == 1
        assert recorder.revisions == [1]
        assert isinstance(reports[0]["exception"], ValueError)

    @with_store
    async def test_a_key_lives_no_longer_than_its_ttl(self, store: Store, clock: ManualClock) -> None:
        needs_sole_writer(store, "its keys end by a clock of its own")
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        await store.put("/short", b"1", ttl=10)
        await store.put("/long", b"2", ttl=30)
        await store.put("/ever", b"3")
        clock.advance(9.9)
        assert store.revision == 3
        clock.advance(0.2)
        await recorder.until(4)
        event = recorder.events[-1]
        assert (event.key, event.value, event.previous, event.previous_revision) == ("/short", None, b"1", 1)
        clock.advance(20)
        await recorder.until(5)
        clock.advance(1000)
        assert [item.key for item in (await store.range("/", "0")).items] == ["/ever"]
        assert recorder.events[-1].key == "/long"

    @with_store
    async def test_a_later_write_replaces_the_ttl(self, store: Store, clock: ManualClock) -> None:
        needs_sole_writer(store, "its keys end by a clock of its own")
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        for key in ("/kept", "/renewed", "/shortened", "/recreated"):
            await store.put(key, b"1", ttl=100)
        await store.put("/kept", b"2")
        await store.put("/renewed", b"2", ttl=200)
        await store.put("/shortened", b"2", ttl=50)
        await store.delete("/recreated")
        await store.put("/recreated", b"2")
        clock.advance(51)
        await recorder.until(10)
        clock.advance(100)
        assert store.revision == 10
        clock.advance(50)
        await recorder.until(11)
        assert [event.key for event in recorder.events[9:]] == ["/shortened", "/renewed"]
        assert [item.key for item in (await store.range("/", "0")).items] == ["/kept", "/recreated"]

    @with_store
    async def test_a_closed_store_refuses_everything(self, store: Store, clock: ManualClock) -> None:
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        await store.put("/a", b"1", ttl=5)
        await store.close()
        await store.close()
        for call in (
            store.get("/a"),
            store.range("/", "0"),
            store.put("/a", b"2"),
            store.delete("/a"),
            store.watch("/", 1, recorder),
            store.compact(1),
            store.catch_up(),
            store.open(),
        ):
            with pytest.raises(StoreClosed):
                await call
        for value in (b"2", None):
            with pytest.raises(StoreClosed):
                store.submit("/a", value, guard=1)
        clock.advance(10)
        assert recorder.revisions == [1]

    @with_store
    async def test_a_store_that_takes_writes_tells_no_write_error(self, store: Store, clock: ManualClock) -> None:
        assert store.write_error == ""
        await store.put("/a", b"1")
        assert store.write_error == ""

    @with_store
    async def test_catching_up_shows_what_was_committed(self, store: Store, clock: ManualClock) -> None:
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        await store.put("/a", b"1")
        await store.catch_up()
        assert (store.revision, recorder.revisions) == (1, [1])
        await asyncio.gather(*[store.catch_up() for _ in range(20)])
        assert not (store.sole_writer and store.may_be_behind)
        assert store.revision == 1

    @with_store
    async def test_a_shared_store_begins_nothing(self, store: Store, clock: ManualClock) -> None:
        if not store.sole_writer:
            with pytest.raises(SharedStore):
                store.submit("/a", b"1", guard=0)
            assert store.pending("/a") is None
        assert await store.get("/a") is None

    @with_store
    async def test_close_waits_for_writes_under_way(self, store: Store, clock: ManualClock) -> None:
        writes = [asyncio.ensure_future(store.put(f"/{number}", b"v")) for number in range(50)]
        await asyncio.sleep(0)
        await store.close()
        revisions = await asyncio.gather(*writes)
        assert (revisions if store.sole_writer else sorted(revisions)) == list(range(1, 51))

    def test_a_store_must_be_opened_first(self, tmp_path: Path) -> None:
        async def run() -> None:
            store = self.make_store(tmp_path, ManualClock())
            with pytest.raises(StoreClosed, match="open"):
                await store.put("/a", b"1")
            await store.close()

        asyncio.run(run())
