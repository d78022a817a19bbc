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
Ints = NDArray[np.int64]
Rows = NDArray[np.intp] | slice
"""Rows to look at: an index array, or a slice for all of them."""

T = TypeVar("T", bound=Hashable)


def grow(array: NDArray[Any], capacity: int, fill: int) -> NDArray[Any]:
    """A copy with room for `capacity` entries on the last axis; new entries hold `fill`."""
    grown = np.full((*array.shape[:-1], capacity), fill, dtype=array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown


class EncodedColumn(Generic[T]):
    """One value per row, stored as its number in `values`; -1 where there is none."""

    __slots__ = ("_index", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, -1, dtype=np.int32)
        self.values: list[T] = []
        self._index: dict[T, int] = {}

    def set(self, row: int, value: T | None) -> None:
        """Store a row's value; None takes it away."""
        self.ids[row] = -1 if value is None else self.intern(value)

    def intern(self, value: T) -> int:
        """The number of a value, made if it is new."""
        number = self._index.get(value)
        if number is None:
            number = self._index[value] = len(self.values)
            self.values.append(value)
        return number

    def number(self, value: T) -> int | None:
        """The number of a value, None if no row ever had it."""
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
