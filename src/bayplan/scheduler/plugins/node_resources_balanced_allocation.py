"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod brings into balance.

A node's balance is 100 * (1 - standard deviation of its utilizations). The score compares the balance with and
without the pod: 50 + (50 + after - before) / 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.framework.arguments import NodeResourcesBalancedAllocationArgs
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, PreScorePlugin, Scope, ScorePlugin
from bayplan.scheduler.framework.resource_columns import resource_columns
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.two_resource_scores import balanced
from bayplan.scheduler.framework.verdicts import SKIP, Skip
from bayplan.scheduler.snapshot.device_totals import DeviceTotals, device_totals
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import is_scalar_resource

Fractions = NDArray[np.float64]


class _Balanced(NamedTuple):
    column: int
    request: int
    devices: DeviceTotals | None
    """What nodes without the resource have of devices that stand for it."""


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Scores the gain in balance; has nothing to say about pods that request none of its resources."""

    name = "NodeResourcesBalancedAllocation"
    score_scope = Scope.ROW

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = (
            args if isinstance(args, NodeResourcesBalancedAllocationArgs) else NodeResourcesBalancedAllocationArgs()
        )

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        found = []
        for item in self.args.resources:
            request = pod.amounts.requested.get(item.name, 0)
            column = self.snapshot.resources.find(item.name)
            if column is not None and (request or not is_scalar_resource(item.name)):
                devices = device_totals(self.snapshot, item.name)
                found.append(_Balanced(column, request, devices))
        wanted = any(item.request for item in found)
        state.score_data[self.name] = tuple(found) if wanted else ()
        return None if wanted else SKIP

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        snapshot = self.snapshot
        if not state.score_data[self.name]:  # Asked although PreScore is disabled, which would have said so.
            return np.zeros(snapshot.select(rows), dtype=np.int64)
        items: tuple[_Balanced, ...] = state.score_data[self.name]
        if len(items) == 2:
            one, other = items
            columns = resource_columns(snapshot, one.column, other.column)
            fast = balanced(columns, rows, (one.request, other.request))
            if fast is not None:  # all nodes have both, so that no devices stand for them
                return fast
        return self._scores(items, rows, is_empty=False)

    def score_empty(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return self._scores(state.score_data[self.name], rows, is_empty=True)

    def _scores(self, items: tuple[_Balanced, ...], rows: Rows, *, is_empty: bool) -> Ints:
        """The scores by any number of resources. is_empty: as if no pods were on the nodes."""
        snapshot = self.snapshot
        before, after, present = [], [], []
        for item in items:
            capacity = snapshot.allocatable[item.column, rows]
            requested = np.zeros_like(capacity) if is_empty else snapshot.requested[item.column, rows]
            if item.devices is not None:
                capacity, requested = item.devices.instead_of(capacity, requested, rows)
            divisor = np.where(capacity == 0, 1, capacity).astype(np.float64)
            present.append(capacity != 0)
            before.append(np.minimum(requested.astype(np.float64) / divisor, 1.0))
            after.append(np.minimum((requested + item.request).astype(np.float64) / divisor, 1.0))
        gain = MAX_NODE_SCORE // 2 + _balance(after, present) - _balance(before, present)
        scores: Ints = MAX_NODE_SCORE // 2 + np.sign(gain) * (np.abs(gain) // 2)
        return scores

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        snapshot = self.snapshot
        items: tuple[_Balanced, ...] = state.score_data[self.name]
        if not items:
            return 0
        if len(items) == 2:
            gain = self._gain_of_two(*items, row)
            if gain is not None:
                return MAX_NODE_SCORE // 2 + int(gain / 2)
        before, after = [], []
        for item in items:
            capacity = snapshot.allocatable.item(item.column, row)
            requested = snapshot.requested.item(item.column, row)
            if not capacity and item.devices is not None:
                capacity, requested = item.devices.on(row)
            if capacity:
                before.append(min(requested / capacity, 1.0))
                after.append(min((requested + item.request) / capacity, 1.0))
        gain = MAX_NODE_SCORE // 2 + _balance_of(after) - _balance_of(before)
        return MAX_NODE_SCORE // 2 + int(gain / 2)

    def _gain_of_two(self, one: _Balanced, other: _Balanced, row: int) -> int | None:
        """The gain for the usual two resources, without lists; None if the node lacks one of them."""
        allocatable, requested = self.snapshot.allocatable, self.snapshot.requested
        size, space = allocatable.item(one.column, row), allocatable.item(other.column, row)
        if not size or not space:
            return None
        used, filled = requested.item(one.column, row), requested.item(other.column, row)
        before = abs((min(used / size, 1.0) - min(filled / space, 1.0)) / 2)
        after = abs((min((used + one.request) / size, 1.0) - min((filled + other.request) / space, 1.0)) / 2)
        return MAX_NODE_SCORE // 2 + int((1 - after) * MAX_NODE_SCORE) - int((1 - before) * MAX_NODE_SCORE)


def _balance_of(fractions: list[float]) -> int:
    count = len(fractions)
    if count < 2:
        return MAX_NODE_SCORE
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        total = squares = 0.0
        for fraction in fractions:  # not sum(), which corrects rounding errors that Kubernetes makes
            total += fraction
        mean = total / count
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / count)
    return int((1 - deviation) * MAX_NODE_SCORE)


def _balance(fractions: list[Fractions], present: list[NDArray[np.bool_]]) -> Ints:
    """Balance per row; resources that a node does not have are left out, so few distinct sets of resources exist."""
    if len(fractions) == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
        deviation = np.where(present[0] & present[1], deviation, 0.0)
        return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    columns = np.stack(fractions, axis=1)
    there = np.stack(present, axis=1)
    rows = [
        _balance_of([float(v) for v, is_there in zip(values, flags, strict=True) if is_there])
        for values, flags in zip(columns, there, strict=True)
    ]
    return np.array(rows, dtype=np.int64)
