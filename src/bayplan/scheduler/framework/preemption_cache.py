"""What PostFilter found out node by node, kept in columns as long as it holds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.framework.extension_points import EVERY_ROW, FEW_ROWS, Moved
from bayplan.scheduler.framework.post_filter import Candidate
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.snapshot.labels import Bools, IntRows, Ints
from bayplan.scheduler.snapshot.snapshot import Snapshot

_NOBODY: Final = np.iinfo(np.int64).max
_ONE_BY_ONE: Final = 64
"""New prices are ranked one by one while at most one in so many is new."""
_PRICES_PER_ROW: Final = 4
"""How many prices are remembered at most."""
_COMPLEMENTS: Final = bytes(range(255, -1, -1))

_Price = tuple[tuple[int, int, int, int], bytes]
"""`Candidate.cost`, and its `top_start` so that the latest sorts first."""


class LowestPriority:
    """Per row, the lowest priority among the pods there; a very large number where there are none.

    Follows the snapshot's log of changed rows; starts over when nodes change.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._structure = -1
        self._position = 0
        self._lowest: Ints = np.zeros(0, dtype=np.int64)

    def now(self) -> Ints:
        """The column, up to date."""
        snapshot = self._snapshot
        changed = snapshot.changed_since(self._position) if self._structure == snapshot.structure else None
        rows: Iterable[int]
        if changed is None:
            self._lowest = np.full(snapshot.size, _NOBODY, dtype=np.int64)
            rows = range(snapshot.size)
        else:
            rows = dict.fromkeys(changed)
        self._structure, self._position = snapshot.structure, snapshot.position
        for row in rows:
            self._lowest[row] = min((pod.priority for pod in snapshot.pods_on[row].values()), default=_NOBODY)
        return self._lowest


class _Prices:
    """Numbers for prices as they come up, and the rank of each number among all that have come up.

    Prices 70, 30, 50 get the numbers 0, 1, 2, whose ranks are 2, 0, 1.
    """

    def __init__(self) -> None:
        self._numbers: dict[_Price, int] = {}
        self._sorted: list[_Price] = []
        self._ranks: Ints = np.zeros(0, dtype=np.int64)
        self._new: list[_Price] = []
        """Those with a number, but without a rank so far."""

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, price: _Price) -> int:
        """The number of a price."""
        number = self._numbers.get(price)
        if number is None:
            number = self._numbers[price] = len(self._numbers)
            self._new.append(price)
        return number

    def ranks(self) -> Ints:
        """Per number, how many prices are lower."""
        if len(self._new) * _ONE_BY_ONE > len(self._sorted):
            self._sorted = sorted((*self._sorted, *self._new))
            self._ranks = np.empty(len(self._sorted), dtype=np.int64)
            self._ranks[[self._numbers[price] for price in self._sorted]] = np.arange(len(self._sorted))
        else:
            for price in self._new:
                rank = bisect_left(self._sorted, price)
                self._sorted.insert(rank, price)
                self._ranks = np.append(self._ranks + (self._ranks >= rank), rank)
        self._new.clear()
        return self._ranks


class PreemptionCache:
    """What evictions would achieve on each node, for pods of one shape and priority.

    A row is known until pods on it, or nominated to it, change. Known rows are candidates, each with a price, or refuse
    with reasons, which are kept as numbers into `_reasons`. Nodes, budgets and other objects must stay the same.

    Only rows in question count: those that refuse the pod for a reason that evictions can cure. A search takes them as a
    ring, from `first` on and then those before it. All this is kept in masks, so that a search makes few and light passes:

        in question 2 3 5 8, of which 5 is unknown and 2, 8 are candidates; from 4 on: 5 is looked at, then come 8, 2
    """

    def __init__(self, snapshot: Snapshot) -> None:
        size = snapshot.size
        self._snapshot = snapshot
        self.structure = snapshot.structure
        self._position = snapshot.position
        self.nominations = 0
        """How much of the log of nominations has been taken in."""
        self.rows: IntRows = np.zeros(0, dtype=np.intp)
        """The rows in question, ascending."""
        self._in_question: Bools = np.zeros(size, dtype=np.bool_)
        self._codes: Codes = np.zeros(size, dtype=np.int32)
        """The verdicts that `_in_question` was made from; 0 is never in question."""
        self._known: Bools = np.zeros(size, dtype=np.bool_)
        self._is_candidate: Bools = np.zeros(size, dtype=np.bool_)
        self._keeps_budgets: Bools = np.zeros(size, dtype=np.bool_)
        """Which candidates violate no disruption budget."""
        self._found: IntRows | None = None
        """The candidates in question, ascending, if that has been worked out."""
        self._candidates: NDArray[np.object_] = np.full(size, None, dtype=np.object_)
        self._price_numbers: Ints = np.zeros(size, dtype=np.int64)
        """What candidates cost, as numbers of `_prices`."""
        self._prices = _Prices()
        self._refusal: Ints = np.zeros(size, dtype=np.int64)
        self._reasons: list[tuple[str, ...]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self._failures: set[int] = set()
        """Which of the reasons are failures: nobody knows what evictions would achieve."""

    # What is in question, and known

    def ask_about(self, codes: Codes, curable: Bools) -> None:
        """Rows are in question whose verdict is `curable`, which always has to say the same of a verdict.

        Between two attempts few verdicts change, if any, so these are looked for.
        """
        changed = (codes != self._codes).nonzero()[0]
        if not len(changed):
            return
        verdicts = codes[changed]
        self._codes[changed] = verdicts
        before, now = self._in_question[changed], curable[verdicts]
        if (before != now).any():
            self._in_question[changed] = now
            self.rows = self._in_question.nonzero()[0]
            self._found = None

    def catch_up(self) -> None:
        """Forget the rows whose pods changed."""
        position, self._position = self._position, self._snapshot.position
        if position == self._position:
            return
        changed = self._snapshot.changed_since(position)
        if len(self._prices) > _PRICES_PER_ROW * len(self._known):
            self._prices, changed = _Prices(), None
        self.forget(EVERY_ROW if changed is None else changed)

    def forget(self, rows: Moved) -> None:
        """What was found on some rows holds no more."""
        if isinstance(rows, slice) or len(rows) > FEW_ROWS:
            self._known[rows] = self._is_candidate[rows] = False
            self._found = None
            return
        for row in rows:
            self._known[row] = False
            if self._is_candidate[row]:
                self._is_candidate[row] = False
                self._found = None

    def offer(self, candidate: Candidate) -> None:
        """Evictions on a row would make room."""
        row = candidate.row
        self._known[row] = self._is_candidate[row] = True
        self._found = None
        self._keeps_budgets[row] = not candidate.violations
        self._candidates[row] = candidate
        self._price_numbers[row] = self._prices.number((candidate.cost, _latest_first(candidate.top_start)))

    def refuse(self, rows: IntRows | int, reasons: tuple[str, ...]) -> None:
        """Evictions on some rows would achieve nothing."""
        number = self._numbers.setdefault(reasons, len(self._reasons))
        if number == len(self._reasons):
            self._reasons.append(reasons)
        self._known[rows] = True
        self._refusal[rows] = number

    def fail(self, row: int, error: str) -> None:
        """What evictions on a row would achieve could not be found out."""
        self.refuse(row, (error,))
        self._failures.add(self._numbers[error,])

    # Searching

    def unknown(self) -> IntRows:
        """The rows in question that nothing is known of, ascending."""
        return (self._in_question > self._known).nonzero()[0]

    def to_look_at(self, unknown: IntRows, first: int, wanted: int) -> Iterator[int]:
        """The unknown rows of a search one by one, until enough candidates come before the next.

        Enough are as many as are wanted, with one that violates no budget among them. After each row, what was found
        there must have been said.
        """
        found = self._all_found()
        split, turn = _place(found, first), _place(unknown, first)
        before = found.searchsorted(unknown) - split
        if turn:
            before[:turn] += len(found)
            unknown, before = _turned(unknown, turn), _turned(before, turn)
        kept = self._first_kept(found, split)
        most = before.searchsorted(max(wanted, kept + 1))
        more, more_kept = 0, False
        for row, count in zip(unknown[:most].tolist(), before[:most].tolist(), strict=True):
            if count + more >= wanted and (count > kept or more_kept):
                return
            yield row
            if self._is_candidate[row]:
                more += 1
                more_kept = more_kept or bool(self._keeps_budgets[row])

    def found(self, first: int, wanted: int) -> IntRows:
        """The first candidates of a search: as many as are wanted, or as it takes to have one that violates no budget."""
        found = self._all_found()
        split = _place(found, first)
        most = max(wanted, self._first_kept(found, split) + 1)
        rows = found[split : split + most]
        return np.concatenate((rows, found[: min(split, most - len(rows))])) if split and len(rows) < most else rows

    def _all_found(self) -> IntRows:
        """The candidates in question, ascending."""
        found = self._found
        if found is None:
            found = self._found = (self._in_question & self._is_candidate).nonzero()[0]
        return found

    def _first_kept(self, found: IntRows, split: int) -> int:
        """How many candidates of a search come before the first that violates no budget; all of them if none is."""
        if not len(found) or self._keeps_budgets[found[split % len(found)]]:
            return 0
        kept = self._keeps_budgets[_turned(found, split)].nonzero()[0]
        return int(kept[0]) if len(kept) else len(found)

    # Candidates

    def candidates(self, rows: IntRows) -> tuple[Candidate, ...]:
        """The candidates on rows that have one."""
        return tuple(self._candidates[rows].tolist())

    def cheapest(self, rows: IntRows) -> IntRows:
        """Those of the rows, all candidates, that tie for the least cost and, of these, the latest start."""
        ranks = self._prices.ranks()
        if len(ranks) == 1:
            return rows
        of_rows = ranks[self._price_numbers[rows]]
        tied: IntRows = rows[of_rows == of_rows.min()]
        return tied

    # Refusals

    def failures(self) -> list[str]:
        """The different failures on rows in question, in the order of the rows."""
        numbers = self._refusals().tolist() if self._failures else ()
        return [self._reasons[number][0] for number in dict.fromkeys(numbers) if number in self._failures]

    def refusals(self) -> dict[str, int]:
        """How many of the rows in question refuse for each reason."""
        counts: dict[str, int] = {}
        for number, count in enumerate(np.bincount(self._refusals(), minlength=len(self._reasons)).tolist()):
            for reason in self._reasons[number] if count else ():
                counts[reason] = counts.get(reason, 0) + count
        return counts

    def _refusals(self) -> Ints:
        refusals: Ints = self._refusal[self._in_question > self._is_candidate]
        return refusals


def _place(rows: IntRows, first: int) -> int:
    """How many of the ascending rows come before one."""
    return int(rows.searchsorted(first)) if first else 0


def _turned(values: IntRows, by: int) -> IntRows:
    """The values as a ring that begins at some position."""
    return np.concatenate((values[by:], values[:by])) if by else values


def _latest_first(start: str) -> bytes:
    """A key that sorts later texts before earlier ones."""
    return start.encode().translate(_COMPLEMENTS) + b"\xff"


def cache_of(snapshot: Snapshot, candidates: Iterable[Candidate]) -> tuple[PreemptionCache, IntRows]:
    """Candidates as a cache, and their rows."""
    cache, rows = PreemptionCache(snapshot), []
    for candidate in candidates:
        cache.offer(candidate)
        rows.append(candidate.row)
    return cache, np.array(rows, dtype=np.intp)
