"""Stores whose values are kept in another form."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.store.errors import Untransformable
from bayplan.store.interface import Event, UnreadableValue
from bayplan.store.memory import MemoryStore
from bayplan.store.transforming import TransformingStore
from bayplan.support.clock import SystemClock


class Marked:
    """Values have a mark in front."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark

    def to_storage(self, key: str, value: bytes) -> bytes:
        return self._mark + value

    def from_storage(self, key: str, value: bytes) -> bytes:
        if not value.startswith(self._mark):
            raise Untransformable(key, "no mark")
        return value[len(self._mark) :]

    def is_current(self, value: bytes) -> bool:
        return value.startswith(self._mark)

    def form(self, value: bytes) -> bytes:
        return value[:4]


def test_forms_lie_over_each_other() -> None:
    async def run() -> None:
        below = MemoryStore(clock=SystemClock())
        inner = TransformingStore(below, lambda key: Marked(b"1") if key.startswith("/a") else None)
        outer = TransformingStore(inner, lambda _: Marked(b"2"))
        await outer.open()
        await outer.put("/a", b"x")
        await outer.put("/b", b"y")
        kept = [await below.get(key) for key in ("/a", "/b")]
        assert [item.value for item in kept if item is not None] == [b"12x", b"2y"]
        assert [(item.key, item.value) for item in (await outer.range("/", "0")).items] == [("/a", b"x"), ("/b", b"y")]

    asyncio.run(run())


def test_what_was_put_here_is_not_read_again() -> None:
    class Counted(Marked):
        def __init__(self, mark: bytes) -> None:
            super().__init__(mark)
            self.read: list[bytes] = []

        def from_storage(self, key: str, value: bytes) -> bytes:
            self.read.append(value)
            return super().from_storage(key, value)

    async def run() -> None:
        transformer, below = Counted(b"1"), MemoryStore(clock=SystemClock())
        store = TransformingStore(below, lambda _: transformer)
        await store.open()
        seen: list[bytes | None] = []
        await store.watch("/", 1, lambda events: seen.extend(event.value for event in events))
        await asyncio.gather(store.put("/a", b"x"), store.put("/b", b"y"))
        assert (seen, transformer.read) == ([b"x", b"y"], [])
        await below.put("/c", b"1other")
        assert (seen[-1], transformer.read) == (b"other", [b"1other"])

    asyncio.run(run())


def test_events_tell_what_was_there_before_in_its_own_form() -> None:
    class Later(Marked):
        """Only values that begin with the mark are kept in another form."""

        def from_storage(self, key: str, value: bytes) -> bytes:
            return value.removeprefix(self._mark)

    async def run() -> None:
        below = MemoryStore(clock=SystemClock())
        store = TransformingStore(below, lambda _: Later(b"1"))
        await store.open()
        seen: list[tuple[bytes | None, bytes | None]] = []
        await store.watch("/", 1, lambda events: seen.extend((event.value, event.previous) for event in events))
        for value in (b"1old", b"plain", b"plainer", b"1new"):
            await below.put("/a", value)
        await below.delete("/a")
        assert seen == [
            (b"old", None),
            (b"plain", b"old"),
            (b"plainer", b"plain"),
            (b"new", b"plainer"),
            (None, b"new"),
        ]

    asyncio.run(run())


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize(("marks", "outdated"), [((b"1", b"2"), False), ((b"9", b"2"), True), ((b"1", b"9"), True)])
def test_a_value_is_outdated_if_one_of_its_forms_is(marks: tuple[bytes, bytes], outdated: bool, stays: bool) -> None:
    class Old(Marked):
        def is_current(self, value: bytes) -> bool:
            return not value.startswith(b"9")

    async def run() -> bool:
        inner = TransformingStore(MemoryStore(clock=SystemClock()), lambda _: Old(marks[0]), forms_stay_current=stays)
        outer = TransformingStore(inner, lambda _: Old(marks[1]), forms_stay_current=stays)
        await outer.open()
        await outer.put("/a", b"x")
        await outer.range("/", "0")
        return outer.is_outdated("/a")

    assert asyncio.run(run()) is outdated


def test_what_cannot_be_read_is_marked_and_takes_nothing_else_away() -> None:
    async def run() -> None:
        below = MemoryStore(clock=SystemClock())
        inner = TransformingStore(below, lambda _: Marked(b"1"))
        store = TransformingStore(inner, lambda _: Marked(b"2"))
        await store.open()
        await below.put("/a", b"unmarked")
        delivered: list[Event] = []
        await store.watch("/", 1, delivered.extend)
        await store.put("/b", b"x")
        await below.put("/c", b"1unmarked")
        items = (await store.range("/", "0")).items
        for found in ([event.value for event in delivered], [item.value for item in items]):
            assert found == [b"unmarked", b"x", b"unmarked"]
            assert [type(value) is UnreadableValue for value in found] == [True, False, True]
        one = await store.get("/a")
        assert one is not None
        assert isinstance(one.value, UnreadableValue)
        assert one.value.reason == "unable to transform key '/a': no mark"

    asyncio.run(run())


class Key:
    """A key that somebody has to be asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_here = asyncio.Event()

    def is_ready(self, key: str, value: bytes) -> bool:
        return self.is_here.is_set()

    async def make_ready(self, key: str, value: bytes) -> None:
        self.asked.append(key)
        await self.is_here.wait()


def test_reads_wait_for_what_somebody_has_to_be_asked_for_and_nothing_else_does() -> None:
    async def run() -> None:
        below, key = MemoryStore(clock=SystemClock()), Key()
        store = TransformingStore(below, lambda _: Marked(b"1"), readiness=key)
        await store.open()
        await below.put("/a", b"1x")
        reads = [asyncio.ensure_future(store.get("/a")), asyncio.ensure_future(store.range("/", "0"))]
        await asyncio.sleep(0)
        assert await store.get("/b") is None
        assert (key.asked, [read.done() for read in reads]) == (["/a", "/a"], [False, False])
        key.is_here.set()
        await asyncio.gather(*reads)
        item = await store.get("/a")
        assert item is not None
        assert (item.value, key.asked) == (b"x", ["/a", "/a"])

    asyncio.run(run())
