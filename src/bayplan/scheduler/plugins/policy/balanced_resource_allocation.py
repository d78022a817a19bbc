"""BalancedResourceAllocation as `Policy` files have it: the node on which the shares of cpu and memory are closest wins.

With the pod there, a node's score is 100 * (1 - |share of cpu - share of memory|), and 0 if either is full. Containers that request nothing count with defaults.
Source: `balanced_allocation.go` of Kubernetes 1.21 and before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, PreScorePlugin, Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Skip
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import CPU, MEMORY


class BalancedResourceAllocation(PreScorePlugin, ScorePlugin):
    """See the module. Its successor, NodeResourcesBalancedAllocation, compares the balance with and without the pod."""

    name = "BalancedResourceAllocation"
    score_scope = Scope.ROW

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        state.score_data[self.name] = (pod.nonzero_cpu, pod.nonzero_memory)
        return None

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        cpu = self._shares(CPU, self.snapshot.nonzero_cpu, pod.nonzero_cpu, rows)
        memory = self._shares(MEMORY, self.snapshot.nonzero_memory, pod.nonzero_memory, rows)
        scores = ((1.0 - np.abs(cpu - memory)) * MAX_NODE_SCORE).astype(np.int64)
        scores[(cpu >= 1.0) | (memory >= 1.0)] = 0
        return scores

    def _shares(self, column: int, requested: Ints, request: int, rows: Rows) -> NDArray[np.float64]:
        """What is requested of what each node has, the pod included; 1 of a resource that it does not have."""
        capacity = self.snapshot.allocatable[column, rows]
        wanted = (requested[rows] + request).astype(np.float64)
        shares: NDArray[np.float64] = np.where(capacity == 0, 1.0, wanted / np.where(capacity == 0, 1, capacity))
        return shares
