"""NodeUnschedulable: a cordoned node (`spec.unschedulable`) takes only pods that tolerate it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.snapshot.labels import Rows
from bayplan.scheduler.snapshot.taints import UNSCHEDULABLE, tolerated


class NodeUnschedulable(FilterPlugin):
    """Refuses cordoned nodes, unless the pod tolerates the taint that stands for cordoning."""

    name = "NodeUnschedulable"
    filter_scope = Scope.NODE

    def reads(self, pod: PodShape) -> Hashable | None:
        return pod.tolerations

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        cordoned = self.snapshot.unschedulable[rows]
        if not cordoned.any() or tolerated(pod.spec.tolerations, UNSCHEDULABLE):
            return np.zeros(len(cordoned), dtype=np.int32)
        code = self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) were unschedulable")
        return np.where(cordoned, code, 0).astype(np.int32)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint(
                "Node", Action.ADD | Action.NODE_TAINT, lambda pod, old, new: not new.spec.unschedulable, per_shape=True
            ),
            EventHint("Pod", Action.POD_TOLERATIONS),
        )
