"""What a scheduler says of itself while it runs: its queue, and its latest attempts with their times. For people; nothing decides by it."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec
import numpy as np

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.queueing.queue import SchedulingQueue
from bayplan.scheduler.queueing.queued_pod import ACTIVE, BACKOFF, QueuedPod
from bayplan.support.clock import Clock

ATTEMPTS_KEPT: Final = 256
_TOGETHER: Final = 32
_MOST_QUEUED: Final = 2000
"""Pods of the queue that are described one by one; the sizes count all."""


class AttemptLog:
    """The latest attempts of one scheduler. What they refer to is not kept, and most are kept as bytes: pods and short texts from a busy hour, scattered over
    the memory that it took, would hold that memory for as long as little else is placed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: list[dict[str, Any]] = []
        self._earlier: deque[bytes] = deque(maxlen=ATTEMPTS_KEPT // _TOGETHER)
        """Blocks of `_TOGETHER` attempts each."""

    def add(self, decision: Decision, number: int, seconds: float) -> None:
        """An attempt that has just ended. number: which one for this pod it was. seconds: how long it took."""
        self._latest.append(
            {
                "at": self._clock.now(),  # seconds since the Unix epoch
                "micros": round(seconds * 1e6),
                "number": number,
                "pod": decision.pod,
                "profile": decision.profile,
                "node": decision.node or "",
                "decidedBy": decision.decided_by,
                "feasible": int(np.count_nonzero(decision.codes == 0)),
                "nodes": decision.node_count,
                "message": decision.message,
                "nominated": decision.nominated_node,
                "victims": list(decision.victims),
            }
        )
        if len(self._latest) == _TOGETHER:
            self._earlier.append(msgspec.msgpack.encode(self._latest))
            self._latest.clear()

    def state(self, queue: SchedulingQueue) -> dict[str, Any]:
        """The queue and the attempts as plain data, the newest attempt first."""
        sizes, now = queue.sizes(), self._clock.monotonic()
        pods = [_queued(queued, now) for queued, _ in zip(queue.pods(), range(_MOST_QUEUED), strict=False)]
        attempts = [one for block in self._earlier for one in msgspec.msgpack.decode(block)] + self._latest
        return {"sizes": sizes, "queue": pods, "attempts": attempts[: -ATTEMPTS_KEPT - 1 : -1]}


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
