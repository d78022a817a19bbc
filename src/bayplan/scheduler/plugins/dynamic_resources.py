"""DynamicResources: resource claims (DRA). Pods without claims pass, with a score of 0, as in the default profile."""

from __future__ import annotations

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    FilterPlugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Scope,
    ScorePlugin,
    default_normalize,
)
from bayplan.scheduler.framework.post_filter import PostFilterContext, PostFilterOutcome
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Ints, Rows


class DynamicResources(PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin):
    """Refuses pods with claims, saying so: devices are not allocated here."""

    name = "DynamicResources"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    normalizes = True
    equal_stays_equal = True

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        return None

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        if not pod.spec.resource_claims:
            return SKIP
        return Reject(Status.UNRESOLVABLE, ("resource claims are not supported by this scheduler",))

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.zeros(self.snapshot.select(rows), dtype=np.int32)

    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        """Says that no claim can be given up; without the state that PreFilter would have left, says `not found`."""
        if context.rejected_early:
            return PostFilterOutcome(Status.ERROR, ("not found",))
        return PostFilterOutcome(Status.UNSCHEDULABLE, ("no new claims to deallocate",))

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return np.zeros(self.snapshot.select(rows), dtype=np.int64)

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=False)

    def events(self) -> tuple[EventHint, ...]:
        changes = Action.ADD | Action.UPDATE
        return (
            EventHint("ResourceClaim", changes),
            EventHint("ResourceSlice", changes),
            EventHint("DeviceClass", changes),
            EventHint("Pod", Action.POD_CLAIMS),
        )
