"""Fair queuing for one priority level: which of its requests execute, which wait, and which are rejected.

A limit on seats bounds what executes at once. Requests beyond it wait in queues, one of which is chosen for each request among the hand of its flow. A queue is
charged for the work of each request that it starts; next is the queue whose oldest request would finish first, had all had equal shares since they became busy:

    R(t)              work that each busy queue could have done until now ("virtual time"): grows by min(seats wanted, limit) / busy queues per second, or by seats
                      occupied / busy queues where requests may wait only for the event loop (`new_turn`): all they get is that
    next_dispatch     R at which a queue's next request would start; grows by the request's work when one starts, corrected when it finishes

Worked example: limit 1, requests of 3 ms. Queue A has 3 requests waiting, then B gets one. A starts at R=0, so A's next_dispatch is 3 ms; B became busy at R=1.5 ms
and its request would finish at 4.5 ms, A's second one at 6 ms: B is next.

Nothing here knows asyncio: methods return what was started, and the caller tells those requests. Times are seconds of a monotonic clock and never go back.

Source: Kubernetes' `fairqueuing/queueset`. Its sums over all queues are kept up to date here instead, and seats that stay occupied after a request are given back
when time passes their end, so that an uncontended request costs neither a loop over queues nor a timer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Final

from bayplan.apiserver.flow_control.parameters import EXPRESS_SEATS_PER_TURN, SERVICE_SECONDS
from bayplan.apiserver.flow_control.queues import (
    CONCURRENCY_LIMIT,
    EXEMPT,
    QUEUE_FULL,
    TIME_OUT,
    Dispatch,
    F,
    Queue,
    State,
    Ticket,
)
from bayplan.apiserver.flow_control.work import SCALE, Work, seat_seconds

UNLIMITED: Final = 1 << 60
_EXECUTING, _OVER = State.EXECUTING, State.OVER
_NOTHING: Final[list[Ticket[Any]]] = []
"""What most requests start in their place."""


class QueueSet:
    """The requests of one priority level."""

    def __init__(self, now: float) -> None:
        """now: seconds of the clock from which all times come."""
        self.desired_queues = EXEMPT
        self.queue_length_limit = 0
        self.limit = 0
        """Seats that may be occupied at once."""
        self.seats_per_turn = UNLIMITED
        """Seats that may be taken between two calls of `new_turn`."""
        self.queues: list[Queue] = []
        self.r = 0
        self.now = now
        self.executing = self.seats = self.waiting = self.waiting_seats = 0
        self.timed_out = self.cancelled = self.enqueued = 0
        self._last_dispatch: Dispatch | None = None
        """None if the last request did not have to wait: then `_at_once` has its R, the start of its queue, and the seats of that."""
        self._at_once = (0, 0, 0)
        self.durations: dict[tuple[int, int, int, int], float] = {}
        """Seconds spent with so many requests executing, seats occupied, requests waiting and seats wanted by those; to be emptied by who reads it. Not kept of a
        level without a limit, of which it would say nothing that is needed."""
        self.highest_demand = 0
        """Most seats that were occupied or wanted at once; to be set back by who reads it."""
        self.without_queue: dict[Ticket[Any], None] = {}
        """What executes of a level without queues."""
        self._active = 0
        """Queues with a request that waits or executes."""
        self._backlogged: dict[Queue, None] = {}
        """Queues with a request that waits."""
        self._robin = 0
        self._turn_seats = 0
        self._express_seats = 0
        """Of these, taken by requests that did not wait for their turn."""
        self._lingering: list[tuple[float, int, Ticket[Any]]] = []
        """Seats that are occupied after their requests: a heap by the time of their release."""
        self._lingered = 0

    # ------------------------------------------------------------------ configuration

    def configure(self, now: float, queues: int, length_limit: int) -> None:
        """Have so many queues (EXEMPT, 0 or more) of this length. What waits in further ones goes on to wait there."""
        self.advance(now)
        if queues > 0:
            self.queue_length_limit = length_limit
            self.queues.extend(Queue(index) for index in range(len(self.queues), queues))
        self.desired_queues = queues

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or executes."""
        return not (self.waiting or self.executing)

    @property
    def next_release(self) -> float | None:
        """When seats become free by themselves; None if none do."""
        return self._lingering[0][0] if self._lingering else None

    # ------------------------------------------------------------------ time

    def advance(self, now: float) -> None:
        """Let time pass: R grows, and seats whose time is over become free."""
        while self._lingering and self._lingering[0][0] <= now:
            at, _, ticket = heapq.heappop(self._lingering)
            self._pass(at)
            self._release(ticket)
        self._pass(now)

    def _pass(self, now: float) -> None:
        elapsed = now - self.now
        if elapsed <= 0.0 or self.desired_queues < 0:
            return
        key = (self.executing, self.seats, self.waiting, self.waiting_seats)
        self.durations[key] = self.durations.get(key, 0.0) + elapsed
        if self._active:
            if self.seats_per_turn < UNLIMITED:
                served = self.seats  # what waits may wait only for the event loop: no more is served than this
            else:
                served = min(self.seats + self.waiting_seats, self.limit)
            self.r += round(served / self._active * elapsed * SCALE)
        self.now = now

    # ------------------------------------------------------------------ requests

    def start(self, now: float, work: Work, flow: F, details: Any = None, *, is_instant: bool = False) -> Ticket[F]:
        """A request comes. It executes, waits, or is rejected; `dispatch` is to be called if it waits. is_instant: see `may_start`."""
        if self.desired_queues < 0:
            return self.start_exempt(now, work, flow, details)
        if self._lingering:
            self.advance(now)
        elif now > self.now:
            self._pass(now)
        ticket = Ticket(work, flow, details, now, self.r)
        if self.desired_queues == 0 and self._has_room(work.seats):
            self._execute(ticket, now)
        elif self.desired_queues == 0:
            ticket.reject(CONCURRENCY_LIMIT)
        else:
            self._assign(ticket, now, is_instant=is_instant)
        return ticket

    def start_exempt(self, now: float, work: Work, flow: F, details: Any) -> Ticket[F]:
        """`start` at a level without a limit, and without what only limits need: most requests of components come this way."""
        ticket = Ticket(work, flow, details, now, 0)
        counts, seats = flow.counts, work.seats
        counts.executing += 1
        counts.seats += seats
        counts.dispatched += 1
        self.executing += 1
        self.seats = seats = self.seats + seats
        if seats > self.highest_demand:
            self.highest_demand = seats
        self.without_queue[ticket] = None
        return ticket

    def note_exempt(self, flow: F) -> None:
        """A request of one seat of a level without a limit was started and finished before anything else happened."""
        flow.counts.dispatched += 1
        if self.seats >= self.highest_demand:
            self.highest_demand = self.seats + 1

    def _assign(self, ticket: Ticket[Any], now: float, *, is_instant: bool) -> None:
        """Find a queue for a request, and a seat if there is one."""
        queue = self._choose(ticket.flow.hand)
        if self.seats >= self.limit and len(queue.waiting) >= self.queue_length_limit:
            ticket.reject(QUEUE_FULL)
            return
        ticket.queue = queue
        if not (queue.waiting or queue.executing):
            queue.next_dispatch = self.r
            self._active += 1
        has_room = self.seats < self.limit and self._has_room(ticket.work.seats)
        if has_room and not (self.waiting or self._turn_seats >= self.seats_per_turn):
            self._execute_at_once(queue, ticket, now)
        elif (has_room or (is_instant and self.limit)) and self._is_express(queue):
            self._express_seats += ticket.work.seats
            self._execute_at_once(queue, ticket, now)
        else:
            self._enqueue(queue, ticket)

    def _is_express(self, queue: Queue) -> bool:
        """Whether a request need not wait for its turn: its queue is empty, and only few have done so since the last turn."""
        return not (queue.waiting or queue.executing) and self._express_seats < EXPRESS_SEATS_PER_TURN

    def new_turn(self, now: float) -> list[Ticket[Any]]:
        """Requests may start again that had to wait only since many have just started. Returns what is started now."""
        self.advance(now)  # by what was served in the turn
        self._turn_seats = self._express_seats = 0
        return self.dispatch(now)

    def finish(self, now: float, ticket: Ticket[Any]) -> list[Ticket[Any]]:
        """An executing request is answered. Returns what is started in its place."""
        if self.desired_queues < 0 and ticket.queue is None:
            self.finish_exempt(ticket)
            return _NOTHING
        if self._lingering:
            self.advance(now)
        elif now > self.now:
            self._pass(now)
        ticket.state = _OVER
        self.executing -= 1
        ticket.flow.counts.executing -= 1
        queue, work = ticket.queue, ticket.work
        if queue is None:
            del self.without_queue[ticket]
        else:
            del queue.executing[ticket]
            if not (queue.executing or queue.waiting):
                self._active -= 1
            queue.next_dispatch -= seat_seconds(work.initial_seats, SERVICE_SECONDS - (now - ticket.started))
            if queue.waiting:
                queue.bound()
        if work.additional_seconds > 0.0:
            self._lingered += 1
            heapq.heappush(self._lingering, (now + work.additional_seconds, self._lingered, ticket))
        else:
            self._release(ticket)
        return self.dispatch(now) if self.waiting else _NOTHING

    def finish_exempt(self, ticket: Ticket[Any]) -> None:
        """`finish` for such a request. Its seats are not missing afterwards: they are free at once."""
        seats, counts = ticket.work.seats, ticket.flow.counts
        ticket.state = _OVER
        self.executing -= 1
        self.seats -= seats
        counts.executing -= 1
        counts.seats -= seats
        del self.without_queue[ticket]

    def abandon(self, now: float, ticket: Ticket[Any], reason: str) -> list[Ticket[Any]]:
        """A waiting request does not wait any longer. Returns what is started since it is not in the way any more."""
        self.advance(now)
        queue = ticket.queue
        assert queue is not None
        self._dequeue(queue, ticket)
        if not (queue.executing or queue.waiting):
            self._active -= 1
        queue.bound()
        ticket.reject(reason)
        if reason == TIME_OUT:
            self.timed_out += 1
        else:
            self.cancelled += 1
        return self.dispatch(now)

    @property
    def last_dispatch(self) -> Dispatch:
        """The progress meters when a request last started."""
        if self._last_dispatch is not None:
            return self._last_dispatch
        r, start, seats = self._at_once
        discounted = start - seat_seconds(seats, SERVICE_SECONDS)
        return Dispatch(r, start, start, start, discounted, discounted)

    def may_start(self, now: float, seats: int, hand: tuple[int, ...], *, is_instant: bool) -> bool:
        """Whether a request of so many seats, of the flow with this hand of queues, would execute at once.

        is_instant: whether it is answered before anything else happens. One that finds an empty queue need not wait for seats then, which others may
        occupy while they wait for a disk.
        """
        if self.desired_queues < 0:
            return True
        self.advance(now)
        has_room = self.seats < self.limit and self._has_room(seats)
        if not self.desired_queues:
            return has_room
        if has_room and not (self.waiting or self.is_turn_over):
            return True
        if not (has_room or (is_instant and self.limit)):
            return False
        chosen = self._choose(hand)
        self.enqueued -= 1  # it is not enqueued yet
        return self._is_express(chosen)

    @property
    def is_turn_over(self) -> bool:
        """Whether nothing starts before `new_turn`."""
        return self._turn_seats >= self.seats_per_turn

    def dispatch(self, now: float) -> list[Ticket[Any]]:
        """Start as many waiting requests as there is room for."""
        started: list[Ticket[Any]] = []
        if not self.waiting or self._turn_seats >= self.seats_per_turn:
            return started
        self.advance(now)
        while self.waiting and self.seats < self.limit and self._turn_seats < self.seats_per_turn:
            queue = self._next_queue()
            ticket = queue.waiting[0]
            if not self._has_room(ticket.work.seats):
                ticket.flow.counts.no_room += 1
                break
            if not started:
                self._note_dispatch(queue)
            self._dequeue(queue, ticket)
            ticket.work = ticket.work.limited_to(self.limit)
            self._robin = queue.index
            self._execute(ticket, now)
            queue.bound()
            started.append(ticket)
        return started

    # ------------------------------------------------------------------ steps

    def _has_room(self, seats: int) -> bool:
        """Whether so many seats are free. A request that is wider than the limit executes when it is alone."""
        if self.desired_queues < 0:
            return True
        if seats > self.limit:
            return self.executing == 0
        return self.seats + seats <= self.limit

    def _choose(self, hand: tuple[int, ...]) -> Queue:
        """The queue of a hand with the least work waiting. Where it begins to look changes, so that flows with common queues do not all prefer the same one."""
        size = len(hand)
        offset = self.enqueued % size
        self.enqueued += 1
        best = self.queues[hand[offset]]
        if best.waiting_work:
            for index in (*hand[offset + 1 :], *hand[:offset]):
                queue = self.queues[index]
                if queue.waiting_work < best.waiting_work:
                    best = queue
        return best

    def _enqueue(self, queue: Queue, ticket: Ticket[Any]) -> None:
        work, counts = ticket.work, ticket.flow.counts
        ticket.state = State.WAITING
        queue.waiting.append(ticket)
        queue.waiting_work += work.total_work
        queue.bound()
        self._backlogged[queue] = None
        self.waiting += 1
        self.waiting_seats += work.seats
        counts.waiting += 1
        counts.waiting_seats += work.seats
        self.highest_demand = max(self.highest_demand, self.seats + self.waiting_seats)

    def _execute_at_once(self, queue: Queue, ticket: Ticket[Any], now: float) -> None:
        """Start a request that need not wait, as if it were the only one that does."""
        if queue.next_dispatch < self.r:
            queue.next_dispatch = self.r
        self._at_once = (self.r, queue.next_dispatch, queue.seats)
        self._last_dispatch = None
        self._robin = queue.index
        if ticket.work.final_seats > self.limit:
            ticket.work = ticket.work.limited_to(self.limit)
        self._execute(ticket, now)

    def _dequeue(self, queue: Queue, ticket: Ticket[Any]) -> None:
        work, counts = ticket.work, ticket.flow.counts
        if queue.waiting[0] is ticket:
            queue.waiting.popleft()
        else:
            queue.waiting.remove(ticket)
        queue.waiting_work -= work.total_work
        if not queue.waiting:
            del self._backlogged[queue]
        self.waiting -= 1
        self.waiting_seats -= work.seats
        counts.waiting -= 1
        counts.waiting_seats -= work.seats

    def _execute(self, ticket: Ticket[Any], now: float) -> None:
        queue, work, counts = ticket.queue, ticket.work, ticket.flow.counts
        seats = work.seats
        ticket.state = _EXECUTING
        ticket.started = now
        self.executing += 1
        self.seats += seats
        counts.executing += 1
        counts.seats += seats
        counts.dispatched += 1
        if queue is None:
            self.without_queue[ticket] = None
        else:
            self._turn_seats += seats  # what has no queue never waits for a turn
            queue.executing[ticket] = None
            queue.seats += seats
            queue.next_dispatch += work.total_work
        demand = self.seats + self.waiting_seats
        if demand > self.highest_demand:
            self.highest_demand = demand

    def _release(self, ticket: Ticket[Any]) -> None:
        """The seats of a request are free. Its queue goes if there are more than there should be and it has nothing to do."""
        seats, queue = ticket.work.seats, ticket.queue
        self.seats -= seats
        ticket.flow.counts.seats -= seats
        if queue is None:
            return
        queue.seats -= seats
        if len(self.queues) > self.desired_queues and not (queue.waiting or queue.executing):
            self._remove(queue)

    def _remove(self, queue: Queue) -> None:
        if queue.index >= len(self.queues) or self.queues[queue.index] is not queue:
            return  # it went when its last but one seat became free
        del self.queues[queue.index]
        for later in self.queues[queue.index :]:
            later.index -= 1
        if self._robin >= queue.index:
            self._robin -= 1

    def _next_queue(self) -> Queue:
        """The queue whose oldest request would finish first; of equal ones the first behind the queue that was last chosen."""
        count, first = len(self.queues), self._robin + 1
        best: Queue | None = None
        least = place = 0
        for queue in self._backlogged:
            finish = queue.next_dispatch + queue.waiting[0].work.total_work
            if best is None or finish < least:
                best, least, place = queue, finish, (queue.index - first) % count
            elif finish == least and (queue.index - first) % count < place:
                best, place = queue, (queue.index - first) % count
        assert best is not None
        return best

    def _note_dispatch(self, chosen: Queue) -> None:
        starts = [queue.next_dispatch for queue in self._backlogged]
        discounted = [queue.next_dispatch - seat_seconds(queue.seats, SERVICE_SECONDS) for queue in self._backlogged]
        self._last_dispatch = Dispatch(
            self.r, chosen.next_dispatch, min(starts), max(starts), min(discounted), max(discounted)
        )

    def executing_tickets(self) -> Iterator[Ticket[Any]]:
        """What executes."""
        for queue in self.queues:
            yield from queue.executing
        yield from self.without_queue
