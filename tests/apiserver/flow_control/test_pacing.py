"""Requests that go on in small numbers per iteration of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.apiserver.flow_control.pacing import Paced, Turnstile


class Burst:
    """Requests of two flows that all wait for the same thing, and the iterations of the event loop in which they went on."""

    def __init__(self, counts: dict[str, int], *, is_contended: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self.committed: asyncio.Future[int] = loop.create_future()
        self.iteration = 0
        self.went_on: list[tuple[int, str]] = []
        turnstile = Turnstile(2)
        self.tasks = [
            loop.create_task(self._send(Paced(self._answer(flow), turnstile, flow, lambda: is_contended)))
            for flow, count in counts.items()
            for _ in range(count)
        ]

    async def _answer(self, flow: str) -> int:
        revision = await self.committed
        self.went_on.append((self.iteration, flow))
        return revision

    async def _send(self, paced: Paced[int]) -> int:
        return await paced

    async def run(self) -> list[int]:
        """Commit, and count iterations until all have gone on."""
        await asyncio.sleep(0)
        self.committed.set_result(7)
        while not all(task.done() for task in self.tasks):
            await asyncio.sleep(0)
            self.iteration += 1
        return [await task for task in self.tasks if not task.cancelled()]


def test_few_go_on_in_one_iteration_and_flows_take_turns() -> None:
    async def run() -> None:
        burst = Burst({"a": 9, "b": 1})
        assert await burst.run() == [7] * 10
        iterations = [iteration for iteration, _ in burst.went_on]
        assert max(iterations.count(one) for one in iterations) == 2
        assert [flow for _, flow in burst.went_on].index("b") < 4

    asyncio.run(run())


def test_without_contention_all_go_on_at_once() -> None:
    async def run() -> None:
        burst = Burst({"a": 9}, is_contended=False)
        await burst.run()
        assert len({iteration for iteration, _ in burst.went_on}) == 1

    asyncio.run(run())


def test_who_is_cancelled_at_the_turnstile_takes_no_place() -> None:
    async def run() -> None:
        burst = Burst({"a": 9})
        await asyncio.sleep(0)
        burst.committed.set_result(7)
        await asyncio.sleep(0)
        for task in burst.tasks[2:8]:
            task.cancel()
        results = await asyncio.gather(*burst.tasks, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in results] == [False] * 2 + [True] * 6 + [False]

    asyncio.run(run())


def test_what_the_awaited_raises_reaches_the_coroutine() -> None:
    async def answer(failed: asyncio.Future[int]) -> int:
        try:
            return await failed
        except OSError:
            return await asyncio.sleep(0, 3)

    async def run() -> int:
        failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        failed.set_exception(OSError())
        return await Paced(answer(failed), Turnstile(1), "a", lambda: True)

    assert asyncio.run(run()) == 3


def test_what_a_coroutine_raises_is_raised() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        raise ValueError("no such object")

    async def run() -> int:
        return await Paced(answer(), Turnstile(1), "a", lambda: True)

    with pytest.raises(ValueError, match="no such object"):
        asyncio.run(run())


def test_all_who_wait_pass_within_the_longest_wait() -> None:
    async def run() -> list[int]:
        turnstile = Turnstile(2, longest_wait=5)
        waiting = [turnstile.wait(number % 3) for number in range(40) if not turnstile.try_pass()]
        left = []
        while not all(one.done() for one in waiting):
            left.append(sum(not one.done() for one in waiting))
            await asyncio.sleep(0)
        return left

    assert asyncio.run(run()) == [38, 30, 24, 19, 15, 12, 9, 7, 5, 3, 1]


def test_few_who_wait_pass_a_few_in_each_iteration() -> None:
    async def run() -> list[int]:
        turnstile = Turnstile(1, longest_wait=64)
        waiting = [turnstile.wait("a") for _ in range(4)]
        left = []
        while not all(one.done() for one in waiting):
            left.append(sum(not one.done() for one in waiting))
            await asyncio.sleep(0)
        return left

    assert asyncio.run(run()) == [4, 3, 2, 1]
