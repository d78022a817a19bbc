"""Questions to a running scheduler, one after the other, and behind its own work."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.errors import NotReadyError
from bayplan.scheduler.extenders.calls import ExtenderCalls
from bayplan.scheduler.extenders.protocol import unasked
from bayplan.scheduler.questions.asking import answer
from bayplan.scheduler.questions.manifests import Question, read_question
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry

_SHARE: Final = 0.04
"""Of the scheduler's time for questions, while pods wait to be scheduled."""
_CREDIT: Final = 0.05
"""Seconds of which the share may be made up for, if questions were not answered as soon as they could have been."""
_LOOK_AGAIN: Final = 0.02
"""Seconds after which a question that waits looks whether pods still do."""
_AT_ONCE: Final = 0.005
"""Seconds for which questions that have waited are answered before anything else has its turn."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A question that waits."""

    body: bytes
    namespace: str
    explain: bool
    answer: asyncio.Future[dict[str, Any]]


class PlacementQuestions:
    """Answers questions about pods that are not there, from what one scheduler knows."""

    def __init__(
        self,
        core: SchedulerCore,
        extenders: ExtenderCalls,
        clock: Clock,
        metrics: Registry,
        *,
        schedules: bool = True,
    ) -> None:
        """schedules: whether the core also places pods, which then get most of the time and of the memory for evaluations."""
        self._core = core
        self._schedules = schedules
        self._gates = core.settings.profiles[0].feature_gates
        self._extenders = extenders
        self._clock = clock
        self._turn = asyncio.Lock()
        """Held while extenders are asked."""
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        """Will look at those that wait."""
        self._not_before = 0.0
        """When (monotonic) the next question may be answered if pods wait."""
        text = "How long the scheduler worked on questions about pods that are not there."
        self._durations = metrics.histogram("bayplan_scheduler_question_duration_seconds", text, ()).labels()
        self.knows_the_cluster = False
        """Whether all that bears on placement has been read."""

    async def answer(self, body: bytes, *, namespace: str = "default", explain: bool = False) -> dict[str, Any]:
        """Where the pods of a question would go, as plain data (`answers`). Nothing is changed by it.

        body: JSON of a pod, a workload, or a List of them. namespace: of objects that name none. explain: say it node by node. Raises QuestionError, and
        NotReadyError while the scheduler does not know the cluster.
        """
        if self._core.settings.extenders:
            return await self._answered_with_extenders(body, namespace, explain)
        if not self._waiting and self._rest <= 0.0:
            return self._answered(body, namespace, explain)
        waiting = _Waiting(body, namespace, explain, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._timer is None:
            self._serve_later()
        return await waiting.answer

    def _serve_later(self) -> None:
        delay = min(max(self._rest, 0.0), _LOOK_AGAIN)
        self._timer = asyncio.get_running_loop().call_later(delay, self._serve)

    def _serve(self) -> None:
        """Answer questions that wait, until it is time for something else."""
        self._timer = None
        until = self._clock.monotonic() + _AT_ONCE
        while self._waiting and self._rest <= 0.0 and self._clock.monotonic() < until:
            waiting = self._waiting.popleft()
            if waiting.answer.done():  # whoever asked has gone
                continue
            try:
                waiting.answer.set_result(self._answered(waiting.body, waiting.namespace, waiting.explain))
            except Exception as error:
                waiting.answer.set_exception(error)
        if self._waiting:
            self._serve_later()

    def _answered(self, body: bytes, namespace: str, explain: bool) -> dict[str, Any]:
        started = self._clock.monotonic()
        question = self._read(body, namespace)
        found = unasked(answer(self._core, question, explain=explain, keeps=not self._schedules)).to_dict()
        self._account(started)
        return found

    async def _answered_with_extenders(self, body: bytes, namespace: str, explain: bool) -> dict[str, Any]:
        async with self._turn:
            while (rest := self._rest) > 0.0:
                await self._clock.sleep(min(rest, _LOOK_AGAIN))
            started = self._clock.monotonic()
            question = self._read(body, namespace)
            found = await self._extenders.run(answer(self._core, question, explain=explain, keeps=not self._schedules))
            self._account(started)
        return found.to_dict()

    def _read(self, body: bytes, namespace: str) -> Question:
        question = read_question(body, namespace, self._gates)
        if not self.knows_the_cluster:
            raise NotReadyError(
                "this scheduler does not know the cluster: it has not read it yet, or another one holds its lock"
            )
        return question

    def _account(self, started: float) -> None:
        """An answer is there that was started then."""
        spent = self._clock.monotonic() - started
        if self._has_work:
            self._not_before = max(self._not_before, started - _CREDIT) + spent / _SHARE
        self._durations.observe(spent)

    @property
    def _rest(self) -> float:
        """Seconds for which no question is to be answered, since pods wait to be scheduled."""
        return self._not_before - self._clock.monotonic() if self._has_work else 0.0

    @property
    def _has_work(self) -> bool:
        """Whether pods wait to be scheduled here."""
        return self._schedules and self.knows_the_cluster and self._core.queue.sizes()["active"] > 0
