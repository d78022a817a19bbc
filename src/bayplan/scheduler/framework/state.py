"""What one pod's scheduling shares between plugins."""

from __future__ import annotations

from typing import Any, Protocol

from bayplan.scheduler.framework.verdicts import ReasonTable
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape
from bayplan.scheduler.snapshot.snapshot import Snapshot


class Handle(Protocol):
    """What a plugin is given when it is made."""

    snapshot: Snapshot
    reasons: ReasonTable


class CycleState:
    """The state of scheduling one pod, or all pods of one shape.

    `data[plugin name]` is what a plugin worked out in PreFilter or PreScore and reads in Filter and Score. Everything
    in it must follow from the shape and the snapshot, since pods of one shape share it.
    """

    __slots__ = ("data", "score_data", "skip_filter", "skip_score", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.data: dict[str, Any] = {}
        self.score_data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()


__all__ = ["CycleState", "Handle", "PodInfo", "PodShape"]
