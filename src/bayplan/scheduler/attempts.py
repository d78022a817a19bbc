"""What a scheduler says of itself while it runs: its queue, and its latest attempts with their times. For people; nothing decides by it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.queueing.queue import SchedulingQueue
from bayplan.scheduler.queueing.queued_pod import ACTIVE, BACKOFF, QueuedPod
from bayplan.support.clock import Clock

ATTEMPTS_KEPT: Final = 256
_MOST_QUEUED: Final = 2000
"""Pods of the queue that are described one by one; the sizes count all."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to place a pod."""

    at: float
    """Seconds since the Unix epoch."""
    seconds: float
    """How long it took to decide."""
    number: int
    """Which attempt for this pod it was."""
    pod: str
    """`namespace/name`."""
    profile: str
    decided_by: str
    node: str
    """The chosen node; "" if there is none."""
    feasible: int
    """On how many nodes it would have fit."""
    nodes: int
    refused: Decision | None
    """What was decided, if that has more to tell: the pod got no node."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        refused = self.refused
        return {
            "at": self.at,
            "micros": round(self.seconds * 1e6),
            "number": self.number,
            "pod": self.pod,
            "profile": self.profile,
            "node": self.node,
            "decidedBy": self.decided_by,
            "feasible": self.feasible,
            "nodes": self.nodes,
            "message": refused.message if refused is not None else "",
            "nominated": refused.nominated_node if refused is not None else "",
            "victims": list(refused.victims) if refused is not None else [],
        }


class AttemptLog:
    """The latest attempts of one scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempts: deque[Attempt] = deque(maxlen=ATTEMPTS_KEPT)

    def add(self, decision: Decision, number: int, seconds: float) -> None:
        """An attempt that has just ended. seconds: how long it took.

        Of a pod that got a node only figures are kept: the pod itself would stay in memory for as long as little else is placed.
        """
        attempt = Attempt(
            self._clock.now(),
            seconds,
            number,
            decision.pod,
            decision.profile,
            decision.decided_by,
            decision.node or "",
            int(np.count_nonzero(decision.codes == 0)),
            decision.node_count,
            None if decision.scheduled else decision,
        )
        self._attempts.append(attempt)

    def state(self, queue: SchedulingQueue) -> dict[str, Any]:
        """The queue and the attempts as plain data, the newest attempt first."""
        sizes, now = queue.sizes(), self._clock.monotonic()
        pods = [_queued(queued, now) for queued, _ in zip(queue.pods(), range(_MOST_QUEUED), strict=False)]
        return {"sizes": sizes, "queue": pods, "attempts": [one.to_dict() for one in reversed(self._attempts)]}


def _queued(queued: QueuedPod, now: float) -> dict[str, Any]:
    """A pod in the queue. Seconds are relative to now."""
    return {
        "pod": queued.pod.key,
        "place": queued.place,
        "priority": queued.pod.priority,
        "attempts": queued.attempts,
        "rejectedBy": list(queued.rejected_by),
        "waited": round(now - queued.first_seen, 3),
        "here": round(now - queued.since, 3) if queued.since and queued.place != ACTIVE else None,
        "ready": round(max(0.0, queued.ready_at - now), 3) if queued.place == BACKOFF else None,
        "held": queued.held,
    }
