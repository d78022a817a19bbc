"""ResourceLimitsPriority: a point for nodes that have as much cpu or memory as a pod's limits. Exists for old `Policy` files.

It was there to decide between nodes that are equally good by all else. Source: `resource_limits.go` of Kubernetes 1.9 to 1.19 (gate ResourceLimitsPriorityFunction).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.api.quantity import milli_value, value
from bayplan.scheduler.framework.extension_points import Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.resources import CPU, MEMORY


class ResourceLimitsPriority(ScorePlugin):
    """Gives a score of 1 to nodes that have what one of the pod's limits says, else 0."""

    name = "ResourceLimitsPriority"
    score_scope = Scope.NODE

    def reads(self, pod: PodShape) -> Hashable | None:
        return _limits(pod)

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        cpu, memory = _limits(pod)
        scores = np.zeros(self.snapshot.select(rows), dtype=np.int64)
        for column, limit in ((CPU, cpu), (MEMORY, memory)):
            if limit:
                scores |= self.snapshot.allocatable[column, rows] >= limit
        return scores


def _limits(pod: PodShape) -> tuple[int, int]:
    """Millicores and bytes, 0 for no limit: the sum over containers, or what one init container may have if that is more."""
    cpu = memory = 0
    for container in pod.spec.containers:
        limits = container.resources.limits
        cpu += milli_value(limits.get("cpu", 0))
        memory += value(limits.get("memory", 0))
    for container in pod.spec.init_containers:
        limits = container.resources.limits
        cpu = max(cpu, milli_value(limits.get("cpu", 0)))
        memory = max(memory, value(limits.get("memory", 0)))
    return cpu, memory
