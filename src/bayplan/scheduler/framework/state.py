"""What one pod's scheduling shares between plugins."""

from __future__ import annotations

from typing import Any, Protocol

from bayplan.scheduler.framework.meter import Meter
from bayplan.scheduler.framework.verdicts import ReasonTable
from bayplan.scheduler.framework.waiting import WaitingPods
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape
from bayplan.scheduler.snapshot.snapshot import Snapshot


class Handle(Protocol):
    """What a plugin is given when it is made."""

    name: str
    """The profile's."""
    snapshot: Snapshot
    reasons: ReasonTable
    waiting: WaitingPods
    """Pods that Permit plugins hold back; plugins approve or refuse them here."""
    feature_gates: frozenset[str]
    """Those of `WORKLOAD_GATES` that are on."""
    meter: Meter | None
    """Tells the time to plugins that limit their own; None where there is no time (and no limit), as in the library."""


class CycleState:
    """The state of scheduling one pod, or all pods of one shape.

    `data[plugin name]` is what a plugin worked out in PreFilter or PreScore and reads in Filter and Score. Everything
    in it must follow from the shape and the snapshot, since pods of one shape share it. From Reserve on, a pod has a
    state of its own (`for_pod`), and `own[plugin name]` is for what plugins keep about it until it is bound.
    """

    __slots__ = ("data", "own", "score_data", "skip_filter", "skip_score", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.data: dict[str, Any] = {}
        self.score_data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.own: dict[str, Any] = {}

    def for_pod(self) -> CycleState:
        """A state for one pod on its way to a node, with what was worked out for its shape so far."""
        state = CycleState(self.snapshot)
        state.data, state.score_data = self.data, self.score_data
        state.skip_filter, state.skip_score = self.skip_filter, self.skip_score
        return state

    def for_scores(self) -> CycleState:
        """A state in which PreScore can be asked about other feasible nodes, without a trace in this one."""
        state = CycleState(self.snapshot)
        state.data, state.score_data = self.data, dict(self.score_data)
        state.skip_filter, state.skip_score = self.skip_filter, self.skip_score
        return state


__all__ = ["CycleState", "Handle", "PodInfo", "PodShape"]
