"""The parts that stores are made of, and choosing a store by URL."""

from __future__ import annotations

import asyncio
import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.store.errors import Compacted
from bayplan.store.memory import MemoryStore
from bayplan.store.settings import HistorySettings
from bayplan.store.sorted_keys import SortedKeys
from bayplan.store.sqlite.store import SqliteStore
from bayplan.store.url import open_store
from bayplan.testing.clock import ManualClock


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 60))), st.integers(0, 60), st.integers(0, 60), st.integers(0, 9)
)
def test_sorted_keys_behave_like_a_sorted_list(steps: list[tuple[bool, int]], start: int, end: int, limit: int) -> None:
    keys, model = SortedKeys(f"{number:02d}" for number in range(0, 60, 5)), set(range(0, 60, 5))
    for add, number in steps:
        if add and number not in model:
            keys.add(f"{number:02d}")
            model.add(number)
        elif not add and number in model:
            keys.remove(f"{number:02d}")
            model.remove(number)
        elif not add:
            with pytest.raises(KeyError):
                keys.remove(f"{number:02d}")
    expected = [f"{number:02d}" for number in sorted(model) if start <= number < end]
    first, last = f"{start:02d}", f"{end:02d}"
    assert len(keys) == len(model)
    assert keys.count(first, last) == len(expected)
    assert keys.between(first, last) == expected
    assert keys.between(first, last, limit) == (expected[:limit] if limit else expected)


def test_sorted_keys_stay_in_order_over_many_chunks() -> None:
    keys = SortedKeys()
    model: list[str] = []
    for number in range(20_000):
        key = f"{number * 7919 % 20_000:05d}"
        keys.add(key)
        bisect.insort(model, key)
    for number in range(0, 20_000, 3):
        keys.remove(f"{number:05d}")
        model.remove(f"{number:05d}")
    assert keys.between("", "~") == model
    assert keys.between("05000", "15000", 5000) == [key for key in model if "05000" <= key < "15000"][:5000]
    assert keys.count("05000", "15000") == sum("05000" <= key < "15000" for key in model)


def test_stores_are_chosen_by_url() -> None:
    clock = ManualClock()
    assert isinstance(open_store("memory:", clock=clock), MemoryStore)
    assert isinstance(open_store("sqlite:/some/path.db", clock=clock), SqliteStore)


@pytest.mark.parametrize(
    "url",
    ["etcd:", "etcd://", "etcd:a:2379", "etcd://a:x", "etcd://http://a,https://b", "etcd://a/b", "etcd://ftp://a"],
)
def test_an_etcd_url_that_names_no_servers_says_what_it_should_look_like(url: str) -> None:
    with pytest.raises(ValueError, match=r"store .*: .*etcd"):
        open_store(url, clock=ManualClock())


@pytest.mark.parametrize("url", ["", "memory", "postgres://x", "sqlite:", "sqlite:///", "memory:x", "etc://a:2379"])
def test_an_unknown_url_names_the_known_kinds(url: str) -> None:
    with pytest.raises(ValueError, match=r"store .*(memory:|sqlite:)"):
        open_store(url, clock=ManualClock())


def test_memory_history_is_bounded_by_number_and_age() -> None:
    async def run() -> None:
        clock = ManualClock()
        store = MemoryStore(clock=clock, history=HistorySettings(keep_seconds=300, keep_revisions=5000))
        await store.open()
        for _ in range(20_000):
            await store.put("/a", b"v")
        assert 20_000 - 5000 - 1024 < store.compacted_revision <= 15_000
        clock.advance(301)
        for _ in range(1024):
            await store.put("/a", b"v")
        assert store.compacted_revision > 18_900
        with pytest.raises(Compacted):
            await store.get("/a", revision=18_000)
        assert await store.get("/a", revision=store.compacted_revision) is not None
        await store.close()

    asyncio.run(run())


def test_memory_history_goes_with_age_where_little_is_written() -> None:
    async def run() -> None:
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        await store.open()
        for _ in range(29):
            await store.put("/lease", b"v")
            clock.advance(10)
        listed = store.revision
        assert store.compacted_revision == 0
        for _ in range(40):
            await store.put("/lease", b"v")
            clock.advance(10)
        assert store.compacted_revision > listed
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("values", [{"keep_revisions": 0}, {"keep_seconds": -1.0}])
def test_senseless_history_settings_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        HistorySettings(**values)  # type: ignore[arg-type]
