"""EqualPriority: the same for every node. Exists for old `Policy` files."""

from __future__ import annotations

import numpy as np

from bayplan.scheduler.framework.extension_points import Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.snapshot.labels import Ints, Rows


class EqualPriority(ScorePlugin):
    """Gives every node a score of 1."""

    name = "EqualPriority"
    score_scope = Scope.NODE

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return np.ones(self.snapshot.select(rows), dtype=np.int64)
