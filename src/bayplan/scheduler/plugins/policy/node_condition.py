"""NodeCondition: keeps pods off nodes whose conditions say that they are not well. Exists for older names.

Today taints say the same. As the predicates did, memory pressure keeps off only pods without any request or limit for
cpu and memory, which are the first to be evicted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bayplan.scheduler.framework.arguments import NodeConditionArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.snapshot.labels import Rows

REASONS: Final = {
    "MemoryPressure": "node(s) had memory pressure",
    "DiskPressure": "node(s) had disk pressure",
    "PIDPressure": "node(s) had pid pressure",
    "Ready": "node(s) were not ready",
}


class NodeCondition(FilterPlugin):
    """Refuses nodes with the condition in its arguments (for `Ready`: without it)."""

    name = "NodeCondition"
    filter_scope = Scope.NODE

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, NodeConditionArgs) else NodeConditionArgs("Ready")

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        if self.args.condition == "MemoryPressure" and not is_best_effort(pod):
            return np.zeros(self.snapshot.select(rows), dtype=np.int32)
        refused = self.reasons.code(Status.UNSCHEDULABLE, self.name, REASONS[self.args.condition])
        answers = [refused if self._has(row) else 0 for row in self.snapshot.rows_of(rows)]
        return np.array(answers, dtype=np.int32)

    def _has(self, row: int) -> bool:
        facts = self.snapshot.facts[row]
        return facts is not None and self.args.condition in facts.troubles

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Node", Action.ADD | Action.NODE_CONDITION),)


def is_best_effort(pod: PodShape) -> bool:
    """Whether no container asks for cpu or memory or limits it."""
    return not any(
        amount not in ("0", "")
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for amounts in (container.resources.requests, container.resources.limits)
        for name, amount in amounts.items()
        if name in ("cpu", "memory")
    )
