"""NodeName: a pod that names its node in `spec.nodeName` fits only there."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.snapshot.labels import Rows


class NodeName(FilterPlugin):
    """Refuses every node but the named one."""

    name = "NodeName"
    filter_scope = Scope.NODE

    def reads(self, pod: PodShape) -> Hashable | None:
        return pod.spec.node_name

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        wanted = pod.spec.node_name
        if not wanted:
            return np.zeros(self.snapshot.select(rows), dtype=np.int32)
        number = self.snapshot.names.number(wanted)
        code = self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) didn't match the requested node name")
        matched = self.snapshot.names.ids[rows] == (-2 if number is None else number)
        return np.where(matched, 0, code).astype(np.int32)

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Node", Action.ADD),)
