"""Questions get a small share of the time of a scheduler that has pods to place, and all of it otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler.errors import NotReadyError, QuestionError
from bayplan.scheduler.extenders.protocol import unasked
from bayplan.scheduler.questions import service
from bayplan.scheduler.questions.service import PlacementQuestions
from bayplan.support.metrics.instruments import Registry
from bayplan.support.virtual_time import run
from tests.scheduler.objects import node, pod
from tests.scheduler.questions.test_asking import a_core

COST = 0.01
"""Seconds that an answer takes."""


class WorkingClock:
    """Tells the loop's time and what answers have taken besides."""

    worked = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.worked


class Asked:
    """A scheduler with a pod that waits, and questions to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = WorkingClock()
        self.core = a_core(node("a"))
        self.waiting = from_tree(core_v1.Pod, pod("waits"))
        self.core.handle("Pod", None, self.waiting)
        self.questions = PlacementQuestions(self.core, cast(Any, None), cast(Any, self.clock), Registry())
        self.questions.knows_the_cluster = True

        def answered(steps: Any) -> Any:
            self.clock.worked += COST
            return unasked(steps)

        monkeypatch.setattr(service, "unasked", answered)

    async def ask(self, number: int) -> Any:
        return await self.questions.answer(json.dumps(pod(f"new-{number}")).encode())


def in_virtual_time(monkeypatch: pytest.MonkeyPatch, test: Callable[[Asked], Awaitable[None]]) -> None:
    async def body() -> None:
        await test(Asked(monkeypatch))

    run(body())


def test_a_busy_scheduler_gives_questions_a_twenty_fifth_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(asked: Asked) -> None:
        found = await asyncio.gather(*(asked.ask(number) for number in range(40)))
        assert [one["pods"][0]["pod"] for one in found] == [f"default/new-{number}" for number in range(40)]
        assert 39 * COST / 0.04 - 0.1 < asked.clock.monotonic() < 40 * COST / 0.04 + 0.1

    in_virtual_time(monkeypatch, test)


def test_a_scheduler_without_work_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(asked: Asked) -> None:
        asked.core.handle("Pod", asked.waiting, None)
        await asyncio.gather(*(asked.ask(number) for number in range(40)))
        assert asked.clock.monotonic() == pytest.approx(40 * COST)
        asked.core.handle("Pod", None, asked.waiting)
        await asked.ask(40)
        assert asked.clock.monotonic() == pytest.approx(41 * COST), "what was answered meanwhile is not counted"

    in_virtual_time(monkeypatch, test)


def test_questions_that_wait_are_answered_once_the_pods_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(asked: Asked) -> None:
        tasks = [asyncio.create_task(asked.ask(number)) for number in range(40)]
        await asyncio.sleep(0.001)
        asked.core.handle("Pod", asked.waiting, None)
        await asyncio.gather(*tasks)
        assert asked.clock.monotonic() < 40 * COST + 0.1

    in_virtual_time(monkeypatch, test)


def test_errors_come_to_who_asked_and_whoever_goes_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(asked: Asked) -> None:
        await asked.ask(0)
        wrong = asyncio.create_task(asked.questions.answer(b"no JSON"))
        gone, last = asyncio.create_task(asked.ask(1)), asyncio.create_task(asked.ask(2))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(QuestionError, match="no JSON"):
            await wrong
        assert (await last)["pods"][0]["scheduled"]
        assert gone.cancelled()
        assert asked.clock.worked == pytest.approx(2 * COST)
        waits = asyncio.create_task(asked.ask(3))
        await asyncio.sleep(0)
        asked.questions.knows_the_cluster = False
        with pytest.raises(NotReadyError):
            await waits

    in_virtual_time(monkeypatch, test)
