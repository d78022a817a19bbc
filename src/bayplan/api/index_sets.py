"""Sets of whole numbers such as the completion indexes of a Job, which cost what their runs cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

_NO_INDEX: Final = 1 << 31
"""Above all indexes."""
Run = tuple[int, int]
"""The first and the last of adjacent indexes."""


class IndexSet:
    """A set of completion indexes, kept as runs of adjacent ones: a Job may have two thousand million."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        """runs: in any order; they may overlap."""
        merged: list[Run] = []
        for first, last in sorted(runs):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self._runs = tuple(merged)
        self._firsts = [first for first, _ in merged]

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        """These indexes."""
        return cls((index, index) for index in indexes)

    @property
    def first(self) -> int | None:
        """The lowest index; None if there is none."""
        return self._firsts[0] if self._firsts else None

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._firsts, index) - 1
        return at >= 0 and index <= self._runs[at][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self._runs == other._runs

    def __hash__(self) -> int:
        return hash(self._runs)

    def __or__(self, other: IndexSet) -> IndexSet:
        return IndexSet((*self._runs, *other._runs))

    def __and__(self, other: IndexSet) -> IndexSet:
        return self - IndexSet(other.missing())

    def __sub__(self, other: IndexSet) -> IndexSet:
        left: list[Run] = []
        for first, last in self._runs:
            left += [(max(first, start), min(last, end)) for start, end in other.missing(first, last + 1)]
        return IndexSet(left)

    def missing(self, start: int = 0, end: int = _NO_INDEX) -> Iterator[Run]:
        """The runs from `start` up to, but not with, `end` that are not in the set."""
        at = max(bisect_right(self._firsts, start) - 1, 0)
        for place in range(at, len(self._runs)):
            first, last = self._runs[place]
            if first >= end:
                break
            if start < first:
                yield start, first - 1
            start = max(start, last + 1)
        if start < end:
            yield start, end - 1

    def text(self) -> str:
        """As Kubernetes writes them: single ones and pairs with commas, longer runs with a dash."""
        parts = []
        for first, last in self._runs:
            parts.append(str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}")
        return ",".join(parts)
