"""A scheduler plugin: keeps pods off nodes labelled `example.com/noisy` unless they are labelled `example.com/deaf`, and prefers nodes with few pods."""

from __future__ import annotations

import numpy as np

from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, ScalarFilterPlugin, Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Status
from bayplan.scheduler.snapshot.labels import Ints, Rows

NOISY, DEAF = "example.com/noisy", "example.com/deaf"


class QuietNodes(ScalarFilterPlugin, ScorePlugin):
    """The filter looks at one node at a time; the score is worked out for all nodes at once."""

    name = "QuietNodes"
    filter_scope = Scope.NODE  # the verdict depends on the node alone, not on the pods there
    score_scope = Scope.ROW  # the score depends on the pods of that node, too

    def filter_node(self, state: CycleState, pod: PodShape, row: int) -> int:
        node = self.snapshot.nodes[row]
        if node is None or NOISY not in node.metadata.labels or DEAF in pod.labels:
            return 0
        return self.reasons.code(Status.UNSCHEDULABLE, self.name, "node(s) were noisy")

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return MAX_NODE_SCORE - np.minimum(self.snapshot.pod_count[rows], MAX_NODE_SCORE)
