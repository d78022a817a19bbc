"""Scores of nodes by two resources, cpu and memory mostly: by a compiled loop where there is one, else by NumPy, which gives the same.

`rows` is an index array, or a slice for all rows. The answer is None where floats cannot stand for integers; see `resource_columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bayplan.scheduler.framework.resource_columns import ResourceColumns
from bayplan.scheduler.kernels.choice import KERNELS
from bayplan.scheduler.snapshot.labels import Ints, Rows

BLOCK: Final = 8192
"""So many rows at a time are scored by NumPy; what is worked out in between stays in the processor's caches."""
_PART: Final = 4
"""Loops look at all rows sooner than at more than such a part of them: processors do the same to several neighbours at once."""
_MOST_NODES: Final = 300
"""A pod may request what so many nodes have, for scores to fit into 16 bits while they are worked out."""


class _Bound:
    """A number as often as there are rows: NumPy limits an array by another one several times as fast as by a number."""

    __slots__ = ("_values",)

    def __init__(self, number: int, dtype: DTypeLike) -> None:
        self._values = np.full((2, 64), number, dtype=dtype)

    def of(self, count: int) -> NDArray[np.generic]:
        """[2, count] times the number; not to be changed."""
        if count > self._values.shape[1]:
            self._values = np.full((2, 2 * count), self._values[0, 0])
        return self._values[:, :count]


_NOTHING: Final = _Bound(0, np.int16)
_FULL: Final = _Bound(1, np.float64)


def least_allocated(
    columns: ResourceColumns, rows: Rows, requests: tuple[int, int], weights: tuple[int, int]
) -> Ints | None:
    """How much is left of the two resources, in percent of what a node has: the mean, by their weights, rounded down."""
    found = columns.everywhere()
    if found is None or requests[0] > _MOST_NODES * columns.least[0] or requests[1] > _MOST_NODES * columns.least[1]:
        return None
    loops = KERNELS.loops
    if loops is None:
        return _in_blocks(columns, rows, lambda some: _least_allocated(columns, some, requests, weights))
    if isinstance(rows, slice):
        return loops.least_allocated(*found, *requests, *weights)
    if len(rows) * _PART > columns.size:
        return loops.least_allocated(*found, *requests, *weights).take(rows)
    return loops.least_allocated_on(*found, np.ascontiguousarray(rows), *requests, *weights)


def balanced(columns: ResourceColumns, rows: Rows, requests: tuple[int, int]) -> Ints | None:
    """The gain in balance: 50 + (50 + after - before) / 2, with the balance 100 * (1 - half the difference of the two shares)."""
    found = columns.everywhere()
    if found is None:
        return None
    loops = KERNELS.loops
    if loops is None:
        return _in_blocks(columns, rows, lambda some: _balanced(columns, some, requests))
    if isinstance(rows, slice):
        return loops.balanced(*found, *requests)
    if len(rows) * _PART > columns.size:
        return loops.balanced(*found, *requests).take(rows)
    return loops.balanced_on(*found, np.ascontiguousarray(rows), *requests)


def _in_blocks(columns: ResourceColumns, rows: Rows, score: Callable[[Rows], Ints]) -> Ints:
    """Scores of some rows, or all, block by block if these are many."""
    size = columns.size
    if not isinstance(rows, slice):
        KERNELS.note(len(rows), size)
        return score(rows)
    KERNELS.note(size, size)
    if size <= BLOCK:
        return score(rows)
    return np.concatenate([score(slice(start, min(start + BLOCK, size))) for start in range(0, size, BLOCK)])


def _least_allocated(columns: ResourceColumns, rows: Rows, requests: tuple[int, int], weights: tuple[int, int]) -> Ints:
    values, capacities = columns.of(rows)
    taken = np.array(requests, dtype=np.float64).reshape(2, 1)
    taken *= 100.0
    left = values[:2] - taken
    left /= capacities
    scores: Ints = left.astype(np.int16)
    np.maximum(scores, _NOTHING.of(scores.shape[1]), out=scores)
    if weights[0] == weights[1]:
        total: Ints = scores[0]
        total += scores[1]
        total >>= 1
        return total
    total = scores[0] * np.int64(weights[0]) + scores[1] * np.int64(weights[1])
    total //= weights[0] + weights[1]
    return total.astype(np.int16)


def _balanced(columns: ResourceColumns, rows: Rows, requests: tuple[int, int]) -> Ints:
    """With d the difference of the two shares, (1 - d / 2) * 100 is worked out as (2 - d) * 50: halving a float is exact."""
    values, capacities = columns.of(rows)
    shares = values[2:4] + np.array(requests, dtype=np.float64).reshape(2, 1)
    shares /= capacities
    np.minimum(shares, _FULL.of(shares.shape[1]), out=shares)
    gain: NDArray[np.float64] = shares[0]
    gain -= shares[1]
    np.abs(gain, out=gain)
    np.subtract(2.0, gain, out=gain)
    gain *= 50.0
    np.floor(gain, out=gain)
    gain -= values[4]
    gain *= 0.5
    scores: Ints = gain.astype(np.int16)
    scores += 50
    return scores
