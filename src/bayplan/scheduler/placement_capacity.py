"""How many pods of a group sets of nodes can hold at most, from columns, before any pod is tried.

What a row can hold of equal pods follows from its free resources. The figure is never too small, so that a set which
it rules out need not be tried; it can be too great where pods of one group are in each other's way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bayplan.scheduler.evaluation import Evaluation
from bayplan.scheduler.framework.extension_points import FilterPlugin
from bayplan.scheduler.framework.placements import DomainSums, Placements
from bayplan.scheduler.framework.state import PodShape
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import Vector

if TYPE_CHECKING:
    from bayplan.scheduler.cycle import Cycle

FIT: Final = "NodeResourcesFit"
_MOST_SHAPES: Final = 64
_NO_LIMIT: Final = 1 << 31
"""Pods on a row that nothing limits: more than any group has, and sums of it stay exact."""


class _PodCapacity:
    """What rows can hold of one shape."""

    def __init__(self, cycle: Cycle, shape: PodShape) -> None:
        self._cycle = cycle
        self._shape = shape
        self._evaluation: Evaluation | None = None
        self._vector: Vector = ()
        self._counts_pods = False
        self.sums = DomainSums(cycle.snapshot, self._of_rows)

    def of(self, placements: Placements) -> Ints:
        """Pods per set. Raises PluginError."""
        evaluation = self._evaluation = self._cycle.evaluation(self._shape)
        if evaluation.rejection is not None:
            return np.zeros(len(placements.names), dtype=np.int64)
        fit = self._cycle.profile.plugins.get(FIT)
        self._counts_pods = isinstance(fit, FilterPlugin) and fit in self._cycle.profile.filter
        self._vector = self._limiting(evaluation) if self._counts_pods else ()
        return self.sums.of(placements)

    def _limiting(self, evaluation: Evaluation) -> Vector:
        """The requests that nodes must have room for, those left out that devices may provide."""
        data = evaluation.state.data
        devices = data.get(f"{FIT}/devices", ())
        return tuple(pair for pair in data.get(FIT, ()) if pair[0] not in devices)

    def _of_rows(self, rows: Rows) -> Ints:
        snapshot, evaluation = self._cycle.snapshot, self._evaluation
        assert evaluation is not None
        room: Ints = np.full(snapshot.select(rows), _NO_LIMIT, dtype=np.int64)
        if self._counts_pods:
            room = np.minimum(room, snapshot.places[rows])
        for column, amount in self._vector:
            room = np.minimum(room, snapshot.free[column, rows] // amount)
        if self._shape.host_ports:
            room = np.minimum(room, 1)
        # A verdict that looks beyond its row may change as the group's own pods are placed.
        refused = ~snapshot.alive[rows] if evaluation.has_cross_node_filters else evaluation.codes[rows] != 0
        room[refused] = 0
        return np.maximum(room, 0)


class PlacementCapacity:
    """The capacity for each shape of a profile's pods, kept from one group to the next."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._capacities: dict[PodShape, _PodCapacity] = {}

    def of(self, shape: PodShape, placements: Placements) -> Ints:
        """How many pods of a shape each set can hold at most, int64 per set; shared, not to be changed. Raises PluginError."""
        capacity = self._capacities.pop(shape, None)
        if capacity is None:
            capacity = _PodCapacity(self._cycle, shape)
            while len(self._capacities) >= _MOST_SHAPES:
                del self._capacities[next(iter(self._capacities))]
        self._capacities[shape] = capacity
        return capacity.of(placements)
