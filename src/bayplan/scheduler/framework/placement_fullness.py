"""How full sets of nodes would be with a pod group on them: NodeResourcesFit's rank of placements.

Packs: whatever the strategy for nodes is, the set of which more is requested is better, so that large sets stay free for
large groups (`scorePlacement` of kube-scheduler 1.36).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bayplan.scheduler.framework.arguments import NodeResourcesFitArgs
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE
from bayplan.scheduler.framework.placements import DomainSums, Proposal
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import CPU, MEMORY, is_scalar_resource
from bayplan.scheduler.snapshot.snapshot import Snapshot


class PlacementFullness:
    """Scores of 0 to 100, for the resources and weights of the scoring strategy."""

    def __init__(self, snapshot: Snapshot, args: NodeResourcesFitArgs) -> None:
        self._snapshot = snapshot
        self._args = args
        self._sums: dict[int, tuple[DomainSums, DomainSums]] = {}
        """Per resource column: what the nodes of a set have, and what pods request of it."""

    def of(self, proposal: Proposal) -> Ints:
        """A score per set of the proposal."""
        total: Ints = np.zeros(len(proposal.numbers), dtype=np.int64)
        weights = np.zeros_like(total)
        for item in self._args.resources:
            column = self._snapshot.resources.find(item.name)
            if column is None:
                continue
            added = np.zeros_like(total)
            for shape, counts in proposal.pods:
                added += counts * shape.amounts.filled.get(item.name, 0)
            allocatable, requested = self._of_sets(column)
            capacity = allocatable.of(proposal.placements)[proposal.numbers]
            used = requested.of(proposal.placements)[proposal.numbers] + added
            counts_here = capacity > 0
            if is_scalar_resource(item.name):
                counts_here &= added > 0
            scores = np.minimum(used, capacity) * MAX_NODE_SCORE // np.maximum(capacity, 1)
            total += np.where(counts_here, scores * item.weight, 0)
            weights += np.where(counts_here, item.weight, 0)
        score: Ints = total // np.maximum(weights, 1)
        return score

    def _of_sets(self, column: int) -> tuple[DomainSums, DomainSums]:
        known = self._sums.get(column)
        if known is None:
            allocatable = DomainSums(self._snapshot, partial(self._allocatable, column))
            requested = DomainSums(self._snapshot, partial(self._requested, column))
            known = self._sums[column] = (allocatable, requested)
        return known

    def _allocatable(self, column: int, rows: Rows) -> Ints:
        values: Ints = self._snapshot.allocatable[column, rows]
        return values.copy() if isinstance(rows, slice) else values

    def _requested(self, column: int, rows: Rows) -> Ints:
        snapshot = self._snapshot
        if column in (CPU, MEMORY):
            filled = snapshot.nonzero_cpu if column == CPU else snapshot.nonzero_memory
            values: Ints = filled[rows]
        else:
            values = snapshot.requested[column, rows]
        return np.where(self._has(column, rows), values, 0)

    def _has(self, column: int, rows: Rows) -> Ints:
        """Nodes that lack a resource do not count, whatever pods request there."""
        present: Ints = self._snapshot.allocatable[column, rows] != 0
        return present
