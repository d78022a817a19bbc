"""A queue set in virtual time: clients with so many threads each, all of which ask, think and ask again."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayplan.apiserver.flow_control.queue_set import QueueSet
from bayplan.apiserver.flow_control.queues import TIME_OUT, Flow, FlowCounts, Ticket
from bayplan.apiserver.flow_control.shuffle_sharding import deal
from bayplan.apiserver.flow_control.work import Work


class VirtualTime:
    """Calls back at moments, in their order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (self.now + seconds, next(self._numbers), call))

    def run(self, until: float) -> None:
        while self._calls and self._calls[0][0] <= until:
            self.now, _, call = heapq.heappop(self._calls)
            call()
        self.now = until


@dataclass
class Client:
    """What one flow asks."""

    hash_value: int
    threads: int
    executes: float = 1.0
    thinks: float = 0.0
    work: Work = field(default_factory=lambda: Work(1))
    counts: FlowCounts = field(default_factory=FlowCounts)
    seat_seconds: float = 0.0
    """Of the initial phase, over the run."""
    executed: int = 0
    runs: bool = False
    rejected: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


class Scenario:
    """Runs clients against a queue set; looks after each step whether it keeps its limit."""

    def __init__(
        self, limit: int, queues: int, hand: int = 1, length: int = 1000, *, wait_limit: float | None = None
    ) -> None:
        self.time = VirtualTime()
        self.queue_set = QueueSet(0.0)
        self.queue_set.configure(0.0, queues, length)
        self.queue_set.limit = limit
        self._hand = hand
        self._wait_limit = wait_limit
        self._widest = 0
        self._started: dict[Ticket[Any], tuple[Client, Callable[[], None] | None]] = {}

    def run(self, seconds: float, *clients: Client) -> None:
        """Let all threads go on for so long."""
        for number, client in enumerate(clients):
            client.runs = True
            for thread in range(client.threads):
                self.time.after(90e-9 * thread + 20e-9 * number, lambda client=client: self._ask(client))  # type: ignore[misc]
        self.time.run(self.time.now + seconds)

    def shares(self, seconds: float, *clients: Client) -> list[float]:
        """Run, and return the seats that each client had on average."""
        before = [self._seat_seconds(client) for client in clients]
        self.run(seconds, *(client for client in clients if not client.runs))
        return [(self._seat_seconds(client) - base) / seconds for client, base in zip(clients, before, strict=True)]

    def _seat_seconds(self, client: Client) -> float:
        found = self.queue_set.executing_tickets()
        since = sum(self.time.now - ticket.started for ticket in found if self._started[ticket][0] is client)
        return client.seat_seconds + since * client.work.initial_seats

    def ask(self, client: Client, then: Callable[[], None] | None = None) -> Ticket[Flow]:
        """One request. then: called `thinks` seconds after the end of its execution, which may be shortly before it ends."""
        queue_set, now = self.queue_set, self.time.now
        self._widest = max(self._widest, client.work.seats)
        hand = deal(client.hash_value, queue_set.desired_queues, self._hand) if queue_set.desired_queues > 0 else ()
        ticket = queue_set.start(now, client.work, Flow(client.counts, hand))
        if ticket.reason:
            client.rejected.append(ticket.reason)
            return ticket
        self._started[ticket] = (client, then)
        if ticket.is_waiting:
            if self._wait_limit is not None:
                self.time.after(self._wait_limit, lambda: self._time_out(ticket))
            self._tell(queue_set.dispatch(now))
        else:
            self._execute(ticket)
        self.check()
        return ticket

    def _ask(self, client: Client) -> None:
        if self.ask(client, lambda: self._ask(client)).reason:
            self.time.after(client.executes, lambda: self._ask(client))

    def _execute(self, ticket: Ticket[Any]) -> None:
        client, then = self._started[ticket]
        client.waits.append(ticket.started - ticket.arrival)
        if then is not None:
            self.time.after(client.executes + client.thinks, then)
        self.time.after(client.executes, lambda: self._finish(ticket))

    def _finish(self, ticket: Ticket[Any]) -> None:
        client, _ = self._started.pop(ticket)
        client.executed += 1
        client.seat_seconds += client.executes * client.work.initial_seats
        self._tell(self.queue_set.finish(self.time.now, ticket))
        self.check()

    def _time_out(self, ticket: Ticket[Any]) -> None:
        if ticket.is_waiting:
            client, _ = self._started.pop(ticket)
            client.rejected.append(TIME_OUT)
            self._tell(self.queue_set.abandon(self.time.now, ticket, TIME_OUT))
            self.check()

    def _tell(self, started: list[Ticket[Any]]) -> None:
        for ticket in started:
            self._execute(ticket)
        release = self.queue_set.next_release
        if self.queue_set.waiting and release is not None:
            self.time.after(release - self.time.now, lambda: self._tell(self.queue_set.dispatch(self.time.now)))

    def check(self) -> None:
        """What always holds: sums are those of the parts, the limit is kept, and nobody waits while there is room."""
        found = self.queue_set
        tickets = list(found.executing_tickets())
        waiting = [ticket for queue in found.queues for ticket in queue.waiting]
        assert len(tickets) == found.executing
        assert len(waiting) == found.waiting
        assert sum(ticket.work.seats for ticket in waiting) == found.waiting_seats
        assert found.seats >= sum(ticket.work.seats for ticket in tickets) >= 0
        if found.desired_queues >= 0 and self._widest <= found.limit:
            assert found.seats <= found.limit
        if found.desired_queues >= 0 and any(ticket.work.initial_seats > found.limit for ticket in tickets):
            assert len(tickets) == 1
        for queue in found.queues:
            assert queue.waiting_work == sum(ticket.work.total_work for ticket in queue.waiting)
        if waiting and found.seats < found.limit:
            assert min(ticket.work.seats for ticket in waiting) > 0
            heads = [queue.waiting[0] for queue in found.queues if queue.waiting]
            assert any(found.seats + ticket.work.seats > found.limit for ticket in heads)
