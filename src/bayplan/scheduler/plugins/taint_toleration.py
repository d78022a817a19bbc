"""TaintToleration: nodes repel pods that do not tolerate their taints.

NoSchedule and NoExecute taints refuse; PreferNoSchedule taints cost score.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, ScaledScorePlugin, Scope, default_scale
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.taints import PREFER_NO_SCHEDULE, TaintKey, has_untolerated, tolerated


class TaintToleration(FilterPlugin, ScaledScorePlugin):
    """Refuses nodes with untolerated taints; prefers nodes with fewer untolerated PreferNoSchedule taints."""

    name = "TaintToleration"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    equal_stays_equal = True
    score_alone = 'failed to read "PreScoreTaintToleration" from cycleState: not found'

    def reads(self, pod: PodShape) -> Hashable | None:
        return pod.tolerations

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        code = self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) had untolerated taint(s)")
        tolerations = pod.spec.tolerations

        def verdict(taints: tuple[TaintKey, ...] | None) -> int:
            return code if has_untolerated(tolerations, taints or ()) else 0

        return self.snapshot.taints.gather(verdict, rows).astype(np.int32)

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        tolerations = tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))

        def untolerated(taints: tuple[TaintKey, ...] | None) -> int:
            return sum(
                1 for taint in taints or () if taint.effect == PREFER_NO_SCHEDULE and not tolerated(tolerations, taint)
            )

        return self.snapshot.taints.gather(untolerated, rows)

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        return default_scale(scores, highest, reverse=True)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Node", Action.ADD | Action.NODE_TAINT, _node_is_tolerated, per_shape=True),
            EventHint("Pod", Action.POD_TOLERATIONS),
        )


def _node_is_tolerated(pod: PodInfo, old: Any, new: Any) -> bool:
    taints = [TaintKey(taint.key, taint.value, taint.effect) for taint in new.spec.taints]
    return not has_untolerated(pod.pod.spec.tolerations, taints)
