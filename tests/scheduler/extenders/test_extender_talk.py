"""What happens while extenders are being asked reaches the core afterwards, in order."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
import yaml

from bayplan.client import Client
from bayplan.scheduler.binding_cycle import failed
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.extenders.calls import ExtenderCalls
from bayplan.scheduler.extenders.protocol import Answer, Call
from bayplan.scheduler.library import typed
from bayplan.scheduler.service import SchedulerService
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from tests.client.transports import StubTransport
from tests.scheduler.extenders.test_extenders import CACHED, cluster, extender
from tests.scheduler.objects import node, pod


class Question:
    """A door behind which somebody thinks until told the answer."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        verbs = {"prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
        self.core = cluster(extender(**CACHED), extender(**verbs), nodes="ab").core
        self.talk = ExtenderCalls(self.core, self.door, partial(self.told.append, "changed"))

    async def door(self, call: Call) -> Answer:
        if call.verb == "filter":
            return {"NodeNames": ["a", "b"]}
        self.asked.set()
        return await self.answer

    async def asking(self) -> asyncio.Task[Outcome | None]:
        task = asyncio.create_task(self.talk.attempt())
        await self.asked.wait()
        return task


def test_news_are_kept_while_extenders_are_asked_and_handed_over_in_order() -> None:
    async def story() -> None:
        question = Question()
        assert not question.talk.keep(partial(question.told.append, "before"))
        task = await question.asking()
        assert question.talk.prioritizing == 1
        for news in ("first", "second"):
            assert question.talk.keep(partial(question.told.append, news))
        assert question.told == []
        question.answer.set_result([{"Host": "b", "Score": 10}])
        outcome = await task
        assert outcome is not None
        assert outcome.decision.node == "b"
        assert question.told == ["first", "second", "changed"]
        assert question.talk.prioritizing == 0
        assert not question.talk.keep(partial(question.told.append, "after"))

    asyncio.run(story())


def test_a_pod_that_could_not_be_bound_leaves_its_node_only_when_nobody_is_asked(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"extenders": [extender(**CACHED)]}))

    async def story() -> None:
        asked, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def door(call: Call) -> Answer:
            asked.set()
            return await answer

        client = Client(StubTransport(lambda method, path, query: b"{}"))
        service = SchedulerService(
            client,
            clock=SystemClock(),
            randomness=SeededRandomness(1),
            metrics=Registry(),
            config=config,
            transport=door,
        )
        service.core.handle("Node", None, typed("Node", node("a")))
        service.core.handle("Pod", None, typed("Pod", pod("p")))
        outcome = service.core.schedule_one()
        assert outcome is not None
        service.core.handle("Pod", None, typed("Pod", pod("q")))
        task = asyncio.create_task(service._extenders.attempt())
        await asked.wait()
        await service._binding_failed(outcome, failed("Bind", "DefaultBinder", RuntimeError("no")), 0.0)
        assert list(service.core.snapshot.pods) == ["default/p"]
        answer.set_result({"NodeNames": ["a"]})
        await task
        assert list(service.core.snapshot.pods) == ["default/q"]

    asyncio.run(story())


def test_news_are_handed_over_even_if_the_attempt_is_cancelled() -> None:
    async def story() -> None:
        question = Question()
        task = await question.asking()
        question.talk.keep(partial(question.told.append, "news"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert question.told == ["news", "changed"]

    asyncio.run(story())
