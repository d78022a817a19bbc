"""Node labels as integer columns, and distinct sets of anything as dictionary-encoded columns.

Worked example: nodes with `zone` = b, a, (none), b give `values == ["b", "a"]` and `ids == [0, 1, -1, 0]`. A predicate
is evaluated once per distinct value and gathered: `table = [ok("b"), ok("a"), ok(None)]`, `table[ids]`; the -1 of a
missing label picks the last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Bools = NDArray[np.bool_]
Ints = NDArray[np.signedinteger[Any]]
"""Integers of any width; of 64 bits unless said otherwise."""
Counts = NDArray[np.int32]
"""Numbers of pods."""
IntRows = NDArray[np.intp]
Rows = IntRows | slice
"""Rows to look at: an index array, or a slice for all of them."""
ChangedRows = list[int] | IntRows
"""Rows that changed, each of them once: a list of few, or an array of many."""

T = TypeVar("T", bound=Hashable)
V = TypeVar("V", bound=np.generic)


def part(values: NDArray[V], rows: Rows) -> NDArray[V]:
    """A column's entries for some rows; not to be changed, since it may be the column itself."""
    return values[rows] if isinstance(rows, slice) else values.take(rows)


def listed(rows: ChangedRows) -> list[int]:
    """Some rows as a list."""
    return rows if isinstance(rows, list) else rows.tolist()


def grow(array: NDArray[Any], capacity: int, fill: int) -> NDArray[Any]:
    """A copy with room for `capacity` entries on the last axis; new entries hold `fill`."""
    grown = np.full((*array.shape[:-1], capacity), fill, dtype=array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown


class EncodedColumn(Generic[T]):
    """One value per row, stored as its number in `values`; -1 where there is none.

    A value that no row has any more gives its number to the next new value, so that nodes may come and go for ever.
    """

    __slots__ = ("_free", "_index", "_rows", "_uses", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, -1, dtype=np.int32)
        self.values: list[T] = []
        self._index: dict[T, int] = {}
        self._uses: list[int] = []
        """Rows per number."""
        self._free: list[int] = []
        self._rows: dict[int, IntRows] = {}
        """What `rows_of` found; dropped with every change of a row's value."""

    def set(self, row: int, value: T | None) -> None:
        """Store a row's value; None takes it away."""
        before = self.ids.item(row)
        self.ids[row] = -1 if value is None else self._intern(value)
        if before >= 0:
            self._uses[before] -= 1
            if not self._uses[before]:
                del self._index[self.values[before]]
                self._free.append(before)
        if self._rows:
            self._rows.clear()

    def rows_of(self, number: int) -> IntRows:
        """The rows that hold a value, by its number; shared, not to be changed."""
        rows = self._rows.get(number)
        if rows is None:
            rows = self._rows[number] = np.flatnonzero(self.ids == number)
        return rows

    def rows_per_value(self) -> Ints:
        """How many rows hold each value, by its number."""
        return np.array(self._uses, dtype=np.int64)

    def _intern(self, value: T) -> int:
        """The number of a value, made if it is new, with one more row that has it."""
        number = self._index.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.values[number] = value
            else:
                number = len(self.values)
                self.values.append(value)
                self._uses.append(0)
            self._index[value] = number
        self._uses[number] += 1
        return number

    def number(self, value: T) -> int | None:
        """The number of a value, None if no row has it."""
        return self._index.get(value)

    def get(self, row: int) -> T | None:
        """The value of a row."""
        number = self.ids.item(row)
        return None if number < 0 else self.values[number]

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self.ids = grow(self.ids, capacity, -1)

    def where(self, predicate: Callable[[T | None], bool], rows: Rows) -> Bools:
        """The predicate of each row's value, evaluated once per distinct value; None stands for no value."""
        table = np.fromiter((predicate(v) for v in (*self.values, None)), dtype=np.bool_, count=len(self.values) + 1)
        return table[self.ids[rows]]

    def gather(self, function: Callable[[T | None], int], rows: Rows) -> Ints:
        """An integer of each row's value, computed once per distinct value."""
        table = np.fromiter((function(v) for v in (*self.values, None)), dtype=np.int64, count=len(self.values) + 1)
        return table[self.ids[rows]]


LabelColumn = EncodedColumn[str]
