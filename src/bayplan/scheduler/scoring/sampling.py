"""Which feasible nodes are looked at if a configuration wants only some of them (`percentageOfNodesToScore`).

Nodes are taken in turn: zone after zone in the order in which nodes joined, so that each zone has its share, beginning where the last look
ended. A look ends at the first feasible node that is one too many; the next begins there.

    zones x (nodes 0, 3), y (1), z (2): the order is 0 1 2 3; two are wanted, 1 is not feasible: 0 and 2 are taken, the next look begins at 3

Source: `findNodesThatPassFilters`, `numFeasibleNodesToFind` and `nodeTree` of kube-scheduler 1.36. There, a node that moves to another zone becomes
the last one of it; here it keeps its age.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from bayplan.scheduler.scoring.shared_answers import NO_NODE
from bayplan.scheduler.snapshot.labels import IntRows
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.scheduler.framework.verdicts import Codes

FEWEST: Final = 100
"""Feasible nodes that are always looked at, whatever the percentage."""
_ZONE: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")


class NodeSampling:
    """The looks at the nodes of one profile."""

    def __init__(self, snapshot: Snapshot, percentage: int) -> None:
        """percentage: of all nodes, 1 to 100; with 0 or 100, every look is at all of them."""
        self._snapshot = snapshot
        self._percentage = percentage
        self.start = 0
        """The place in the order where the next look begins."""
        self._order: IntRows = np.zeros(0, dtype=np.intp)
        self._known_at = -1

    @property
    def is_partial(self) -> bool:
        """Whether any node may be left out."""
        return 0 < self._percentage < 100

    def order(self) -> IntRows:
        """The rows of all nodes in the order in which they take turns."""
        if self._known_at != self._snapshot.structure:
            self._known_at = self._snapshot.structure
            self._order = self._in_turn()
        return self._order

    def _in_turn(self) -> IntRows:
        zones: dict[tuple[str, str], list[int]] = {}
        for row in self._snapshot.row_of.values():
            node = self._snapshot.nodes[row]
            if node is not None:
                labels = node.metadata.labels
                zones.setdefault((_first(labels, _REGION), _first(labels, _ZONE)), []).append(row)
        turns = [
            rows[turn]
            for turn in range(max(map(len, zones.values()), default=0))
            for rows in zones.values()
            if turn < len(rows)
        ]
        return np.array(turns, dtype=np.intp)

    def sample(self, codes: Codes) -> Codes:
        """The verdicts per row, with feasible nodes that are not looked at left out."""
        order = self.order()
        order = order[codes[order] != NO_NODE]
        count = len(order)
        wanted = max(count * self._percentage // 100, FEWEST)
        if count < FEWEST:
            return codes
        feasible = np.flatnonzero(np.roll(codes[order] == 0, -(self.start % count)))
        if len(feasible) <= wanted:
            return codes
        looked_at = int(feasible[wanted])
        beyond = np.roll(order, -(self.start % count))[feasible[wanted:]]
        self.start = (self.start + looked_at) % count
        kept = codes.copy()
        kept[beyond] = NO_NODE
        return kept


def _first(labels: Mapping[str, str], keys: tuple[str, str]) -> str:
    """The value of the first of two labels that is there."""
    return labels.get(keys[0]) or labels.get(keys[1], "")
