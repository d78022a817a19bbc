"""What scores of two resources are made of, as columns of floats that are kept up to date through the snapshot's log.

Scores over all rows at once are several times as fast in float64 as in int64, because processors divide integers one by
one. They are equal as long as amounts stay below `EXACT`: a quotient of two such integers, 100 at most, differs from the
next whole number by at least 2**-46 unless it is one, and by less than 2**-47 from what float64 makes of it.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import CPU, MEMORY
from bayplan.scheduler.snapshot.snapshot import Snapshot

Floats = NDArray[np.float64]

EXACT: Final = 1 << 46
"""Capacities up to which quotients of floats can stand for those of integers: 64 TiB, or 70 billion cores."""

_FEW: Final = 16
"""Up to so many changed rows are worked out one by one."""


class ResourceColumns:
    """Five floats per row, `[column, row]`, about two resources of which all nodes have something:

    - 0, 1: 100 times what pods leave of each, with defaults for containers that say nothing, at least 0
    - 2, 3: what is requested of each
    - 4: how balanced that is, from -50 to 50
    """

    __slots__ = (
        "_capacities",
        "_column",
        "_columns",
        "_latest",
        "_other",
        "_position",
        "_snapshot",
        "_structure",
        "is_uniform",
        "least",
    )

    def __init__(self, snapshot: Snapshot, one: int, other: int) -> None:
        self._snapshot = snapshot
        self._column, self._other = one, other
        self._structure = -1
        self._position = -1
        self._columns: Floats = np.zeros((5, 0), dtype=np.float64)
        self._capacities: Floats | None = None
        """`[resource, row]`, the least where a row is no node; None if floats cannot stand for integers."""
        self.least = (0.0, 0.0)
        """What the nodes have at least of each."""
        self.is_uniform = False
        """Whether all nodes have the same."""
        self._latest: tuple[Rows, Floats, Floats] | None = None
        """What `of` gave last, about some rows at this position."""

    def everywhere(self) -> tuple[Floats, Floats] | None:
        """The columns and the capacities of both resources, `[resource, row]`; not to be changed, nor kept.

        None if a node has nothing of a resource, or too much for floats to be exact.
        """
        if self._position != self._snapshot.position or self._structure != self._snapshot.structure:
            self._catch_up()
        return None if self._capacities is None else (self._columns, self._capacities)

    def of(self, rows: Rows) -> tuple[Floats, Floats]:
        """`everywhere` for some rows; the capacities are `[resource, 1]` if all nodes have the same. LookupError where that is None."""
        found = self.everywhere()
        if found is None:
            raise LookupError("floats cannot stand for what these nodes have")
        columns, capacities = found
        if isinstance(rows, slice):
            return columns[:, rows], capacities[:, :1] if self.is_uniform else capacities[:, rows]
        latest = self._latest
        if latest is None or latest[0] is not rows:
            some = capacities[:, :1] if self.is_uniform else capacities.take(rows, axis=1)
            latest = self._latest = (rows, columns.take(rows, axis=1), some)
        return latest[1], latest[2]

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._snapshot.size

    def _catch_up(self) -> None:
        snapshot = self._snapshot
        position, self._latest = snapshot.position, None
        if self._structure != snapshot.structure:
            self._structure = snapshot.structure
            self._look_at_capacities()
            self._columns = self._of_rows(snapshot.all_rows)
        else:
            rows = snapshot.changed_rows(self._position)
            if rows is None or snapshot.is_much(len(rows)):
                self._columns = self._of_rows(snapshot.all_rows)
            elif len(rows) <= _FEW:
                for row in rows:
                    for column, value in enumerate(self._of_row(row)):
                        self._columns[column, row] = value
            else:
                index = np.asarray(rows, dtype=np.intp)
                self._columns[:, index] = self._of_rows(index)
        self._position = position

    def _look_at_capacities(self) -> None:
        snapshot = self._snapshot
        rows = snapshot.all_rows
        allocatable = snapshot.allocatable[[self._column, self._other], rows]
        allocatable = allocatable[:, snapshot.alive[rows]]
        self._capacities = None
        if not allocatable.size or int(allocatable.min()) <= 0 or int(allocatable.max()) >= EXACT:
            return
        least, most = allocatable.min(axis=1), allocatable.max(axis=1)
        self.least = (float(least[0]), float(least[1]))
        self.is_uniform = bool((least == most).all())
        self._capacities = np.repeat(least.astype(np.float64).reshape(2, 1), snapshot.size, axis=1)
        self._capacities[:, snapshot.alive[rows]] = allocatable

    def _of_rows(self, rows: Rows) -> Floats:
        snapshot, columns = self._snapshot, (self._column, self._other)
        allocatable = np.stack([snapshot.allocatable[column, rows] for column in columns])
        values = np.empty((5, allocatable.shape[1]))
        for place, column in enumerate(columns):
            values[place] = np.maximum(allocatable[place] - with_defaults(snapshot, column)[rows], 0)
            values[place + 2] = snapshot.requested[column, rows]
        values[:2] *= 100.0
        shares = np.minimum(values[2:4] / np.maximum(allocatable, 1), 1.0)
        values[4] = np.floor((2.0 - np.abs(shares[0] - shares[1])) * 50.0) - 50.0
        return values

    def _of_row(self, row: int) -> tuple[float, float, float, float, float]:
        snapshot, one, other = self._snapshot, self._column, self._other
        size, space = snapshot.allocatable.item(one, row), snapshot.allocatable.item(other, row)
        used, filled = snapshot.requested.item(one, row), snapshot.requested.item(other, row)
        difference = min(used / max(size, 1), 1.0) - min(filled / max(space, 1), 1.0)
        return (
            max(size - with_defaults(snapshot, one).item(row), 0) * 100.0,
            max(space - with_defaults(snapshot, other).item(row), 0) * 100.0,
            used,
            filled,
            int((2.0 - abs(difference)) * 50.0) - 50,
        )


def resource_columns(snapshot: Snapshot, one: int, other: int) -> ResourceColumns:
    """The columns of two resources, shared by all plugins that ask for them."""
    found = snapshot.derived.get((ResourceColumns, one, other))
    if found is None:
        found = snapshot.derived[ResourceColumns, one, other] = ResourceColumns(snapshot, one, other)
    return cast(ResourceColumns, found)


def with_defaults(snapshot: Snapshot, column: int) -> Ints:
    """What is requested of a resource per row; of cpu and memory with defaults for containers that say nothing."""
    if column == CPU:
        return snapshot.nonzero_cpu
    return snapshot.nonzero_memory if column == MEMORY else snapshot.requested[column]
