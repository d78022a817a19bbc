"""The feasible rows with the highest total, kept as totals change one by one.

Rows are ranked by the names of their nodes, so that a choice among equally good nodes does not depend on the order in
which nodes were added, nor on what was cached before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Final

import numpy as np

from bayplan.scheduler.snapshot.labels import IntRows, Ints


class NameOrder:
    """The order of the nodes' names: `rank_of[row]`, and back, `row_of[rank]`. `is_sorted`: rank equals row."""

    __slots__ = ("is_sorted", "rank_of", "row_of")

    def __init__(self, names: Sequence[str]) -> None:
        rows = sorted(range(len(names)), key=names.__getitem__)
        self.row_of: Ints = np.array(rows, dtype=np.int64)
        self.rank_of: Ints = np.empty(len(names), dtype=np.int64)
        self.rank_of[self.row_of] = np.arange(len(names))
        self.is_sorted = bool((self.row_of == np.arange(len(names))).all())


class SortedNumbers:
    """Distinct numbers in ascending order, of which there may be a million: kept in blocks, so that no change moves many.

    blocks [3 5] [8 9] [11]: 9 goes, and only [8 9] changes; the fourth number is in the last block
    """

    __slots__ = ("_blocks", "_count", "_first")

    BLOCK: Final = 1024
    """Numbers per block to begin with; twice as many are divided."""

    def __init__(self, numbers: list[int]) -> None:
        """numbers: ascending; they become this object's own."""
        size = self.BLOCK
        self._blocks = (
            [numbers[at : at + size] for at in range(0, len(numbers), size)] if len(numbers) > size else [numbers]
        )
        self._first = [block[0] for block in self._blocks[1:]]
        """The least number that belongs into each block but the first."""
        self._count = len(numbers)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        """The number at a place, from 0."""
        for block in self._blocks:
            if index < len(block):
                return block[index]
            index -= len(block)
        raise IndexError(f"there are only {self._count} numbers")

    def add(self, number: int) -> None:
        """Put in a number that is not there."""
        at = bisect_right(self._first, number)
        block = self._blocks[at]
        insort(block, number)
        self._count += 1
        if len(block) > 2 * self.BLOCK:
            self._blocks[at : at + 1] = block[: self.BLOCK], block[self.BLOCK :]
            self._first.insert(at, block[self.BLOCK])

    def remove(self, number: int) -> None:
        """Take away a number that is there."""
        at = bisect_right(self._first, number)
        block = self._blocks[at]
        del block[bisect_left(block, number)]
        self._count -= 1
        if not block and len(self._blocks) > 1:
            del self._blocks[at]
            del self._first[max(at - 1, 0)]

    def listed(self) -> list[int]:
        """All of them."""
        return [number for block in self._blocks for number in block]


class Ranking:
    """The best rows of an array of totals. Totals below zero are those of rows that are not feasible.

    `update` after every change of one entry, or `start` after a change of many. The list of many best rows is made when
    single entries change time and again; before that, one more search through all rows costs less.
    """

    __slots__ = ("_best", "_count", "_first", "_highest", "_is_behind", "_order", "_ranks", "_searches", "_totals")

    SEARCHES: Final = 3
    """So often all rows are searched after single changes before many best rows are listed."""
    BLOCK: Final = 4096
    """Rows among which one of the best is looked for at a time."""

    def __init__(self, totals: Ints, order: NameOrder) -> None:
        self._best: SortedNumbers | None
        """The ranks of the best; None if they are not listed."""
        self._ranks: IntRows | None
        """The same, ascending, if they were wanted while they were not listed."""
        self._first: int
        """The first row with the highest total when all were searched."""
        self._count: int | None
        """How many rows had it; None if that was not wanted yet."""
        self._highest: int
        self.start(totals, order)

    def start(self, totals: Ints, order: NameOrder) -> None:
        """Find the best among all rows. The array is looked at again later, so it must be the one that changes."""
        self._order = order
        self._totals = totals
        self._searches = 0
        self._search()

    def _search(self) -> None:
        totals = self._totals
        self._best = self._ranks = self._count = None
        self._is_behind = False
        self._first = int(totals.argmax()) if len(totals) else -1
        self._highest = totals.item(self._first) if len(totals) else -1
        if self._highest < 0:
            self._highest = -1
            self._count = 0

    def update(self, row: int, before: int, total: int) -> None:
        """One row's total changed."""
        highest = self._highest
        if self._is_behind or before == total or (before < highest and total < highest) or (before < 0 and total < 0):
            return
        best = self._best
        if total > highest:
            self._highest = total
            self._best = SortedNumbers([self._order.rank_of.item(row)])
            return
        if best is None:
            if self._searches < self.SEARCHES and self._count != 0:
                self._searches += 1
                self._is_behind = True
                return
            self._search()
            self._best = SortedNumbers(self._listed().tolist())
            return
        rank = self._order.rank_of.item(row)
        if total == highest:
            best.add(rank)
            return
        best.remove(rank)
        if not len(best):
            self._search()

    def __len__(self) -> int:
        if self._is_behind:
            self._search()
        if self._best is not None:
            return len(self._best)
        if self._count is None:
            self._count = int(np.count_nonzero(self._totals == self._highest))
        return self._count

    def row(self, index: int) -> int:
        """The row of one of the best, counted in the order of names."""
        if self._is_behind:
            self._search()
        if self._best is not None:
            return self._order.row_of.item(self._best[index])
        if self._order.is_sorted:
            return self._first if index == 0 and self._highest >= 0 else self._nth(index)
        return self._order.row_of.item(self._listed().item(index))

    def _nth(self, index: int) -> int:
        """One of the rows with the highest total, counted from 0."""
        for start in range(0, len(self._totals), self.BLOCK):
            rows = (self._totals[start : start + self.BLOCK] == self._highest).nonzero()[0]
            if index < len(rows):
                return start + int(rows[index])
            index -= len(rows)
        raise IndexError("there are not so many of the best")

    def _listed(self) -> IntRows:
        """The ranks of the best, ascending."""
        if self._ranks is None:
            if self._highest < 0:
                self._ranks = np.zeros(0, dtype=np.intp)
            else:
                rows = (self._totals == self._highest).nonzero()[0]
                self._ranks = rows if self._order.is_sorted else np.sort(self._order.rank_of[rows])
        return self._ranks

    def first_rows(self, count: int) -> list[int]:
        """The first of the best, so many at most, in the order of names."""
        if self._is_behind:
            self._search()
        if self._best is None and self._order.is_sorted and self._highest >= 0:
            found: list[int] = []
            for start in range(0, len(self._totals), self.BLOCK):
                rows = (self._totals[start : start + self.BLOCK] == self._highest).nonzero()[0]
                found += (rows[: count - len(found)] + start).tolist()
                if len(found) == count:
                    break
            return found
        return [self.row(index) for index in range(min(count, len(self)))]

    def rows(self) -> Ints:
        """All of the best, in the order of names."""
        if self._is_behind:
            self._search()
        return self._order.row_of[
            self._listed() if self._best is None else np.array(self._best.listed(), dtype=np.int64)
        ]
