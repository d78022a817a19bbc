"""The work queue's semantics are client-go's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bayplan.support.metrics.instruments import Registry
from bayplan.testing.clock import ManualClock
from bayplan.workqueue import (
    ExponentialBackoff,
    MaxOf,
    QueueShutDown,
    TokenBucket,
    WorkQueue,
    WorkQueueMetrics,
)


def with_queue(scenario: Callable[[WorkQueue[str], ManualClock], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        clock = ManualClock()
        queue: WorkQueue[str] = WorkQueue("test", clock=clock)
        asyncio.run(asyncio.wait_for(_run(scenario, queue, clock), 10))

    test.__name__ = scenario.__name__
    return test


async def _run(
    scenario: Callable[[WorkQueue[str], ManualClock], Awaitable[None]], queue: WorkQueue[str], clock: ManualClock
) -> None:
    await scenario(queue, clock)


async def drain(queue: WorkQueue[str]) -> list[str]:
    """Get and finish everything that is ready."""
    keys = []
    while len(queue):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


@with_queue
async def test_keys_come_in_the_order_of_adding_and_once(queue: WorkQueue[str], clock: ManualClock) -> None:
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert len(queue) == 3
    assert await drain(queue) == ["a", "b", "c"]


@with_queue
async def test_a_key_added_while_processed_comes_again_after_done(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await drain(queue) == ["a"]
    assert queue.processing == 0


@with_queue
async def test_done_without_new_adds_ends_the_key(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a")
    queue.done("a")
    assert len(queue) == 1, "done of a key that nobody processes must not take it off the queue"
    queue.done(await queue.get())
    assert len(queue) == 0


@with_queue
async def test_getters_wait_and_each_key_goes_to_one(queue: WorkQueue[str], clock: ManualClock) -> None:
    getters = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    done, waiting = await asyncio.wait(getters, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 2:
        done, waiting = await asyncio.wait(getters, timeout=0)
    assert {getter.result() for getter in done} == {"a", "b"}
    queue.add("c")
    assert await waiting.pop() == "c"


@with_queue
async def test_a_cancelled_getter_loses_no_key(queue: WorkQueue[str], clock: ManualClock) -> None:
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


@with_queue
async def test_higher_priority_goes_first_and_can_be_raised(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("low", -100)
    queue.add("a")
    queue.add("b")
    queue.add("high", 5)
    queue.add("b", 10)
    queue.add("high", 1)
    assert await drain(queue) == ["b", "high", "a", "low"]


@with_queue
async def test_delayed_keys_come_at_their_time(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add_after("late", 10)
    queue.add_after("early", 5)
    queue.add_after("now", 0)
    queue.add_after("past", -1)
    assert await drain(queue) == ["now", "past"]
    clock.advance(4.999)
    assert (len(queue), queue.delayed) == (0, 2)
    clock.advance(0.001)
    assert await drain(queue) == ["early"]
    clock.advance(5)
    assert await drain(queue) == ["late"]
    assert clock.timers == 0


@with_queue
async def test_the_earliest_of_several_delays_counts(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 20)
    clock.advance(3)
    assert await drain(queue) == ["a"]
    clock.advance(100)
    assert len(queue) == 0


@with_queue
async def test_failures_back_off_exponentially_per_key(queue: WorkQueue[str], clock: ManualClock) -> None:
    for failures, delay in enumerate([0.005, 0.01, 0.02, 0.04]):
        assert queue.num_requeues("a") == failures
        queue.add_rate_limited("a")
        clock.advance(delay * 0.999)
        assert len(queue) == 0
        clock.advance(delay * 0.001 + 1e-9)
        assert await drain(queue) == ["a"]
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    queue.add_rate_limited("a")
    clock.advance(0.005)
    assert await drain(queue) == ["a"]


def test_back_off_ends_at_its_longest() -> None:
    limiter: ExponentialBackoff[str] = ExponentialBackoff(0.005, 1000)
    delays = [limiter.when("a") for _ in range(2000)]
    assert delays[17] == 0.005 * 2**17
    assert set(delays[18:]) == {1000}
    assert limiter.when("b") == 0.005


def test_the_token_bucket_limits_all_keys_together() -> None:
    clock = ManualClock()
    bucket: TokenBucket[int] = TokenBucket(clock, rate=10, burst=5)
    assert [bucket.when(number) for number in range(8)] == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2, 0.3])
    clock.advance(0.5)
    assert [bucket.when(number) for number in range(3)] == pytest.approx([0, 0, 0.1])
    clock.advance(1000)
    assert [bucket.when(number) for number in range(6)] == pytest.approx([0, 0, 0, 0, 0, 0.1])


def test_the_longest_of_several_limits_counts() -> None:
    clock = ManualClock()
    limiter: MaxOf[str] = MaxOf(ExponentialBackoff(0.005), TokenBucket(clock, rate=1, burst=1))
    assert [limiter.when("a"), limiter.when("a")] == [0.005, 1.0]
    assert limiter.num_requeues("a") == 2


@with_queue
async def test_shut_down_hands_out_the_rest_and_then_ends_workers(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a")
    queue.add_after("never", 1)
    queue.shut_down()
    queue.add("b")
    queue.add_after("c", 1)
    assert await queue.get() == "a"
    with pytest.raises(QueueShutDown):
        await queue.get()
    clock.advance(10)
    assert (len(queue), queue.delayed, clock.timers) == (0, 0, 0)


@with_queue
async def test_shut_down_wakes_waiting_workers(queue: WorkQueue[str], clock: ManualClock) -> None:
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    outcomes = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [QueueShutDown] * 3


@with_queue
async def test_draining_waits_for_every_accepted_key(queue: WorkQueue[str], clock: ManualClock) -> None:
    processed: list[str] = []
    gate = asyncio.Event()

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueShutDown:
                return
            await gate.wait()
            processed.append(key)
            queue.done(key)

    for key in ("a", "b", "c"):
        queue.add(key)
    workers = [asyncio.ensure_future(work()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    draining = asyncio.ensure_future(queue.shut_down_with_drain())
    await asyncio.sleep(0)
    assert not draining.done()
    gate.set()
    await draining
    assert sorted(processed) == ["a", "a", "b", "c"]
    await asyncio.gather(*workers)


@pytest.mark.parametrize("taken", [1, 2])
def test_draining_ends_with_the_last_key_whether_it_waits_or_is_being_processed(taken: int) -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue("test", clock=ManualClock())
        queue.add("a")
        queue.add("b")
        keys = [await queue.get() for _ in range(taken)]
        draining = asyncio.ensure_future(queue.shut_down_with_drain())
        await asyncio.sleep(0)
        queue.done(keys[0])
        await asyncio.sleep(0)
        assert not draining.done()
        queue.done(keys[1] if taken == 2 else await queue.get())
        await draining

    asyncio.run(asyncio.wait_for(run(), 10))


@with_queue
async def test_draining_an_idle_queue_returns_at_once(queue: WorkQueue[str], clock: ManualClock) -> None:
    await queue.shut_down_with_drain()
    assert queue.shutting_down


def test_metrics_have_the_names_of_kubernetes() -> None:
    async def run() -> None:
        clock, registry = ManualClock(), Registry()
        queue: WorkQueue[str] = WorkQueue("job", clock=clock, metrics=WorkQueueMetrics(registry, "job"))
        queue.add("a")
        queue.add("b")
        queue.add("a")
        queue.add_rate_limited("c")
        clock.advance(2)
        await queue.get()
        clock.advance(3)
        queue.add("a")
        text = registry.render().decode()
        for line in (
            'workqueue_depth{name="job"} 2',
            'workqueue_adds_total{name="job"} 4',
            'workqueue_retries_total{name="job"} 1',
            'workqueue_unfinished_work_seconds{name="job"} 3',
            'workqueue_longest_running_processor_seconds{name="job"} 3',
            'workqueue_queue_duration_seconds_sum{name="job"} 2',
            'workqueue_work_duration_seconds_count{name="job"} 0',
        ):
            assert line in text.splitlines()
        queue.done("a")
        assert 'workqueue_work_duration_seconds_sum{name="job"} 3' in registry.render().decode().splitlines()

    asyncio.run(run())


@pytest.mark.parametrize("is_taken", [False, True])
def test_draining_waits_for_what_is_queued_and_for_what_is_processed(is_taken: bool) -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue("test", clock=ManualClock())
        queue.add("a")
        key = await queue.get() if is_taken else ""
        draining = asyncio.ensure_future(queue.shut_down_with_drain())
        await asyncio.sleep(0)
        assert not draining.done()
        queue.done(key or await queue.get())
        await draining

    asyncio.run(asyncio.wait_for(run(), 10))


@with_queue
async def test_a_later_delay_can_still_raise_the_priority(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add_after("raised", 1, priority=0)
    queue.add_after("kept", 1, priority=7)
    queue.add_after("raised", 2, priority=9)
    queue.add_after("kept", 2, priority=3)
    clock.advance(1)
    queue.add("between", 8)
    assert await drain(queue) == ["raised", "between", "kept"]


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_a_token_bucket_that_never_fills_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate must be positive and burst at least 1"):
        TokenBucket[str](ManualClock(), rate, burst)
