"""Columns of floats that follow from what a row has and what is requested of it, kept up to date through the snapshot's log.

Scores over all rows at once are several times as fast in float64 as in int64, because processors divide integers one by
one. They are equal as long as amounts stay below `EXACT`: a quotient of two such integers, 100 at most, differs from the
next whole number by at least 2**-46 unless it is one, and by less than 2**-47 from what float64 makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.snapshot.labels import Rows
from bayplan.scheduler.snapshot.snapshot import Snapshot

Floats = NDArray[np.float64]

EXACT: Final = 1 << 46
"""Capacities up to which quotients of floats can stand for those of integers: 64 TiB, or 70 billion cores."""

_FEW: Final = 16
"""Up to so many changed rows are worked out one by one."""


class KeptColumn:
    """A float per row. `of_rows` works it out for many rows, `of_row` for one; both read the snapshot, and agree."""

    __slots__ = ("_of_row", "_of_rows", "_position", "_snapshot", "_structure", "_values")

    def __init__(self, snapshot: Snapshot, of_rows: Callable[[Rows], Floats], of_row: Callable[[int], float]) -> None:
        self._snapshot = snapshot
        self._of_rows = of_rows
        self._of_row = of_row
        self._structure = -1
        self._position = 0
        self._values: Floats = np.zeros(0, dtype=np.float64)

    def values(self) -> Floats:
        """The column as things are now; not to be changed, nor kept."""
        snapshot = self._snapshot
        position = snapshot.position
        if self._structure != snapshot.structure:
            self._start_over()
        elif self._position != position:
            rows = snapshot.changed_rows(self._position)
            if rows is None or snapshot.is_much(len(rows)):
                self._start_over()
            elif len(rows) <= _FEW:
                for row in rows:
                    self._values[row] = self._of_row(row)
            else:
                index = np.asarray(rows, dtype=np.intp)
                self._values[index] = self._of_rows(index)
        self._position = position
        return self._values

    def _start_over(self) -> None:
        self._structure = self._snapshot.structure
        self._values = self._of_rows(self._snapshot.all_rows)


class Capacities:
    """What rows have of resources, as floats; 1 where a row is no node, so that it can be divided by."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._structure = -1
        self._columns: dict[int, Floats | None] = {}

    def of(self, column: int) -> Floats | None:
        """A resource's capacities; None if a node has nothing of it, or too much for floats to be exact."""
        snapshot = self._snapshot
        if self._structure != snapshot.structure:
            self._structure = snapshot.structure
            self._columns.clear()
        if column in self._columns:
            return self._columns[column]
        rows = snapshot.all_rows
        capacity = np.where(snapshot.alive[rows], snapshot.allocatable[column, rows], 1)
        fits = len(capacity) > 0 and int(capacity.min()) > 0 and int(capacity.max()) < EXACT
        found = self._columns[column] = capacity.astype(np.float64) if fits else None
        return found
