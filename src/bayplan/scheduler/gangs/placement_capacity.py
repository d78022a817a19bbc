"""How many pods of a group sets of nodes can hold at most, from columns, before any pod is tried.

What a row can hold of equal pods follows from its free resources. The figure is never too small, so that a set which
it rules out need not be tried; it can be too great where pods of one group are in each other's way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bayplan.scheduler.framework.extension_points import FilterPlugin
from bayplan.scheduler.framework.placements import DomainSums, Placements
from bayplan.scheduler.framework.state import PodShape
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.scoring.evaluation import Evaluation
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import Vector
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.scheduler.cycle import Cycle

FIT: Final = "NodeResourcesFit"
_MOST_SHAPES: Final = 64
_NO_LIMIT: Final = 1 << 31
"""Pods on a row that nothing limits: more than any group has, and sums of it stay exact."""


class _Quotients:
    """How often some requests go into what is free on rows; those of all rows are kept for other shapes with the same requests."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known_for: tuple[Vector, int, int] | None = None
        self._known: Ints = np.zeros(0, dtype=np.int64)

    def of(self, vector: Vector, rows: Rows) -> Ints:
        """Per row the least quotient, int64; not to be changed. vector: one request at least."""
        snapshot = self._snapshot
        known_for = (vector, snapshot.position, snapshot.structure)
        if isinstance(rows, slice) and self._known_for == known_for:
            return self._known
        quotients = [snapshot.free[column, rows] // amount for column, amount in vector]
        least = quotients[0]
        for one in quotients[1:]:
            least = np.minimum(least, one)
        if isinstance(rows, slice):
            self._known_for, self._known = known_for, least
        return least


class _SharedSums:
    """The sums that were worked out last: shapes that differ in what does not matter here (labels, say) have the same."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._placements: Placements | None = None
        self._known_for: tuple[object, int, int] | None = None
        self._codes: Codes | None = None
        self._sums: Ints = np.zeros(0, dtype=np.int64)

    def of(self, placements: Placements, read: tuple[Vector, int, bool], codes: Codes | None, sums: DomainSums) -> Ints:
        """The sums of a shape; not to be changed. read, codes: what they follow from besides the nodes; no codes if all nodes count."""
        known_for = (read, self._snapshot.position, self._snapshot.structure)
        if self._placements is not placements or self._known_for != known_for or not _are_equal(self._codes, codes):
            self._placements, self._known_for = placements, known_for
            self._codes = codes.copy() if codes is not None else None
            self._sums = sums.of(placements)
        return self._sums


def _are_equal(one: Codes | None, other: Codes | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


class _PodCapacity:
    """What rows can hold of one shape."""

    def __init__(self, cycle: Cycle, shape: PodShape, quotients: _Quotients) -> None:
        self._cycle = cycle
        self._shape = shape
        self._quotients = quotients
        self._evaluation: Evaluation | None = None
        self._vector: Vector = ()
        self._counts_pods = False
        self._most = _NO_LIMIT
        self.sums = DomainSums(cycle.snapshot, self._of_rows)

    def of(self, placements: Placements, shared: _SharedSums) -> Ints:
        """Pods per set. Raises PluginError."""
        evaluation = self._evaluation = self._cycle.evaluation(self._shape)
        if evaluation.rejection is not None:
            return np.zeros(len(placements.names), dtype=np.int64)
        fit = self._cycle.profile.plugins.get(FIT)
        self._counts_pods = isinstance(fit, FilterPlugin) and fit in self._cycle.profile.filter
        self._vector = self._limiting(evaluation) if self._counts_pods else ()
        self._most = 1 if self._shape.host_ports else _NO_LIMIT
        # A verdict that looks beyond its row may change as the group's own pods are placed.
        codes = None if evaluation.has_cross_node_filters else evaluation.codes
        return shared.of(placements, (self._vector, self._most, self._counts_pods), codes, self.sums)

    def _limiting(self, evaluation: Evaluation) -> Vector:
        """The requests that nodes must have room for, those left out that devices may provide."""
        data = evaluation.state.data
        devices = data.get(f"{FIT}/devices", ())
        return tuple(pair for pair in data.get(FIT, ()) if pair[0] not in devices)

    def _of_rows(self, rows: Rows) -> Ints:
        snapshot, evaluation = self._cycle.snapshot, self._evaluation
        assert evaluation is not None
        is_open = snapshot.alive[rows] if evaluation.has_cross_node_filters else evaluation.codes[rows] == 0
        most = np.minimum(snapshot.places[rows], self._most) if self._counts_pods else self._most
        room: Ints = np.where(is_open, most, 0)
        if self._vector:
            np.minimum(room, self._quotients.of(self._vector, rows), out=room)
        return np.maximum(room, 0, out=room)


class PlacementCapacity:
    """The capacity for each shape of a profile's pods, kept from one group to the next."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._capacities: dict[PodShape, _PodCapacity] = {}
        self._quotients = _Quotients(cycle.snapshot)
        self._shared = _SharedSums(cycle.snapshot)

    def of(self, shape: PodShape, placements: Placements) -> Ints:
        """How many pods of a shape each set can hold at most, int64 per set; shared, not to be changed. Raises PluginError."""
        capacity = self._capacities.pop(shape, None)
        if capacity is None:
            capacity = _PodCapacity(self._cycle, shape, self._quotients)
            while len(self._capacities) >= _MOST_SHAPES:
                del self._capacities[next(iter(self._capacities))]
        self._capacities[shape] = capacity
        return capacity.of(placements, self._shared)
