"""Fair queuing: cases of kube-apiserver's `queueset_test.go` in virtual time, and properties."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.apiserver.flow_control.queue_set import QueueSet
from bayplan.apiserver.flow_control.queues import (
    CANCELLED,
    CONCURRENCY_LIMIT,
    EXEMPT,
    QUEUE_FULL,
    TIME_OUT,
    Flow,
    FlowCounts,
)
from bayplan.apiserver.flow_control.work import ONE_SEAT, SCALE, Work
from tests.apiserver.flow_control.scenarios import Client, Scenario

A, B, C = 1001001001001, 2002002002002, 3003003003003


def fair(demands: list[float], limit: float) -> list[float]:
    """The max-min fair division of a limit: nobody gets more than they want, and what they leave is for the others."""
    found, left = [0.0] * len(demands), limit
    for count, index in enumerate(sorted(range(len(demands)), key=demands.__getitem__)):
        found[index] = min(demands[index], left / (len(demands) - count))
        left -= found[index]
    return found


SHORT = -1e-9


@pytest.mark.parametrize(
    ("limit", "queues", "hand", "seconds", "clients", "margin"),
    [
        pytest.param(
            *(4, 9, 1, 50, [(1001001001, 8, 1.0, 1.0), (2002002002, 8, 1.0, 1.0)], 0.02), id="uniform flows, hand of 1"
        ),
        pytest.param(
            *(4, 8, 3, 60, [(400900100100, 8, 1.0, 1.0), (300900200200, 8, 1.0, 1.0)], 0.03),
            id="uniform flows, hand of 3",
        ),
        pytest.param(
            *(4, 9, 1, 40, [(1001001001, 8, 1.0, 1.0), (2002002002, 7, 1.0, 0.5)], 0.02),
            id="different flows that want enough get equal parts",
        ),
        pytest.param(
            *(3, 9, 1, 20, [(1001001001, 4, 1.0, 1.0), (2002002002, 2, 1.0, 1.0)], 0.01),
            id="a flow that wants less than its part gets what it wants",
        ),
        pytest.param(
            *(6, 64, 7, 20, [(10010010010010, 13, 1.0, 1.0), (20020020020020, 7, 1.0, 1.0, Work(2))], 0.155),
            id="requests of different widths",
        ),
        pytest.param(
            6,
            64,
            7,
            225,
            [
                *(
                    (hash_value, 15, 1.0, 1.0, Work(2))
                    for hash_value in (40040040040040, 50050050050050, 60060060060060)
                ),
                *((70070070070070, 15, 1.0, 1.0, Work(2)), (90090090090090, 15, 1.0, 1.0, Work(7))),
            ],
            0.33,
            id="requests wider than the limit",
        ),
        pytest.param(3, 9, 1, 20, [(1001001001, 2, 1.0, SHORT)], 0.01, id="a flow alone gets what it wants"),
    ],
)
def test_concurrency_is_shared_fairly(
    limit: int, queues: int, hand: int, seconds: int, clients: list[tuple[Any, ...]], margin: float
) -> None:
    made = [Client(*one) for one in clients]
    demands = [one.threads * one.work.initial_seats * one.executes / (one.executes + one.thinks) for one in made]
    found = Scenario(limit, queues, hand).shares(seconds, *made)
    assert found == pytest.approx(fair(demands, limit), rel=margin)
    assert not any(client.rejected for client in made)


def test_a_flow_that_comes_late_gets_nearly_its_part() -> None:
    """A queue that does not use its share must not save it up, nor may the others have used theirs up."""
    scenario = Scenario(3, 9)
    early = [Client(1001001001, 2, 1.0, SHORT), Client(2002002002, 1, 1.0, SHORT)]
    assert scenario.shares(20.0, *early) == pytest.approx([2, 1], rel=0.05)
    late = Client(2002002002, 1, 1.0, SHORT)
    first, second, third = scenario.shares(20.0, *early, late)
    assert [first, second + third] == pytest.approx([1.5, 1.5], rel=0.26)


def test_a_request_wider_than_the_limit_executes_alone() -> None:
    narrow, wide = Client(A, 2), Client(B, 1, work=Work(7))
    Scenario(2, 9).run(50.0, narrow, wide)
    assert wide.executed > 3
    assert narrow.executed > 3


def test_seats_stay_occupied_after_a_request() -> None:
    scenario = Scenario(1, 4)
    client = Client(A, 4, executes=1.0, work=Work(1, 1, 1.0))
    scenario.run(100.0, client)
    assert client.executed == 50


def test_more_final_seats_than_there_are_become_more_time() -> None:
    scenario = Scenario(2, 4)
    client = Client(A, 1, executes=0.0, work=Work(1, 8, 1.0))
    first, second = scenario.ask(client), scenario.ask(client)
    assert (first.work.seats, first.work.final_seats, first.work.additional_seconds) == (2, 2, 4.0)
    scenario.time.run(3.9)
    assert second.is_waiting
    scenario.time.run(4.1)
    assert not second.is_waiting


def test_requests_beyond_limit_and_queue_are_rejected() -> None:
    scenario, client = Scenario(1, 1, length=3), Client(A, 1)
    found = [scenario.ask(client) for _ in range(6)]
    assert [one.reason or one.state.value for one in found] == [
        *("executing", "waiting", "waiting", "waiting", QUEUE_FULL, QUEUE_FULL)
    ]
    assert client.counts.rejected == {QUEUE_FULL: 2}


def test_without_queues_requests_beyond_the_limit_are_rejected() -> None:
    scenario, client = Scenario(2, 0), Client(A, 1)
    found = [scenario.ask(client) for _ in range(4)]
    assert [one.reason for one in found[2:]] == [CONCURRENCY_LIMIT, CONCURRENCY_LIMIT]
    assert not any(one.reason for one in found[:2])


def test_exempt_requests_always_execute() -> None:
    scenario, client = Scenario(0, EXEMPT), Client(A, 1)
    assert not any(scenario.ask(client).reason for _ in range(500))
    assert scenario.queue_set.executing == 500


def test_a_request_that_waits_too_long_is_rejected() -> None:
    scenario, client = Scenario(1, 1, wait_limit=1.0), Client(A, 1, executes=5.0)
    for _ in range(3):
        scenario.ask(client)
    scenario.time.run(2.0)
    assert client.rejected == [TIME_OUT, TIME_OUT]
    assert (scenario.queue_set.timed_out, scenario.queue_set.waiting) == (2, 0)


def test_a_request_whose_client_goes_lets_the_next_one_start() -> None:
    queue_set = QueueSet(0.0)
    a = Flow(FlowCounts(), (0,))
    queue_set.configure(0.0, 2, 10)
    queue_set.limit = 3
    queue_set.start(0.0, Work(2), a)
    wide = queue_set.start(0.0, Work(3), a)
    narrow = queue_set.start(0.0, Work(1), a)
    assert queue_set.dispatch(0.0) == []
    assert queue_set.abandon(1.0, wide, CANCELLED) == [narrow]
    assert (a.counts.rejected, a.counts.waiting, a.counts.waiting_seats) == ({CANCELLED: 1}, 0, 0)


def test_a_flow_that_comes_later_is_first() -> None:
    """The example of the module."""
    queue_set = QueueSet(0.0)
    a, b = Flow(FlowCounts(), (0,)), Flow(FlowCounts(), (1,))
    queue_set.configure(0.0, 2, 10)
    queue_set.limit = 1
    early = [queue_set.start(0.0, ONE_SEAT, a) for _ in range(3)]
    late = queue_set.start(0.0015, ONE_SEAT, b)
    assert queue_set.dispatch(0.0015) == []
    assert queue_set.r == pytest.approx(0.0015 * SCALE)
    assert queue_set.finish(0.003, early[0]) == [late]


def test_fewer_queues_are_wanted_once_the_others_are_empty() -> None:
    scenario, client = Scenario(1, 8, 2), Client(A, 4)
    clients = [Client(seed, 3) for seed in (A, B, C, 77, 12345)]
    scenario.run(5.0, *clients)
    scenario.queue_set.configure(scenario.time.now, 2, 1000)
    scenario.run(200.0, client)
    assert len(scenario.queue_set.queues) < 8
    assert [queue.index for queue in scenario.queue_set.queues] == list(range(len(scenario.queue_set.queues)))
    scenario.check()


def burst_of(queue_set: QueueSet, limit: int) -> Flow:
    """A flow whose 50 requests came at once, of which ten have started."""
    flow = Flow(FlowCounts(), (0,))
    queue_set.configure(0.0, 8, 1000)
    queue_set.limit, queue_set.seats_per_turn = limit, 10
    burst = [queue_set.start(0.0, ONE_SEAT, flow) for _ in range(50)]
    assert sum(one.is_executing for one in burst) == 10
    return flow


def test_a_burst_leaves_room_for_what_comes_with_the_next_input() -> None:
    queue_set = QueueSet(0.0)
    burst_of(queue_set, 100)
    others = [queue_set.start(0.0, ONE_SEAT, Flow(FlowCounts(), (index,))) for index in (1, 2, 3)]
    assert [one.is_executing for one in others] == [True, True, False]
    for one in [*queue_set.executing_tickets()]:
        assert queue_set.finish(0.0, one) == []
    started = queue_set.new_turn(0.0)
    assert len(started) == 10
    assert started[0] is others[2]


def test_who_has_something_here_waits_for_the_next_turn() -> None:
    queue_set = QueueSet(0.0)
    flow = burst_of(queue_set, 100)
    other = Flow(FlowCounts(), (1,))
    assert not queue_set.start(0.0, ONE_SEAT, flow).is_executing
    assert [queue_set.start(0.0, ONE_SEAT, other).is_executing for _ in range(2)] == [True, False]


@pytest.mark.parametrize("is_instant", [False, True])
def test_only_what_waits_for_nothing_needs_no_seat(is_instant: bool) -> None:
    queue_set = QueueSet(0.0)
    burst_of(queue_set, 10)
    other = Flow(FlowCounts(), (1,))
    assert queue_set.may_start(0.0, 1, other.hand, is_instant=is_instant) is is_instant
    assert queue_set.start(0.0, ONE_SEAT, other, is_instant=is_instant).is_executing is is_instant
    queue_set.limit = 0
    assert not queue_set.may_start(0.0, 1, (3,), is_instant=True)


def test_who_waits_for_the_next_turn_does_not_count_as_served() -> None:
    """R grows by what is served: nothing, while nothing executes and the turn is over."""
    queue_set, a = QueueSet(0.0), Flow(FlowCounts(), (0,))
    queue_set.configure(0.0, 8, 1000)
    queue_set.limit, queue_set.seats_per_turn = 100, 1
    first, *_ = [queue_set.start(0.0, ONE_SEAT, a) for _ in range(50)]
    queue_set.finish(0.001, first)
    assert queue_set.r == pytest.approx(0.001 * SCALE)
    queue_set.new_turn(5.0)
    assert queue_set.r == pytest.approx(0.001 * SCALE)
    queue_set.advance(6.0)
    assert queue_set.r == pytest.approx(1.001 * SCALE)


def test_time_is_measured_by_what_happens_in_it() -> None:
    scenario = Scenario(1, 1)
    client = Client(A, 2, executes=1.0)
    scenario.ask(client)
    scenario.ask(client)
    scenario.time.run(5.0)
    scenario.queue_set.advance(5.0)
    assert scenario.queue_set.durations == {(1, 1, 1, 1): 1.0, (1, 1, 0, 0): 1.0, (0, 0, 0, 0): 3.0}
    assert scenario.queue_set.highest_demand == 2


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 8),
    queues=st.sampled_from((0, 2, 3, 6)),
    length=st.integers(1, 6),
    seed=st.integers(0, 2**32),
    reconfigures=st.booleans(),
)
def test_no_request_is_lost_and_the_limit_is_kept(
    limit: int, queues: int, length: int, seed: int, reconfigures: bool
) -> None:
    """`Scenario.check` looks after each step; in the end everything is answered or rejected."""
    chance = random.Random(seed)
    scenario = Scenario(limit, queues, 2, length, wait_limit=3.0)
    clients = [
        Client(
            chance.getrandbits(60), 0, chance.random(), work=Work(chance.randint(1, 3), chance.choice((0, 0, 5)), 0.2)
        )
        for _ in range(4)
    ]
    asked = 0
    for _ in range(80):
        scenario.ask(chance.choice(clients))
        asked += 1
        if reconfigures and chance.random() < 0.05:
            scenario.queue_set.configure(scenario.time.now, chance.randint(2, 6), length)
        if chance.random() < 0.5:
            scenario.time.run(scenario.time.now + chance.random() * 0.3)
    scenario.time.run(scenario.time.now + 1000.0)
    scenario.queue_set.advance(scenario.time.now)
    scenario.check()
    assert scenario.queue_set.is_idle
    assert scenario.queue_set.seats == 0
    assert sum(client.executed + len(client.rejected) for client in clients) == asked
    for client in clients:
        counts = client.counts
        assert (counts.waiting, counts.executing, counts.seats, counts.waiting_seats) == (0, 0, 0, 0)
        assert counts.dispatched == client.executed
        assert sum(counts.rejected.values()) == len(client.rejected)


@settings(max_examples=25, deadline=None)
@given(limit=st.integers(1, 6), flows=st.integers(2, 5), threads=st.integers(4, 10), executes=st.floats(0.01, 1.0))
def test_equal_flows_get_equal_parts(limit: int, flows: int, threads: int, executes: float) -> None:
    scenario = Scenario(limit, 64)
    clients = [Client(index, limit + threads, executes) for index in range(flows)]
    found = scenario.shares(executes * 100 * flows, *clients)
    assert sum(found) == pytest.approx(limit, rel=0.05)
    assert max(found) - min(found) <= limit / flows * 0.1 + 0.02
