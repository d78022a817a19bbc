"""The loops. As Python they give the same as compiled, and take long.

Sums and quotients are written in the order in which the NumPy twins evaluate them, so that floats are rounded alike. Nothing is called that
a compiler could not see into, and no module is used but NumPy.

`columns` and `capacities` are those of `framework.resource_columns`, `[.., row]`. What a pod requests of the two resources are `one` and `other`. Functions
whose name ends in `_on` look at some rows, the others at all; scores are int16, verdicts int32, one per row that was looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Scores = NDArray[np.signedinteger[Any]]
"""Of 16 bits."""
IntRows = NDArray[np.intp]


def least_allocated(
    columns: Floats, capacities: Floats, one: float, other: float, one_weight: int, other_weight: int
) -> Scores:
    """How much is left of two resources, in percent of what the nodes have, on average."""
    left, space, size, room = columns[0], columns[1], capacities[0], capacities[1]
    scores = np.empty(len(left), dtype=np.int16)
    one, other = one * 100.0, other * 100.0
    if one_weight == other_weight:
        for row in range(len(left)):
            first = np.int32(max((left[row] - one) / size[row], 0.0))
            second = np.int32(max((space[row] - other) / room[row], 0.0))
            scores[row] = (first + second) >> 1
        return scores
    for row in range(len(left)):
        first = np.int32(max((left[row] - one) / size[row], 0.0))
        second = np.int32(max((space[row] - other) / room[row], 0.0))
        scores[row] = (first * one_weight + second * other_weight) // (one_weight + other_weight)
    return scores


def least_allocated_on(
    columns: Floats,
    capacities: Floats,
    rows: IntRows,
    one: float,
    other: float,
    one_weight: int,
    other_weight: int,
) -> Scores:
    """`least_allocated` for some rows."""
    scores = np.empty(len(rows), dtype=np.int16)
    one, other = one * 100.0, other * 100.0
    for index in range(len(rows)):
        row = rows[index]
        first = np.int32(max((columns[0, row] - one) / capacities[0, row], 0.0))
        second = np.int32(max((columns[1, row] - other) / capacities[1, row], 0.0))
        scores[index] = (first * one_weight + second * other_weight) // (one_weight + other_weight)
    return scores


def balanced(columns: Floats, capacities: Floats, one: float, other: float) -> Scores:
    """The gain in balance that a pod brings, from 0 to 100."""
    used, filled, before = columns[2], columns[3], columns[4]
    size, room = capacities[0], capacities[1]
    scores = np.empty(len(used), dtype=np.int16)
    for row in range(len(used)):
        share = min((used[row] + one) / size[row], 1.0)
        difference = abs(share - min((filled[row] + other) / room[row], 1.0))
        scores[row] = np.int32((np.floor((2.0 - difference) * 50.0) - before[row]) * 0.5) + 50
    return scores


def balanced_on(columns: Floats, capacities: Floats, rows: IntRows, one: float, other: float) -> Scores:
    """`balanced` for some rows."""
    scores = np.empty(len(rows), dtype=np.int16)
    for index in range(len(rows)):
        row = rows[index]
        share = min((columns[2, row] + one) / capacities[0, row], 1.0)
        difference = abs(share - min((columns[3, row] + other) / capacities[1, row], 1.0))
        scores[index] = np.int32((np.floor((2.0 - difference) * 50.0) - columns[4, row]) * 0.5) + 50
    return scores


def verdicts(
    places: Integers,
    free: Integers,
    allocatable: Integers,
    columns: Integers,
    amounts: Integers,
    may_be_devices: Integers,
    table: Codes,
    count: int,
) -> Codes:
    """What the first rows lack for a pod, as a verdict: that of a bit set in the table.

    The lowest bit is for places, then there are two for each resource: less is free than requested, and less is there. places[row], free[column, row],
    allocatable[column, row]: of the snapshot. columns, amounts: what is requested. may_be_devices: 1 for those that a node without the resource does not lack.
    """
    codes = np.empty(count, dtype=np.int32)
    for row in range(count):
        codes[row] = places[row] <= 0
    for index in range(len(columns)):
        left, size, amount = free[columns[index]], allocatable[columns[index]], amounts[index]
        short = 1 << (2 * index + 1)
        both, least = short | short << 1, 1 if may_be_devices[index] else 0
        for row in range(count):
            if left[row] < amount and size[row] >= least:
                codes[row] |= both if size[row] < amount else short
    for row in range(count):
        codes[row] = table[codes[row]]
    return codes
