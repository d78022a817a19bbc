"""Questions to the scheduler of `bayplan up` while it places the mix of applications: 500 a second over HTTPS, which a process of their own answers.

Rounds with questions and without them take turns. Where the cores are all taken, whatever is done beside scheduling slows it; so besides pods per second the
processor time is told that the process of the scheduler took for them, and what the questions took in the processes that have to do with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import load
from benchmarks.end_to_end import bound_rate, create_nodes
from benchmarks.figures import Figure
from benchmarks.mix import ZONES, mix
from benchmarks.processes import running

_NODES: Final = 5_000
_PER_SECOND: Final = 500
_ROUNDS: Final = 5
_PODS: Final = 3_000
"""Bound in each round."""
_CONNECTIONS: Final = 16
_TICK: Final = 0.02
"""Seconds between two looks at how many questions are due."""
_START: Final = 5.0
"""Seconds that the process for questions gets to come up and to know the cluster."""
_REST: Final = 2.0
_GRACE: Final = "--controller-manager-flag=--node-monitor-grace-period=24h"
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def run(quick: bool) -> Iterator[Figure]:
    """What a busy cluster loses to 500 questions a second."""
    share = 10 if quick else 1
    nodes, pods = _NODES // share, _PODS // share
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        options = ("--data-dir", directory, "--port", "0", "--nodes", "0", "--kubeconfig", str(kubeconfig), _GRACE)
        with running("up", *options) as (process, _):
            found = asyncio.run(_measured(load.Target(kubeconfig), process.pid, nodes, pods))
    name = f"{_PER_SECOND} a second about pods of the mix, {nodes:,} nodes, end to end"
    yield Figure("questions-up", f"{name}: pods bound, without them", statistics.median(found.alone), "pods/s")
    yield Figure("questions-up", f"{name}: pods bound, beside them", statistics.median(found.beside), "pods/s")
    yield Figure("questions-up", f"{name}: answered while pods wait", statistics.median(found.answered), "/s")
    more = 100 * (statistics.median(found.seconds_beside) / statistics.median(found.seconds_alone) - 1)
    yield Figure("questions-up", f"{name}: the scheduler's process takes for a pod", more, "% more")
    yield Figure("questions-up", f"{name}: answered while no pods come", statistics.median(found.at_rest), "/s")
    yield Figure(
        "questions-up",
        f"{name}: CPU for one of these in the process for them",
        statistics.median(found.asked) * 1e6,
        "µs",
    )


@dataclass
class _Found:
    """Of each round; the first one of each kind is left out."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    """Pods bound per second."""
    answered: list[float] = field(default_factory=list)
    """Per second."""
    seconds_alone: list[float] = field(default_factory=list)
    seconds_beside: list[float] = field(default_factory=list)
    """CPU seconds of the scheduler's process."""
    asked: list[float] = field(default_factory=list)
    """CPU seconds of the process for questions, for each of these while no pods come."""
    at_rest: list[float] = field(default_factory=list)
    """Answered per second while no pods come."""


async def _measured(target: load.Target, main: int, nodes: int, count: int) -> _Found:
    await create_nodes(target, nodes, len(ZONES))
    pods = iter(mix((2 * _ROUNDS + 2) * count))
    bodies = [
        json.dumps(tree | {"metadata": tree["metadata"] | {"name": f"asked-{number}"}}).encode()
        for number, tree in enumerate(mix(1_000))
    ]
    questions = [target.request("POST", "/bayplan/what-if", body) for body in bodies]
    scheduler = _processes_below(main)[0]
    found = _Found()
    for number in range(_ROUNDS + 1):
        before = _cpu_seconds(scheduler)
        rate = await bound_rate(target, [next(pods) for _ in range(count)])
        if number:
            found.alone.append(rate)
            found.seconds_alone.append(_cpu_seconds(scheduler) - before)
        asking = _Asking(target, questions)
        async with asking.going_on():
            if not number:
                await asyncio.sleep(_START)
            (answering,) = (one for one in _processes_below(main) if one != scheduler)
            await asyncio.sleep(1.0)
            earlier, asked = _cpu_seconds(answering), asking.answered
            await asyncio.sleep(_REST)
            found.at_rest.append((asking.answered - asked) / _REST)
            found.asked.append((_cpu_seconds(answering) - earlier) / (asking.answered - asked))
            before, asked = _cpu_seconds(scheduler), asking.answered
            rate = await bound_rate(target, [next(pods) for _ in range(count)])
            if number:
                found.beside.append(rate)
                found.answered.append((asking.answered - asked) * rate / count)
                found.seconds_beside.append(_cpu_seconds(scheduler) - before)
        await asyncio.sleep(1.0)
    return found


class _Asking:
    """Sends questions, as many a second as are to come; those that are not answered yet hold up the next ones."""

    def __init__(self, target: load.Target, questions: list[bytes]) -> None:
        self._target = target
        self._questions = questions
        self.answered = 0

    @contextlib.asynccontextmanager
    async def going_on(self) -> Any:
        """Ask meanwhile."""
        task = asyncio.create_task(self._ask())
        try:
            yield
        finally:
            self._is_over = True
            await task

    async def _ask(self) -> None:
        self._is_over = False
        due: asyncio.Queue[bytes] = asyncio.Queue()
        streams = [
            await asyncio.open_connection(self._target.host, self._target.port, ssl=self._target.tls)
            for _ in range(_CONNECTIONS)
        ]
        tasks = [asyncio.create_task(self._answer(reader, writer, due)) for reader, writer in streams]
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        while not self._is_over:
            while sent < (loop.time() - began) * _PER_SECOND and due.qsize() < _CONNECTIONS:
                due.put_nowait(self._questions[sent % len(self._questions)])
                sent += 1
            await asyncio.sleep(_TICK)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, writer in streams:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, due: asyncio.Queue[bytes]
    ) -> None:
        while True:
            writer.write(await due.get())
            head = await reader.readuntil(b"\r\n\r\n")
            at = head.lower().index(b"content-length:") + 15
            await reader.readexactly(int(head[at:].split(b"\r", 1)[0]))
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"a question failed: {head.decode()}")
            self.answered += 1


def _processes_below(main: int) -> list[int]:
    """The processes that do the work of `bayplan up`, in the order of their start: those that its fork server has made."""
    return sorted(child for server in _children(main) for child in _children(server))


def _children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
