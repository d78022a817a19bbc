"""The parts of the store contract that need many callers or many random histories; see `store_conformance`."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bayplan.store.errors import Compacted, Conflict
from bayplan.store.interface import Event, Store
from bayplan.testing.clock import ManualClock
from bayplan.testing.store_conformance import ConformanceBase, Recorder, as_tuples, needs_sole_writer, with_store

Items = dict[str, tuple[bytes, int, int]]
"""Key to value, create revision, mod revision."""


class Model:
    """A store as one would write it if nothing mattered but being right: a full copy of everything per revision."""

    def __init__(self) -> None:
        self.states: list[Items] = [{}]
        self.changes: list[tuple[str, int, bytes | None, bytes | None, int]] = []
        """Key, revision, value, previous value, previous revision of each change."""

    @property
    def revision(self) -> int:
        """The last revision."""
        return len(self.states) - 1

    def write(self, key: str, value: bytes | None, guard: int | None) -> int | None:
        """Put (or delete, without a value); None if the guard fails."""
        old = self.states[-1].get(key)
        actual = old[2] if old else 0
        if (guard is not None and guard != actual) or (value is None and old is None):
            return None
        revision = self.revision + 1
        state = dict(self.states[-1])
        if value is None:
            del state[key]
        else:
            state[key] = (value, old[1] if old else revision, revision)
        self.states.append(state)
        self.changes.append((key, revision, value, old[0] if old else None, actual))
        return revision

    def range(self, start: str, end: str, revision: int) -> list[tuple[str, bytes, int, int]]:
        """The range as of a revision."""
        return [(key, *item) for key, item in sorted(self.states[revision].items()) if start <= key < end]


class StoreProperties(ConformanceBase):
    """Concurrency, resumption and agreement with `Model`."""

    examples: ClassVar[int] = 60
    """Random histories to compare with the model."""

    @with_store
    async def test_exactly_one_of_many_guarded_writers_wins(self, store: Store, clock: ManualClock) -> None:
        async def attempt(guard: int) -> int | None:
            try:
                return await store.put("/a", b"v", guard=guard)
            except Conflict:
                return None

        guard = 0
        for _ in range(20):
            outcomes = await asyncio.gather(*[attempt(guard) for _ in range(300)])
            winners = [revision for revision in outcomes if revision is not None]
            assert winners == [guard + 1]
            guard = winners[0]
        assert store.revision == 20

    @with_store
    async def test_concurrent_increments_are_not_lost(self, store: Store, clock: ManualClock) -> None:
        await store.put("/n", b"0")
        recorder = Recorder()
        await store.watch("/n", 2, recorder)

        async def increment() -> None:
            while True:
                found = await store.get("/n")
                assert found is not None
                try:
                    await store.put("/n", b"%d" % (int(found.value) + 1), guard=found.mod_revision)
                    return
                except Conflict:
                    await asyncio.sleep(0)

        await asyncio.gather(*[increment() for _ in range(200)])
        found = await store.get("/n")
        assert found is not None
        assert (found.value, store.revision) == (b"200", 201)
        assert [event.value for event in recorder.events] == [b"%d" % number for number in range(1, 201)]

    @with_store
    async def test_guards_see_writes_that_are_not_committed_yet(self, store: Store, clock: ManualClock) -> None:
        needs_sole_writer(store, "it gives out revisions when it commits")
        outcomes = await asyncio.gather(
            store.put("/a", b"1", guard=0),
            store.put("/a", b"2", guard=1),
            store.put("/a", b"x", guard=1),
            store.delete("/a", guard=2),
            store.delete("/a"),
            store.put("/a", b"4", guard=0),
            return_exceptions=True,
        )
        assert [outcome if isinstance(outcome, int) else type(outcome) for outcome in outcomes] == [
            1, 2, Conflict, 3, Conflict, 4,
        ]  # fmt: skip
        found = await store.get("/a")
        assert found is not None
        assert (found.value, found.create_revision) == (b"4", 4)

    @with_store
    async def test_a_cancelled_writer_leaves_the_store_in_order(self, store: Store, clock: ManualClock) -> None:
        recorder = Recorder()
        await store.watch("/", 1, recorder)
        writes = [asyncio.ensure_future(store.put(f"/{number}", b"v")) for number in range(20)]
        await asyncio.sleep(0)
        for write in writes[::2]:
            write.cancel()
        await asyncio.gather(*writes, return_exceptions=True)
        last = await store.put("/last", b"v")
        assert recorder.revisions == list(range(1, last + 1))

    @with_store
    async def test_watches_resume_from_any_revision_while_others_write(self, store: Store, clock: ManualClock) -> None:
        """Every watch, wherever and whenever it starts, gets exactly the revisions from its start on."""
        chance = random.Random(7)
        total = 3000
        recorders: list[tuple[int, Recorder]] = []

        async def write(writer: int) -> None:
            for number in range(total // 10):
                await store.put(f"/w/{writer}/{number % 7}", b"%d" % number)
                await asyncio.sleep(0)

        async def watch() -> None:
            while store.revision < total:
                recorder = Recorder()
                start = chance.randint(1, store.revision + 1)
                await store.watch("/w/", start, recorder)
                recorders.append((start, recorder))
                await asyncio.sleep(0)
                if len(recorders) > 60:
                    return

        await asyncio.gather(watch(), *[write(writer) for writer in range(10)], watch())
        assert len(recorders) > 5
        for start, recorder in recorders:
            await recorder.until(total)
            assert recorder.revisions == list(range(start, total + 1))

    @with_store
    async def test_ranges_under_load_are_consistent_snapshots(self, store: Store, clock: ManualClock) -> None:
        """Two keys that are written in turn never differ by more than one, whatever is read when."""
        apart = (0, 1) if store.sole_writer else (-1, 0, 1)
        await store.put("/a", b"0")
        await store.put("/b", b"0")
        done = False

        async def write() -> None:
            nonlocal done
            for number in range(1, 300):
                await asyncio.gather(store.put("/a", b"%d" % number), store.put("/b", b"%d" % number))
                if number % 50 == 0:
                    await store.compact(store.revision - 5)
            done = True

        async def read() -> None:
            while not done:
                result = await store.range("/", "0")
                first, second = (int(item.value) for item in result.items)
                assert first - second in apart
                try:
                    again = await store.range("/", "0", revision=result.revision)
                except Compacted:
                    continue
                assert as_tuples(again.items) == as_tuples(result.items)
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())

    def test_any_history_agrees_with_the_model(self) -> None:
        from hypothesis import HealthCheck, given, settings
        from hypothesis import strategies as st

        keys = st.sampled_from(["/a", "/a/b", "/a/c", "/b", "/b/ü", "/c"])
        guards = st.sampled_from(["none", "right", "zero", "wrong"])
        values = st.one_of(st.none(), st.binary(max_size=8))
        steps = st.lists(st.tuples(keys, values, guards), min_size=1, max_size=40)

        @settings(max_examples=self.examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(steps=steps, together=st.integers(1, 8), compact_at=st.integers(0, 40))
        def check(steps: list[tuple[str, bytes | None, str]], together: int, compact_at: int) -> None:
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(self._compare(Path(folder), steps, together, compact_at))

        check()

    async def _compare(
        self, folder: Path, steps: Sequence[tuple[str, bytes | None, str]], together: int, compact_at: int
    ) -> None:
        """Do the steps in store and model, `together` at once, and compare all that can be read."""
        store = self.make_store(folder, ManualClock())
        await store.open()
        try:
            model, live = Model(), Recorder()
            await store.watch("", 1, live)
            together = together if store.sole_writer else 1
            for first in range(0, len(steps), together):
                await self._do(store, model, steps[first : first + together])
            compacted = min(compact_at, model.revision)
            await store.compact(compacted)
            past = Recorder()
            await store.watch("", compacted, past)
            assert [_facts(event) for event in live.events] == model.changes
            assert [_facts(event) for event in past.events] == model.changes[max(compacted, 1) - 1 :]
            for revision in range(max(compacted, 1), model.revision + 1):
                for start, end in (("", "\U0010ffff"), ("/a", "/b"), ("/a/", "/a0")):
                    result = await store.range(start, end, revision=revision)
                    assert as_tuples(result.items) == model.range(start, end, revision)
        finally:
            await store.close()

    async def _do(self, store: Store, model: Model, steps: Sequence[tuple[str, bytes | None, str]]) -> None:
        writes, expected = [], []
        for key, value, kind in steps:
            actual = model.states[-1].get(key, (b"", 0, 0))[2]
            guard = {"none": None, "right": actual, "zero": 0, "wrong": actual + 1}[kind]
            expected.append(model.write(key, value, guard))
            writes.append(store.delete(key, guard=guard) if value is None else store.put(key, value, guard=guard))
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [outcome if isinstance(outcome, int) else None for outcome in outcomes] == expected
        assert all(isinstance(outcome, int | Conflict) for outcome in outcomes)


def _facts(event: Event) -> tuple[str, int, bytes | None, bytes | None, int]:
    return event.key, event.revision, event.value, event.previous, event.previous_revision
