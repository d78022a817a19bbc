"""All that simulated pods answer; an API server asks it instead of a kubelet."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path

from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.types import core_v1
from bayplan.kubelet.logs.files import LogReader
from bayplan.kubelet.simulator.answers.connections import connect_to
from bayplan.kubelet.simulator.answers.local_commands import run_command
from bayplan.kubelet.simulator.answers.metric_pages import NodeState, Totals, page_of
from bayplan.kubelet.simulator.answers.objects import AnswerObject
from bayplan.kubelet.simulator.answers.rules import Rules, Target
from bayplan.kubelet.simulator.answers.usage import Usage, usage_of
from bayplan.streaming.interface import CommandStreams, Duplex, Run, StreamError
from bayplan.support.blocking import in_thread
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)


class PodAnswers:
    """Answers by rules; None where no rule says anything."""

    def __init__(self, objects: Iterable[AnswerObject], clock: Clock) -> None:
        self._rules = Rules(objects)
        self._logs = LogReader(in_thread, clock)
        self._totals = Totals()

    def log(
        self, pod: core_v1.Pod, container: str, options: LogOptions, runs: Callable[[], bool]
    ) -> AsyncIterator[bytes] | None:
        """A container's log, piece by piece. runs: whether the container still does, so that more may come. Raises StreamError if there is none."""
        rule = self._rules.log(_target(pod, container))
        if rule is None:
            return None
        return self._read(_existing(rule.previous_logs_file if options.previous else rule.logs_file), options, runs)

    def command(self, pod: core_v1.Pod, container: str, command: Sequence[str], *, tty: bool) -> Run | None:
        """What runs a command in a container."""
        rule = self._rules.exec(_target(pod, container))
        if rule is None or rule.local is None:
            return None
        return functools.partial(run_command, command, rule.local, tty=tty)

    def attach(self, pod: core_v1.Pod, container: str, runs: Callable[[], bool]) -> Run | None:
        """What shows the output of a container to those who attach. Raises StreamError if there is none."""
        rule = self._rules.attach(_target(pod, container))
        if rule is None:
            return None

        file = _existing(rule.logs_file)

        async def show(streams: CommandStreams) -> int:
            async for piece in self._read(file, LogOptions(follow=True), runs):
                if streams.stdout is not None:
                    await streams.stdout.write(piece)
            return 0

        return show

    def connects(self, pod: core_v1.Pod) -> bool:
        """Whether anything answers at any port."""
        return self._rules.forwards(pod.metadata.namespace, pod.metadata.name)

    async def connect(self, pod: core_v1.Pod, port: int) -> Duplex:
        """Connect to a port. Raises StreamError."""
        rule = self._rules.forward(_target(pod, port))
        if rule is None:
            raise StreamError(f"nothing says what answers at port {port} of a pod on a simulated node")
        return await connect_to(rule)

    def usage(self, pod: core_v1.Pod, node: core_v1.Node, now: float, chance: Callable[[], float]) -> Usage:
        """What containers use that a rule is about: container -> resource -> amount. now: unix seconds; chance gives numbers in [0, 1)."""
        return usage_of(self._rules, pod, node, now, chance) if self._rules.has_usage else {}

    def page(
        self,
        path: str,
        node: core_v1.Node,
        pods: Callable[[], Iterable[core_v1.Pod]],
        usage: Callable[[core_v1.Pod], Usage],
        now: float,
        chance: Callable[[], float],
    ) -> bytes | None:
        """A page of metrics of a node; None if it has none there. pods: those of the node; usage: what the containers of one use."""
        page = next((each for each in self._rules.pages if each.is_at(path, node.metadata.name)), None)
        if page is None:
            return None
        return page_of(page, NodeState(node, tuple(pods()), usage, now, chance), self._totals)

    async def _read(self, file: Path, options: LogOptions, runs: Callable[[], bool]) -> AsyncIterator[bytes]:
        try:
            async for piece in self._logs.read(file, options, runs):
                yield piece
        except OSError as error:
            logger.warning("a log of simulated pods cannot be read: %s", error)


def _existing(name: str) -> Path:
    """A file. Raises StreamError if there is none."""
    if not name:
        raise StreamError("there is no log of an earlier run")
    file = Path(name)
    if not file.is_file():
        raise StreamError(f"the log cannot be read: {file}: no such file")
    return file


def _target(pod: core_v1.Pod, part: str | int) -> Target:
    return Target(pod.metadata.namespace, pod.metadata.name, part)
