"""ServiceAffinity as `Policy` files have it: the pods of a service on nodes with the same labels, or spread over them. Exists for older names.

A predicate with `serviceAffinity` lets a pod on nodes whose labels have the values that its node selector says, or else those of a node where pods with the same
labels are. A priority with `serviceAntiAffinity` prefers the values of its label with the fewest pods of the pod's first service.
Source: `service_affinity.go` of Kubernetes 1.22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import LabelSelector
from bayplan.scheduler.framework.arguments import ServiceAffinityArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Skip, Status
from bayplan.scheduler.framework.workload_selectors import pods_selected, selectors_of_services
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import Ints, Rows

REASON: Final = "node(s) didn't match service affinity"


class ServiceAffinity(FilterPlugin, PreScorePlugin, ScorePlugin):
    """See the module."""

    name = "ServiceAffinity"
    filter_scope = Scope.CLUSTER
    score_scope = Scope.CLUSTER
    normalizes = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, ServiceAffinityArgs) else ServiceAffinityArgs()

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        fits = np.ones(self.snapshot.select(rows), dtype=np.bool_)
        for key, value in self._wanted(state, pod).items():
            fits &= self.snapshot.label_column(key).where(frozenset((value,)).__contains__, rows)
        refused = self.reasons.code(Status.UNSCHEDULABLE, self.name, REASON)
        return np.where(fits, 0, refused).astype(np.int32)

    def _wanted(self, state: CycleState, pod: PodShape) -> dict[str, str]:
        """The labels that a node has to have: those that the pod itself says, and of the rest those of the first node where its like is."""
        keys = self.args.affinity_labels
        wanted = {key: pod.spec.node_selector[key] for key in keys if key in pod.spec.node_selector}
        if len(wanted) == len(keys) or not selectors_of_services(self.snapshot, pod):
            return wanted
        counter = self._counter(pod.namespace, selectors.from_map(dict(pod.labels)), live_only=False)
        state.data[self.name] = counter  # a counter is kept as long as somebody has it
        rows = np.flatnonzero(counter.per_row[: self.snapshot.size])
        node = self.snapshot.nodes[rows[0]] if len(rows) else None
        if node is not None:
            labels = node.metadata.labels
            wanted |= {key: labels[key] for key in keys if key in labels and key not in wanted}
        return wanted

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        found = selectors_of_services(self.snapshot, pod)
        state.score_data[self.name] = self._counter(pod.namespace, found[0], live_only=True) if found else None
        return None

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return pods_selected(self.snapshot, state.score_data[self.name], rows)

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        keys, pods = self.args.anti_affinity_labels, int(scores.sum())
        shares = np.zeros(len(scores))
        for key in keys:
            ids = self.snapshot.label_column(key).ids[feasible]
            has = ids >= 0
            if not has.any():
                continue
            part = np.full(len(scores), float(MAX_NODE_SCORE))
            if pods > 0:
                counts = np.bincount(ids[has], weights=scores[has])
                part[has] = MAX_NODE_SCORE * ((pods - counts[ids[has]]) / float(pods))
            shares += np.where(has, part / len(keys), 0.0)
        return shares.astype(np.int64)

    def _counter(self, namespace: str, selector: LabelSelector, *, live_only: bool) -> PodCounter:
        def matches(other: str, labels: Mapping[str, str]) -> bool:
            return other == namespace and selector.matches(labels)

        key = ("service affinity", namespace, selector, live_only)
        return self.snapshot.counts.counter(key, matches, live_only=live_only, anchor=selector.anchor)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Pod", Action.ADD | Action.POD_LABEL | Action.DELETE),
            EventHint("Service", Action.ADD | Action.UPDATE | Action.DELETE),
            EventHint("Node", Action.ADD | Action.NODE_LABEL),
        )
