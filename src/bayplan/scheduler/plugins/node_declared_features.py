"""NodeDeclaredFeatures: what a pod needs of kubelet must be in the node's `status.declaredFeatures` (KEP-5328)."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.api.declared_features import features_of
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Rows


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """Refuses nodes that do not declare a feature the pod needs."""

    name = "NodeDeclaredFeatures"
    filter_scope = Scope.NODE
    filter_alone = 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'

    def reads(self, pod: PodShape) -> Hashable | None:
        return features_of(pod.spec)

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        required = features_of(pod.spec)
        if not required:
            return SKIP
        state.data[self.name] = required
        return None

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        required: frozenset[str] = state.data[self.name]
        code = self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) didn't match Pod's required features")
        declared = self.snapshot.features.where(lambda features: required <= (features or frozenset()), rows)
        return np.where(declared, 0, code).astype(np.int32)

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Node", Action.ADD | Action.NODE_FEATURES), EventHint("Pod", Action.UPDATE))
