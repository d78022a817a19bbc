"""What fair queuing moves around: requests, the queues in which they wait, and what is counted of them."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from bayplan.apiserver.flow_control.work import Work

CONCURRENCY_LIMIT: Final = "concurrency-limit"
QUEUE_FULL: Final = "queue-full"
TIME_OUT: Final = "time-out"
CANCELLED: Final = "cancelled"
"""Why requests are rejected, as metrics name it."""
EXEMPT: Final = -1
"""Number of queues of a level without a limit; 0 is a level that rejects what is beyond its limit."""


class State(Enum):
    """Where a request is on its way through the queues."""

    WAITING = "waiting"
    EXECUTING = "executing"
    OVER = "over"


class FlowCounts:
    """How many requests of one flow schema are, or were, at one priority level."""

    __slots__ = ("dispatched", "executing", "no_room", "rejected", "seats", "waiting", "waiting_seats")

    def __init__(self) -> None:
        self.waiting = 0
        self.waiting_seats = 0
        self.executing = 0
        self.seats = 0
        """Seats that are occupied, also after requests."""
        self.dispatched = 0
        """Requests that have ever started."""
        self.no_room = 0
        """How often the next request did not start since there were too few seats."""
        self.rejected: dict[str, int] = {}
        """Requests by reason."""

    def reject(self, reason: str) -> None:
        """Count a rejected request."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


class Flow:
    """What requests have in common that are to be treated alike: those of one user, or in one namespace."""

    __slots__ = ("counts", "hand")

    def __init__(self, counts: FlowCounts, hand: tuple[int, ...] = ()) -> None:
        self.counts = counts
        self.hand = hand
        """Indexes of the queues that the flow may use; empty if its level has none."""


F = TypeVar("F", bound=Flow)


class Ticket(Generic[F]):
    """One request at a priority level."""

    __slots__ = ("arrival", "arrival_r", "details", "flow", "queue", "reason", "started", "state", "work")

    def __init__(self, work: Work, flow: F, details: Any, arrival: float, arrival_r: int) -> None:
        self.work = work
        self.flow = flow
        self.details = details
        """What the caller knows of the request."""
        self.arrival = arrival
        self.arrival_r = arrival_r
        """R when it came, in units of work."""
        self.started = arrival
        self.state = State.EXECUTING
        self.queue: Queue | None = None
        self.reason = ""
        """Why it was rejected; "" if it was not."""

    @property
    def is_waiting(self) -> bool:
        """Whether it may still start."""
        return self.state is State.WAITING

    @property
    def is_executing(self) -> bool:
        """Whether it has started and is not answered."""
        return self.state is State.EXECUTING

    def reject(self, reason: str) -> None:
        """It does not execute."""
        self.state, self.reason = State.OVER, reason
        self.flow.counts.reject(reason)


class Queue:
    """Requests of some flows in the order in which they came, and those of them that execute."""

    __slots__ = ("executing", "index", "next_dispatch", "seats", "waiting", "waiting_work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: deque[Ticket[Any]] = deque()
        self.waiting_work = 0
        """Sum of the total work of those, in units."""
        self.executing: dict[Ticket[Any], None] = {}
        self.seats = 0
        """Seats that are occupied, also after requests."""
        self.next_dispatch = 0
        """R at which the next request would start, in units of work."""

    def bound(self) -> None:
        """No request starts before it came: a queue that does not use its share does not save it up."""
        if self.waiting and self.next_dispatch < self.waiting[0].arrival_r:
            self.next_dispatch = self.waiting[0].arrival_r


class Dispatch(NamedTuple):
    """The progress meters at the last start of a request, in units of work: R, the start of the chosen queue, and bounds over queues with requests waiting."""

    r: int
    start: int
    lowest: int
    highest: int
    lowest_discounted: int
    highest_discounted: int
