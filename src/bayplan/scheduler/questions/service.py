"""Questions to a running scheduler, one after the other, and behind its own work."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.extenders.calls import ExtenderCalls
from bayplan.scheduler.extenders.protocol import unasked
from bayplan.scheduler.questions.asking import answer
from bayplan.scheduler.questions.errors import NotReadyError
from bayplan.scheduler.questions.manifests import read_question
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry

_REST: Final = 25.0
"""While pods wait to be scheduled, no question is answered for so many times the time that the last one took: questions get 4 % of the scheduler's time then."""
_LOOK_AGAIN: Final = 0.02
"""Seconds after which a question that waits looks whether pods still do."""


class PlacementQuestions:
    """Answers questions about pods that are not there, from what one scheduler knows."""

    def __init__(self, core: SchedulerCore, extenders: ExtenderCalls, clock: Clock, metrics: Registry) -> None:
        self._core = core
        self._extenders = extenders
        self._clock = clock
        self._turn = asyncio.Lock()
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
        question = read_question(body, namespace)
        async with self._turn:
            while self._has_work and (wait := self._not_before - self._clock.monotonic()) > 0.0:
                await self._clock.sleep(min(wait, _LOOK_AGAIN))
            if not self.knows_the_cluster:
                raise NotReadyError(
                    "this scheduler does not know the cluster: it has not read it yet, or another one holds its lock"
                )
            started = self._clock.monotonic()
            steps = answer(self._core, question, explain=explain)
            found = await self._extenders.run(steps) if self._core.settings.extenders else unasked(steps)
            ended = self._clock.monotonic()
            self._not_before = ended + _REST * (ended - started)
            self._durations.observe(ended - started)
        return found.to_dict()

    @property
    def _has_work(self) -> bool:
        """Whether pods wait to be scheduled."""
        return self.knows_the_cluster and self._core.queue.sizes()["active"] > 0
