"""A pod in the scheduling queue, and the places where it can be."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Protocol

from bayplan.scheduler.snapshot.pods import PodInfo

ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"
IN_FLIGHT: Final = "in-flight"


class Clock(Protocol):
    """What the queue needs of a clock; `bayplan.support.clock.Clock` has it."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""


@dataclass(slots=True)
class QueuedPod:
    """A pod in the queue. Times are seconds of the queue's clock."""

    pod: PodInfo
    sort_key: tuple[float, ...]
    first_seen: float
    attempts: int = 0
    place: str = ACTIVE
    rejected_by: tuple[str, ...] = ()
    """Sorted: who waits for what, and who is woken first, must not depend on the order of a set."""
    since: float = 0.0
    """When it came to its present place."""
    ready_at: float = 0.0
    """When its back-off is over."""
    stamp: int = 0
    """Tells whether a heap entry is still about this state of the pod."""
    waits_as: tuple[Hashable, ...] = ()
    """Its bucket among the waiting pods, per plugin of `rejected_by`."""
    held: bool = False
    """It is unschedulable, but room is being made for it: events that may help it count when that is done."""
    helped: str = ""
    """The first such event that happened."""
    flushed: bool = False
    """It came back from the unschedulable pods because it had waited long enough, and not because of an event."""
