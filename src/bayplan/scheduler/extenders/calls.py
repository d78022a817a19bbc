"""The service's talk with extenders: carries the core's questions, while the picture of the cluster stands still.

An attempt with extenders in it takes time. What happens meanwhile must not reach the core: events, and pods that are taken
from their nodes again since they could not be bound, are kept and handed over afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.extenders.protocol import (
    Answer,
    Call,
    ExtenderError,
    ExtenderTransport,
    Questions,
    bind_call,
    read_bind,
)
from bayplan.scheduler.framework.verdicts import ActionError
from bayplan.scheduler.snapshot.pods import PodInfo

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ExtenderCalls:
    """For one core. `changed` is called after news that were kept have been handed over."""

    def __init__(self, core: SchedulerCore, transport: ExtenderTransport, changed: Callable[[], None]) -> None:
        self._core = core
        self._transport = transport
        self._changed = changed
        self._lock = asyncio.Lock()
        self._kept: list[Callable[[], None]] | None = None
        """What is to be told to the core, while extenders are being asked; None otherwise."""
        self.prioritizing = 0
        """Extenders that are being asked for scores."""

    @property
    def is_keeping(self) -> bool:
        """Whether the core must not hear of news now."""
        return self._kept is not None

    def keep(self, news: Callable[[], None]) -> bool:
        """Keep news for the core for later if it must not hear of them now; tells whether they were kept."""
        if self._kept is None:
            return False
        self._kept.append(news)
        return True

    async def attempt(self) -> Outcome | None:
        """One attempt of the core, with the questions that it has."""
        return await self.run(self._core.attempt())

    async def run(self, steps: Questions[T]) -> T:
        """The result of steps of the core, with the questions that they have. One after the other: the core can be in one only. Raises what they raise."""
        async with self._lock:
            try:
                calls = next(steps)
                while True:
                    self._kept = self._kept if self._kept is not None else []
                    answers: list[Answer] = await asyncio.gather(*(self._ask(call) for call in calls))
                    calls = steps.send(answers)
            except StopIteration as finished:
                result: T = finished.value
            finally:
                steps.close()
                self._hand_over()
            return result

    def _hand_over(self) -> None:
        """Nobody is being asked any more."""
        kept, self._kept = self._kept, None
        for news in kept or ():
            news()
        if kept:
            self._changed()

    async def _ask(self, call: Call) -> Answer:
        prioritizes = call.verb == call.extender.prioritize_verb
        self.prioritizing += prioritizes
        try:
            return await self._transport(call)
        except ExtenderError as error:
            logger.info("extender %s: %s", call.url, error)
            return error
        finally:
            self.prioritizing -= prioritizes

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Let the extender bind that is configured to; False if there is none. Raises ActionError."""
        for extender in self._core.extenders_of(pod):
            if extender.bind_verb:
                try:
                    read_bind(await self._ask(bind_call(extender, pod.pod, node_name)))
                except ExtenderError as error:
                    if extender.ignorable:
                        continue
                    raise ActionError(str(error)) from error
                return True
        return False
