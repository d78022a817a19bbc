"""When questions to the scheduler get a process of their own, and when they lose it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.cluster.errors import ClusterError
from bayplan.cluster.processes.answer_process import MANY, AnswerProcess, Response
from bayplan.support.clock import LoopClock
from bayplan.support.virtual_time import run


class Process:
    """A process that answers once it knows the cluster."""

    def __init__(self) -> None:
        self.knows = True
        self.is_silent = False
        self.is_stopped = False
        self.asked = 0
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def what_if(self, body: bytes, namespace: str, explain: bool) -> Response:
        self.asked += 1
        return (200, body) if self.knows else (503, b"")

    def silence(self) -> str:
        return "silent" if self.is_silent else ""

    async def ended(self) -> str:
        return await asyncio.shield(self.end)

    async def stop(self) -> None:
        self.is_stopped = True

    def let_go(self) -> None:
        raise AssertionError("its fork server is there")


class Place:
    """Where questions come, and the processes that were started for them."""

    def __init__(self) -> None:
        self.started: list[Process] = []
        self.is_possible = True
        self.answers = AnswerProcess(self._launch, LoopClock(0.0))

    async def _launch(self) -> Process:
        if not self.is_possible:
            raise ClusterError("there is no memory")
        self.started.append(Process())
        return self.started[-1]

    async def ask(self, times: int = 1, every: float = 0.01) -> list[Response | None]:
        found = []
        for _ in range(times):
            found.append(await self.answers.ask(b"{}", "default", False))
            await asyncio.sleep(every)
        return found


def in_virtual_time(test: Callable[[Place], Awaitable[None]]) -> None:
    async def body() -> None:
        place = Place()
        await test(place)
        await place.answers.close()
        assert all(one.is_stopped or one.end.done() for one in place.started)

    run(body())


def test_few_questions_start_no_process() -> None:
    async def test(place: Place) -> None:
        assert await place.ask(5 * MANY, every=1.05 / (MANY - 1)) == [None] * 5 * MANY
        assert not place.started

    in_virtual_time(test)


def test_many_questions_start_one_process_which_answers_from_then_on() -> None:
    async def test(place: Place) -> None:
        found = await place.ask(3 * MANY, every=0.95 / (MANY - 1))
        assert found == [None] * MANY + [(200, b"{}")] * 2 * MANY
        assert len(place.started) == 1
        await asyncio.sleep(59)
        assert await place.ask() == [(200, b"{}")]

    in_virtual_time(test)


def test_the_scheduler_answers_while_the_process_does_not_know_the_cluster_or_is_silent() -> None:
    async def test(place: Place) -> None:
        await place.ask(MANY)
        process = place.started[0]
        process.knows = False
        assert await place.ask() == [None]
        process.knows, process.is_silent = True, True
        asked = process.asked
        assert await place.ask() == [None]
        assert process.asked == asked
        process.is_silent = False
        assert await place.ask() == [(200, b"{}")]

    in_virtual_time(test)


def test_the_process_is_ended_when_nobody_has_asked_for_a_minute_and_another_one_comes_with_the_next_questions() -> (
    None
):
    async def test(place: Place) -> None:
        await place.ask(2 * MANY)
        await asyncio.sleep(61)
        assert place.started[0].is_stopped
        assert await place.ask() == [None]
        assert (await place.ask(2 * MANY))[-1] == (200, b"{}")
        assert len(place.started) == 2

    in_virtual_time(test)


def test_a_process_that_fails_is_replaced_after_half_a_minute() -> None:
    async def test(place: Place) -> None:
        place.is_possible = False
        assert await place.ask(2 * MANY) == [None] * 2 * MANY
        place.is_possible = True
        assert await place.ask(2 * MANY) == [None] * 2 * MANY, "not at once"
        await asyncio.sleep(30)
        await place.ask(2 * MANY)
        place.started[0].end.set_result("it was killed")
        await asyncio.sleep(0.1)
        assert await place.ask(2 * MANY) == [None] * 2 * MANY
        await asyncio.sleep(30)
        assert (await place.ask(2 * MANY))[-1] == (200, b"{}")
        assert len(place.started) == 2

    in_virtual_time(test)
