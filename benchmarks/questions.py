"""Questions about pods that are not there, to a scheduler that is busy: what they cost it, and how many it answers.

One scheduler places the mix of applications, as fast as it can, while 500 questions a second come about pods of the mix, or about pods like no other. The
rounds with questions and without them take turns. Deciding and accounting, no API; the times are of the processor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.extenders.calls import ExtenderCalls
from bayplan.scheduler.extenders.protocol import Answer, Call
from bayplan.scheduler.kernels.choice import Mode
from bayplan.scheduler.metrics import SchedulerMetrics
from bayplan.scheduler.questions.service import PlacementQuestions
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from benchmarks import kernels, mix, workloads
from benchmarks.figures import Figure

_NODES: Final = 5_000
_PER_SECOND: Final = 500
_ROUNDS: Final = 7
_PODS: Final = 2_000
"""Placed in each round."""
_ASKED: Final = 1_000
"""Questions that are at hand in each round; and to begin with, before the rounds."""
_TURN: Final = 32
"""Pods after which others have their turn, as in the scheduler's service."""


def run(quick: bool) -> Iterator[Figure]:
    """What questions cost by themselves, and what a busy scheduler loses to them; with compiled loops too."""
    share = 10 if quick else 1
    for means in kernels.all_means():
        with kernels.used(means), asyncio.Runner() as runner:
            yield from _measured(_NODES // share, _PODS // share, means, runner)


def _measured(nodes: int, pods: int, means: Mode, runner: asyncio.Runner) -> Iterator[Figure]:
    busy = _Busy(nodes, [from_tree(core_v1.Pod, one) for one in mix.mix((4 * _ROUNDS + 1) * pods)], pods)
    kinds = {
        "pods of the mix": _bodies(mix.mix((_ROUNDS + 1) * _ASKED)),
        "pods like no other": _bodies(mix.different((_ROUNDS + 1) * _ASKED, seed=3)),
    }
    runner.run(busy.beside(()))
    suffix = f", {nodes:,} nodes{kernels.suffix(means)}"
    for name, bodies in kinds.items():
        yield Figure("questions", f"one about {name}{suffix}", runner.run(busy.alone(bodies[:_ASKED])) * 1e6, "µs")
    for name, bodies in kinds.items():
        losses, answered = [], []
        for number in range(1, _ROUNDS + 1):
            alone = runner.run(busy.beside(()))
            beside = runner.run(busy.beside(bodies[number * _ASKED : (number + 1) * _ASKED]))
            losses.append(100 * (beside.seconds / alone.seconds - 1))
            answered.append(beside.answered / beside.seconds)
        text = f"{_PER_SECOND} a second about {name}{suffix}"
        yield Figure("questions", f"{text}: scheduling takes", statistics.median(losses), "% more")
        yield Figure("questions", f"{text}: answered while pods wait", statistics.median(answered), "/s")


def _bodies(trees: list[dict[str, Any]]) -> list[bytes]:
    """Questions about such pods, under other names."""
    return [
        json.dumps(tree | {"metadata": tree["metadata"] | {"name": f"asked-{number}"}}).encode()
        for number, tree in enumerate(trees)
    ]


async def _refuse(call: Call) -> Answer:
    raise RuntimeError(f"there are no extenders: {call}")


class _Round:
    """Seconds of processor time that the pods of a round took, and questions that were answered meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.answered = 0


class _Busy:
    """A scheduler with pods to place."""

    def __init__(self, nodes: int, pods: list[core_v1.Pod], count: int) -> None:
        self._clock = SystemClock()
        self._core = SchedulerCore(load(None), self._clock, random.Random(1))
        self._core.measure(SchedulerMetrics(Registry(), self._core.queue, {}, self._clock))
        self._questions = PlacementQuestions(
            self._core, ExtenderCalls(self._core, _refuse, lambda: None), self._clock, Registry()
        )
        self._questions.knows_the_cluster = True
        self._pods, self._count = iter(pods), count
        for index in range(nodes):
            self._core.handle("Node", None, from_tree(core_v1.Node, workloads.node(index, zones=len(mix.ZONES))))

    async def alone(self, bodies: Sequence[bytes]) -> float:
        """Seconds for an answer while no pods wait, the median of ten parts."""
        times = []
        size = len(bodies) // 10
        for start in range(0, 10 * size, size):
            started = time.process_time()
            for body in bodies[start : start + size]:
                await self._questions.answer(body)
            times.append((time.process_time() - started) / size)
        return statistics.median(times)

    async def beside(self, bodies: Sequence[bytes]) -> _Round:
        """Place as many pods as make a round, while questions come."""
        for _ in range(self._count):
            self._core.handle("Pod", None, next(self._pods))
        found = _Round()
        asking = asyncio.create_task(self._ask(bodies, found))
        started, turn = time.process_time(), 0
        while (outcome := self._core.schedule_one()) is not None:
            if not outcome.decision.scheduled:
                raise RuntimeError(f"pod {outcome.queued.pod.key} found no node")
            self._core.bound(outcome.queued.pod)
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)
        found.seconds = time.process_time() - started
        if not asking.done():
            asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        return found

    async def _ask(self, bodies: Sequence[bytes], found: _Round) -> None:
        async def ask(body: bytes) -> None:
            await self._questions.answer(body)
            found.answered += 1

        began = self._clock.monotonic()
        async with asyncio.TaskGroup() as asked:
            for number, body in enumerate(bodies):
                while (wait := began + number / _PER_SECOND - self._clock.monotonic()) > 0.0:
                    await self._clock.sleep(wait)
                asked.create_task(ask(body))
