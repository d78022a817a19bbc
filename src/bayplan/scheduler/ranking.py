"""The feasible rows with the highest total, kept as totals change one by one.

Rows are ranked by the names of their nodes, so that a choice among equally good nodes does not depend on the order in
which nodes were added, nor on what was cached before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from bayplan.scheduler.snapshot.labels import Ints


class NameOrder:
    """The order of the nodes' names: `rank_of[row]`, and back, `row_of[rank]`. `is_sorted`: rank equals row."""

    __slots__ = ("is_sorted", "rank_of", "row_of")

    def __init__(self, names: Sequence[str]) -> None:
        rows = sorted(range(len(names)), key=names.__getitem__)
        self.row_of: Ints = np.array(rows, dtype=np.int64)
        self.rank_of: Ints = np.empty(len(names), dtype=np.int64)
        self.rank_of[self.row_of] = np.arange(len(names))
        self.is_sorted = bool((self.row_of == np.arange(len(names))).all())


class Ranking:
    """The best rows of an array of totals. Totals below zero are those of rows that are not feasible.

    `update` after every change of one entry, or `start` after a change of many. The list of the best is made when
    single entries change; a mere choice of the first needs none.
    """

    __slots__ = ("_best", "_order", "_ranks", "_totals", "highest")

    def __init__(self, totals: Ints, order: NameOrder) -> None:
        self._ranks: Ints
        """The ranks of the best, ascending; valid while `_best` is None."""
        self._best: list[int] | None
        self.highest: int
        self.start(totals, order)

    def start(self, totals: Ints, order: NameOrder) -> None:
        """Find the best among all rows. The array is looked at again later, so it must be the one that changes."""
        self._order = order
        self._totals = totals
        self._best = None
        self.highest = int(np.maximum.reduce(totals)) if len(totals) else -1
        if self.highest < 0:
            self.highest = -1
            self._ranks = np.zeros(0, dtype=np.int64)
            return
        rows = (totals == self.highest).nonzero()[0]
        self._ranks = rows if order.is_sorted else np.sort(order.rank_of[rows])

    def update(self, row: int, before: int, total: int) -> None:
        """One row's total changed."""
        highest = self.highest
        if before == total or (before < highest and total < highest) or (before < 0 and total < 0):
            return
        rank = self._order.rank_of.item(row)
        if total > highest:
            self.highest = total
            self._best = [rank]
            return
        best = self._best
        if best is None:
            best = self._best = self._ranks.tolist()
        position = bisect_left(best, rank)
        if total == highest:
            best.insert(position, rank)
            return
        del best[position]
        if not best:
            self.start(self._totals, self._order)

    def __len__(self) -> int:
        return len(self._ranks) if self._best is None else len(self._best)

    def row(self, index: int) -> int:
        """The row of one of the best, counted in the order of names."""
        rank = self._ranks.item(index) if self._best is None else self._best[index]
        return self._order.row_of.item(rank)

    def rows(self) -> Ints:
        """All of the best, in the order of names."""
        return self._order.row_of[self._ranks if self._best is None else np.array(self._best, dtype=np.int64)]
