"""Priority levels: the limits that follow from their objects, and how limits follow the demand.

    shares -> nominal limit     the level's part of the server's limit
    nominal - lendable = lowest what others may not borrow
    nominal + borrowed = highest
    current                     between these: adjusted to the demand every ten seconds

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/apf_controller.go`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.apiserver.flow_control.allocation import MINIMUM_TARGET, Share, allocate
from bayplan.apiserver.flow_control.demand import Demand
from bayplan.apiserver.flow_control.pacing import Turnstile
from bayplan.apiserver.flow_control.parameters import (
    LONGEST_REFUSAL,
    REFUSALS_PER_TURN,
    RESUMPTIONS_PER_TURN,
    SEAT_SHARE,
    SEATS_PER_TURN,
)
from bayplan.apiserver.flow_control.queue_set import QueueSet
from bayplan.apiserver.flow_control.queues import EXEMPT, FlowCounts
from bayplan.apiserver.flow_control.retry_after import RetryAfter
from bayplan.apiserver.flow_control.shuffle_sharding import deck_error


class Times:
    """Seconds by a number, for each of the numbers that metrics show: there are few of each, but thousands of combinations of them in ten seconds."""

    __slots__ = ("executing", "seats", "waiting", "wanted")

    def __init__(self) -> None:
        self.executing: dict[int, float] = {}
        """By requests that execute."""
        self.waiting: dict[int, float] = {}
        """By requests that wait."""
        self.seats: dict[int, float] = {}
        """By seats that are occupied."""
        self.wanted: dict[int, float] = {}
        """By seats that are occupied or waited for."""

    def add(self, durations: Mapping[tuple[int, int, int, int], float], all_wanted: dict[int, float]) -> None:
        """Take over what `QueueSet.durations` says. all_wanted: gets the seconds by seats wanted as well."""
        executing, waiting, seats, wanted = (
            defaultdict[int, float](float),
            defaultdict[int, float](float),
            defaultdict[int, float](float),
            defaultdict[int, float](float),
        )
        for (running, taken, queued, more), seconds in durations.items():
            executing[running] += seconds
            waiting[queued] += seconds
            seats[taken] += seconds
            wanted[taken + more] += seconds
        for new, into in (
            (executing, self.executing),
            (waiting, self.waiting),
            (seats, self.seats),
            (wanted, self.wanted),
            (wanted, all_wanted),
        ):
            for number, seconds in new.items():
                into[number] = into.get(number, 0.0) + seconds


class Level:
    """One priority level while requests are assigned to it, or are left over in it."""

    def __init__(self, config: fc.PriorityLevelConfiguration, now: float) -> None:
        self.config = config
        """The object; not to be mutated."""
        self.queue_set = QueueSet(now)
        self.queue_set.seats_per_turn = SEATS_PER_TURN
        self.turnstile = Turnstile(RESUMPTIONS_PER_TURN)
        """For what executes, and goes on after it has waited for something."""
        self.refusals = Turnstile(REFUSALS_PER_TURN, LONGEST_REFUSAL)
        """For what is rejected."""
        self.retry_after = RetryAfter()
        self.demand = Demand()
        self.target = 0.0
        """Seats that the last adjustment wanted to give it."""
        self.nominal = self.lowest = self.highest = self.current = 0
        """Limits in seats (see the module)."""
        self.most_seats = 0
        """What one request may occupy; 0: no limit of the level's own."""
        self.is_quiescing = False
        """Whether its object is gone: it goes when its last request is answered."""
        self.counts: dict[str, FlowCounts] = {}
        """By the name of the flow schema."""
        self.times = Times()
        """What `QueueSet.durations` has collected for metrics; to be replaced by who reads it."""
        self._wanted: dict[int, float] = {}
        """Seconds by seats wanted, since the last adjustment."""

    @property
    def name(self) -> str:
        """Name of its object."""
        return self.config.metadata.name

    @property
    def is_exempt(self) -> bool:
        """Whether its requests always execute."""
        return self.config.spec.limited is None

    def is_contended(self) -> bool:
        """Whether requests wait to start."""
        return self.queue_set.waiting > 0

    @property
    def queuing(self) -> fc.QueuingConfiguration | None:
        """Its queues; None if it has none."""
        limited = self.config.spec.limited
        return None if limited is None else limited.limit_response.queuing

    @property
    def shares(self) -> int:
        """Its part of the server's limit, in proportion to those of the others."""
        part = self.config.spec.limited or self.config.spec.exempt
        return (part.nominal_concurrency_shares if part is not None else 0) or 0

    def flow_counts(self, schema: str) -> FlowCounts:
        """What is counted of a flow schema."""
        counts = self.counts.get(schema)
        if counts is None:
            counts = self.counts[schema] = FlowCounts()
        return counts

    def configure(self, config: fc.PriorityLevelConfiguration, now: float) -> None:
        """Take over a changed object."""
        self.config = config
        queuing = self.queuing
        if self.is_exempt:
            self.queue_set.configure(now, EXEMPT, 0)
        elif queuing is None:
            self.queue_set.configure(now, 0, 0)
        else:
            self.queue_set.configure(now, queuing.queues, queuing.queue_length_limit)

    def divide(self, server_limit: int, share_sum: int) -> None:
        """Set the limits that do not depend on the demand. share_sum: shares of all levels."""
        nominal = math.ceil(server_limit * self.shares / share_sum) if share_sum else 0
        part = self.config.spec.limited or self.config.spec.exempt
        lendable = _part_of(nominal, (part.lendable_percent if part is not None else 0) or 0)
        limited = self.config.spec.limited
        borrowing = limited.borrowing_limit_percent if limited is not None else None
        self.nominal = nominal
        self.lowest = nominal - lendable
        self.highest = nominal + (server_limit if borrowing is None else _part_of(nominal, borrowing))
        if not self.current:
            self.current = nominal - lendable // 2  # until the first adjustment
        if self.queuing is not None:
            self.most_seats = max(1, min(math.ceil(nominal * SEAT_SHARE), nominal // self.queuing.hand_size))

    def collect(self, now: float) -> None:
        """Read what the queues have measured."""
        queue_set = self.queue_set
        queue_set.advance(now)
        durations, queue_set.durations = queue_set.durations, {}
        self.times.add(durations, self._wanted)

    def end_period(self, now: float) -> None:
        """Learn what has been wanted since the last adjustment."""
        self.collect(now)
        queue_set = self.queue_set
        self.demand.update(self._wanted, queue_set.highest_demand)
        self._wanted = {}
        queue_set.highest_demand = queue_set.seats + queue_set.waiting_seats

    @property
    def least_current(self) -> int:
        """What the adjustment gives it at least: what it has used, as far as that is its own."""
        if self.is_exempt:
            return max(self.lowest, self.demand.highest)
        return max(self.lowest, min(self.nominal, self.demand.highest))


def config_error(config: fc.PriorityLevelConfiguration) -> str:
    """Why an object makes no priority level; "" if it does. Validation does not let such objects in, but what is in the store may be older."""
    spec = config.spec
    if (spec.type == "Limited") != (spec.limited is not None):
        return "broken union structure at the top, for Limited"
    if (spec.type == "Exempt") != (spec.exempt is not None):
        return "broken union structure at the top, for Exempt"
    if (spec.type == "Exempt") != (config.metadata.name == "exempt"):
        return "non-alignment between name and type"
    if spec.limited is None:
        return ""
    response = spec.limited.limit_response
    if (response.type == "Reject") != (response.queuing is None):
        return "broken union structure for limit response"
    queuing = response.queuing
    return "" if queuing is None else deck_error(queuing.queues, queuing.hand_size)


def adjust(levels: Iterable[Level], now: float) -> float:
    """Give each level the concurrency that its demand and its bounds make of what there is. Returns the proportion of their targets that levels get (0: not even
    what they use)."""
    levels = list(levels)
    for level in levels:
        level.end_period(now)
    limited = [level for level in levels if not level.is_exempt]
    left = sum(level.nominal for level in levels)
    for level in levels:
        if level.is_exempt:
            level.target = level.current = level.least_current
            left -= level.current
    proportion = _divide(limited, left, sum(level.nominal for level in levels))
    for level in levels:
        level.queue_set.limit = level.current
    return proportion


def _divide(limited: Sequence[Level], left: int, total: int) -> float:
    """Set the current limits of levels that have one. left: seats that exempt requests do not use; total: seats of all levels."""
    lowest = sum(level.lowest for level in limited)
    floors = [level.least_current for level in limited]
    least = sum(floors)
    shares = [
        Share(max(floor, level.demand.smoothed), floor, level.highest)
        for level, floor in zip(limited, floors, strict=True)
    ]
    for level, share in zip(limited, shares, strict=True):
        level.target = max(share.target, MINIMUM_TARGET)
    if left <= lowest:
        for level in limited:
            level.current = level.lowest
        return 0.0
    if left <= least:
        fraction = (left - lowest) / (least - lowest)
        for level in limited:
            level.current = level.lowest + _rounded((level.least_current - level.lowest) * fraction)
        return 0.0
    try:
        allocation = allocate(total, shares)
    except ValueError:
        return 0.0  # the limits stay as they are
    for level, seats in zip(limited, allocation.seats, strict=True):
        level.current = _rounded(seats)
    return allocation.proportion


def _part_of(seats: int, percent: int) -> int:
    return _rounded(seats * percent / 100)


def _rounded(number: float) -> int:
    """To the nearest integer, halves up, as Go rounds."""
    return math.floor(number + 0.5)
