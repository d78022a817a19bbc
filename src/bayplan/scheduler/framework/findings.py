"""What PostFilter found out node by node, kept in columns as long as it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.framework.extension_points import Moved
from bayplan.scheduler.framework.post_filter import Candidate
from bayplan.scheduler.snapshot.labels import Bools, IntRows, Ints
from bayplan.scheduler.snapshot.snapshot import Snapshot

_NOBODY: Final = np.iinfo(np.int64).max
_COSTS: Final = 4
"""The figures of `Candidate.cost`."""


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


class Findings:
    """What evictions would achieve on each node, for pods of one shape and priority.

    A row is `known` until pods on it, or nominated to it, change. Known rows are candidates, with their cost in four columns, or refuse with
    reasons, which are kept as numbers into `reasons`. Nodes, budgets and other objects must stay the same.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        size = snapshot.size
        self._snapshot = snapshot
        self.structure = snapshot.structure
        self._position = snapshot.position
        self.nominations = 0
        """How much of the log of nominations has been taken in."""
        self.known: Bools = np.zeros(size, dtype=np.bool_)
        self.is_candidate: Bools = np.zeros(size, dtype=np.bool_)
        self._candidates: NDArray[np.object_] = np.full(size, None, dtype=np.object_)
        self._starts: Ints = np.zeros(size, dtype=np.int64)
        """`Candidate.top_start` as a number into `_start_texts`."""
        self._start_texts: list[str] = []
        self._start_numbers: dict[str, int] = {}
        self._costs: Ints = np.zeros((_COSTS, size), dtype=np.int64)
        self._refusal: Ints = np.zeros(size, dtype=np.int64)
        self._reasons: list[tuple[str, ...]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self._failures: set[int] = set()
        """Which of the reasons are failures: nobody knows what evictions would achieve."""

    def catch_up(self) -> None:
        """Forget the rows whose pods changed."""
        changed = self._snapshot.changed_since(self._position)
        self._position = self._snapshot.position
        if changed is None:
            self.known[:] = False
            self.is_candidate[:] = False
        else:
            self.forget(changed)

    def forget(self, rows: Moved) -> None:
        """What was found on some rows holds no more."""
        if isinstance(rows, slice) or rows:
            self.known[rows] = False
            self.is_candidate[rows] = False

    def offer(self, candidate: Candidate) -> None:
        """Evictions on a row would make room."""
        row = candidate.row
        self.known[row] = self.is_candidate[row] = True
        self._candidates[row] = candidate
        self._costs[:, row] = candidate.cost
        number = self._start_numbers.setdefault(candidate.top_start, len(self._start_texts))
        if number == len(self._start_texts):
            self._start_texts.append(candidate.top_start)
        self._starts[row] = number

    def candidates(self, rows: IntRows) -> tuple[Candidate, ...]:
        """The candidates on rows that have one."""
        return tuple(self._candidates[rows].tolist())

    def cheapest(self, rows: IntRows) -> IntRows:
        """Those of the rows, all candidates, that tie for the least cost."""
        for figure in range(_COSTS):
            values = self._costs[figure, rows]
            rows = rows[values == values.min()]
        if len(rows) == 1:
            return rows
        starts = self._starts[rows]
        latest = max(np.unique(starts).tolist(), key=self._start_texts.__getitem__)
        tied: IntRows = rows[starts == latest]
        return tied

    def refuse(self, rows: IntRows | int, reasons: tuple[str, ...]) -> None:
        """Evictions on some rows would achieve nothing."""
        number = self._numbers.setdefault(reasons, len(self._reasons))
        if number == len(self._reasons):
            self._reasons.append(reasons)
        self.known[rows] = True
        self._refusal[rows] = number

    def fail(self, row: int, error: str) -> None:
        """What evictions on a row would achieve could not be found out."""
        self.refuse(row, (error,))
        self._failures.add(self._numbers[error,])

    def failures(self, rows: IntRows) -> list[str]:
        """The different failures on rows, in their order."""
        numbers = self._refusal[rows[~self.is_candidate[rows]]].tolist() if self._failures else ()
        return [self._reasons[number][0] for number in dict.fromkeys(numbers) if number in self._failures]

    def keeps_budgets(self, rows: IntRows) -> Bools:
        """Which candidates violate no disruption budget."""
        kept: Bools = self._costs[0, rows] == 0
        return kept

    def refusals(self, rows: IntRows) -> dict[str, int]:
        """How many of the rows that refuse do so for each reason."""
        counts: dict[str, int] = {}
        numbers = self._refusal[rows[~self.is_candidate[rows]]]
        for number, count in enumerate(np.bincount(numbers, minlength=len(self._reasons)).tolist()):
            for reason in self._reasons[number] if count else ():
                counts[reason] = counts.get(reason, 0) + count
        return counts


def findings_of(snapshot: Snapshot, candidates: Iterable[Candidate]) -> tuple[Findings, IntRows]:
    """Candidates as findings, and their rows."""
    findings, rows = Findings(snapshot), []
    for candidate in candidates:
        findings.offer(candidate)
        rows.append(candidate.row)
    return findings, np.array(rows, dtype=np.intp)
