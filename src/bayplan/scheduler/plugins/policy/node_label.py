"""NodeLabel as `Policy` files have it: nodes that have some labels and lack others, whatever the values. Exists for older names.

Predicates with `labelsPresence` refuse nodes, priorities with `labelPreference` prefer some: 100 for each label that is as wanted, divided by how many there are.
Source: `node_label.go` of Kubernetes 1.22.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from bayplan.scheduler.framework.arguments import NodeLabelArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, FilterPlugin, Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.snapshot.labels import Ints, Rows

REASON: Final = "node(s) didn't have the requested labels"


class NodeLabel(FilterPlugin, ScorePlugin):
    """See the module."""

    name = "NodeLabel"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, NodeLabelArgs) else NodeLabelArgs()

    def reads(self, pod: PodShape) -> Hashable | None:
        return ()

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        fits = np.ones(self.snapshot.select(rows), dtype=np.bool_)
        for key in self.args.present:
            fits &= self._has(key, rows)
        for key in self.args.absent:
            fits &= ~self._has(key, rows)
        refused = self.reasons.code(Status.UNRESOLVABLE, self.name, REASON)
        return np.where(fits, 0, refused).astype(np.int32)

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        args = self.args
        scores = np.zeros(self.snapshot.select(rows), dtype=np.int64)
        for key in args.present_preference:
            scores += MAX_NODE_SCORE * self._has(key, rows)
        for key in args.absent_preference:
            scores += MAX_NODE_SCORE * ~self._has(key, rows)
        scores //= max(len(args.present_preference) + len(args.absent_preference), 1)
        return scores

    def _has(self, key: str, rows: Rows) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        found: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = self.snapshot.label_column(key).ids[rows] >= 0
        return found

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Node", Action.ADD | Action.NODE_LABEL),)
