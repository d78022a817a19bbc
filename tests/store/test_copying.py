"""A copy of everything is one only if what has arrived is what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bayplan.store.copying import StoredEntry, copy
from bayplan.store.errors import StoreUnavailable

ENTRIES = [StoredEntry("/a", b"1", None), StoredEntry("/b", b"2", None), StoredEntry("/c", b"3", 60.0)]


class Kept:
    """Contents and target in one; two keys to a page."""

    def __init__(self, entries: Sequence[StoredEntry], instead: Sequence[StoredEntry] | None = None) -> None:
        """instead: what is found later of what was written."""
        self.entries = list(entries)
        self.instead = instead
        self.revision = 7
        self.steps: list[str] = []

    async def pages(self) -> AsyncIterator[Sequence[StoredEntry]]:
        for at in range(0, len(self.entries), 2):
            yield self.entries[at : at + 2]

    async def begin(self) -> None:
        self.steps.append("begin")

    async def write(self, entries: Sequence[StoredEntry]) -> None:
        self.entries += entries

    async def finish(self) -> None:
        self.steps.append("finish")
        self.revision = 3

    async def abandon(self) -> None:
        self.steps.append("abandon")

    @asynccontextmanager
    async def contents(self) -> AsyncIterator[Kept]:
        found = Kept(self.entries if self.instead is None else self.instead)
        found.revision = self.revision
        yield found


def test_everything_is_copied_and_counted() -> None:
    target, counts = Kept([]), list[int]()
    report = asyncio.run(copy(Kept(ENTRIES), target, step=counts.append))
    assert target.entries == ENTRIES
    assert target.steps == ["begin", "finish"]
    assert (report.revision, report.new_revision, report.copied.entries, report.copied.expiring) == (7, 3, 3, 1)
    assert counts == [2, 3]


def test_keys_may_stay_behind_and_values_take_another_form() -> None:
    target = Kept([])
    forms = {"/a": None, "/b": b"two"}
    report = asyncio.run(
        copy(Kept(ENTRIES), target, leaves_out=lambda key: key == "/c", form=lambda key, _: forms[key])
    )
    assert target.entries == [StoredEntry("/b", b"two", None)]
    assert report.copied.entries == 1


@pytest.mark.parametrize(
    "found",
    [
        ENTRIES[1:],
        [*ENTRIES, StoredEntry("/d", b"4", None)],
        [StoredEntry("/a", b"?", None), *ENTRIES[1:]],
        [StoredEntry("/?", b"1", None), *ENTRIES[1:]],
        [StoredEntry("/a1", b"", None), *ENTRIES[1:]],
    ],
    ids=[
        "a key is missing",
        "there is one more",
        "a value differs",
        "a key differs",
        "a value has become part of a key",
    ],
)
def test_a_copy_that_has_something_else_is_taken_back(found: list[StoredEntry]) -> None:
    target = Kept([], instead=found)
    with pytest.raises(StoreUnavailable, match=r"of 2 with [0-9a-f]{64} it was made"):
        asyncio.run(copy(Kept(ENTRIES), target))
    assert target.steps == ["begin", "finish", "abandon"]


def test_keys_that_do_not_stay_may_have_gone_meanwhile() -> None:
    assert asyncio.run(copy(Kept(ENTRIES), Kept([], instead=ENTRIES[:2]))).copied.entries == 3
