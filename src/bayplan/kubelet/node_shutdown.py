"""Ends pods in order before their machine goes down (pkg/kubelet/nodeshutdown).

While the kubelet runs it holds a lock that delays shutdowns. When one is announced, the node becomes unready and takes no more pods, pods end from the
lowest priority to the highest, each group within its period, and the lock is given back. A shutdown that is called off makes the node ready again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection
from bayplan.kubelet.core.shutdown import NOT_ADMITTED, UNREADY, GracePeriod, ended, grace_of, in_order
from bayplan.kubelet.pods.container_events import NORMAL, ContainerEvents
from bayplan.kubelet.pods.pod_workers import PodWorkers, Termination
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock
from bayplan.support.system.private_files import write_private
from bayplan.support.timestamps import parse_rfc3339, rfc3339

logger = logging.getLogger(__name__)

STATE_FILE = "graceful_node_shutdown_state"
RECONNECT_SECONDS = 1.0
_POLL_SECONDS = (0.1, 0.2, 0.4, 0.8)
"""Waits between looks at whether a longer delay has become effective."""


class ShutdownError(Exception):
    """Shutdowns of the machine cannot be delayed or seen."""


class Inhibitor(Protocol):
    """What may delay a shutdown of this machine. Each raises ShutdownError."""

    async def longest_delay(self) -> float:
        """Seconds that a shutdown waits at most."""

    async def set_longest_delay(self, seconds: float) -> None:
        """Ask for more."""

    async def delay(self) -> Callable[[], None]:
        """From now on shutdowns are delayed, until what is returned is called."""

    def announcements(self) -> AsyncIterator[bool]:
        """True when the machine is to go down, False when that is called off."""

    async def close(self) -> None:
        """Let go of the machine's bus."""


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """When the last shutdown began and was prepared, as Unix times; 0 for never, or not yet."""

    start: float = 0.0
    end: float = 0.0


class NodeShutdown:
    """See the module."""

    def __init__(
        self,
        periods: Sequence[GracePeriod],
        connect: Callable[[], Awaitable[Inhibitor]],
        active: Callable[[], list[core_v1.Pod]],
        workers: PodWorkers,
        events: ContainerEvents,
        node: Callable[[], core_v1.Node | None],
        report: Callable[[], Awaitable[object]],
        blocking: Blocking,
        root: Path,
        clock: Clock,
    ) -> None:
        """report: writes the node's status now. root: where the times of the last shutdown are kept."""
        self._periods = periods
        self._connect = connect
        self._active = active
        self._workers = workers
        self._events = events
        self._node = node
        self._report = report
        self._blocking = blocking
        self._file = root / STATE_FILE
        self._clock = clock
        self._unlock: Callable[[], None] = _nothing
        self.is_shutting_down = False
        self.on_times: Callable[[ShutdownTimes], None] = lambda _: None
        """Called with the times whenever they change, and with those of the last shutdown when the kubelet starts."""

    @property
    def error(self) -> str:
        """Why the node is not ready; empty if this is not why."""
        return UNREADY if self.is_shutting_down else ""

    def rejection(self, pod: core_v1.Pod, others: list[core_v1.Pod]) -> Rejection | None:
        """Why a node that goes down takes no pods."""
        return NOT_ADMITTED if self.is_shutting_down else None

    async def run(self) -> None:
        """Delay shutdowns and prepare for them, until cancelled. Without periods nothing is delayed."""
        if not self._periods:
            return
        self.on_times(await self._blocking(self._load))
        said = ""
        while True:
            try:
                await self._follow()
            except ShutdownError as error:
                if str(error) != said:
                    logger.warning("cannot watch for shutdowns of the node: %s", error)
                said = str(error)
            await self._clock.sleep(RECONNECT_SECONDS)

    async def _follow(self) -> None:
        """Delay and prepare as long as the machine's bus can be reached. Raises ShutdownError."""
        inhibitor = await self._connect()
        try:
            await self._ask_for_time(inhibitor)
            self._unlock = await inhibitor.delay()
            async for is_going_down in inhibitor.announcements():
                if is_going_down:
                    await self._prepare()
                else:
                    await self._call_off(inhibitor)
        finally:
            self._release()
            await inhibitor.close()

    async def _ask_for_time(self, inhibitor: Inhibitor) -> None:
        wanted = float(sum(each.seconds for each in self._periods))
        if await inhibitor.longest_delay() >= wanted:
            return
        await inhibitor.set_longest_delay(wanted)
        for wait in (*_POLL_SECONDS, None):
            found = await inhibitor.longest_delay()
            if found >= wanted:
                return
            if wait is not None:
                await self._clock.sleep(wait)
        raise ShutdownError(f"shutdowns are delayed by {found:g} s at most, the kubelet needs {wanted:g} s")

    async def _prepare(self) -> None:
        """End all pods, then let the machine go down."""
        self._say("Shutdown manager detected shutdown event")
        self.is_shutting_down = True
        reporting = asyncio.ensure_future(self._report())
        started = self._clock.now()
        await self._note(ShutdownTimes(started))
        try:
            for period, pods in in_order(self._periods, self._active()):
                await self._end(period, pods)
            await self._note(ShutdownTimes(started, self._clock.now()))
        finally:
            await asyncio.gather(reporting, return_exceptions=True)
            self._release()

    async def _call_off(self, inhibitor: Inhibitor) -> None:
        self._say("Shutdown manager detected shutdown cancellation")
        self.is_shutting_down = False
        lock = await inhibitor.delay()
        self._release()
        self._unlock = lock

    async def _end(self, period: GracePeriod, pods: Sequence[core_v1.Pod]) -> None:
        """End a group, and wait until all that it had is given back, or its time is up."""
        for pod in pods:

            def set_status(status: core_v1.PodStatus, pod: core_v1.Pod = pod) -> core_v1.PodStatus:
                return ended(pod, status)

            self._workers.kill(pod.metadata.uid, pod, Termination(grace_of(pod, period), set_status))
        waiting = asyncio.gather(*(self._workers.wait_terminated(each.metadata.uid) for each in pods))
        timer = self._clock.call_later(period.seconds, waiting.cancel)
        try:
            await waiting
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            logger.warning("pods of priority %d have not ended within %d s", period.priority, period.seconds)
        finally:
            timer.cancel()

    def _release(self) -> None:
        self._unlock()
        self._unlock = _nothing

    def _say(self, text: str) -> None:
        node = self._node()
        if node is not None:
            self._events.node(node, NORMAL, "Shutdown", text)

    async def _note(self, times: ShutdownTimes) -> None:
        """Keep the times for the kubelet that starts after the shutdown."""
        self.on_times(times)
        try:
            await self._blocking(lambda: self._store(times))
        except OSError as error:
            logger.warning("cannot write %s: %s", self._file, error)

    def _store(self, times: ShutdownTimes) -> None:
        tree = {"startTime": _written(times.start), "endTime": _written(times.end)}
        write_private(self._file, json.dumps(tree).encode())

    def _load(self) -> ShutdownTimes:
        try:
            tree = json.loads(self._file.read_bytes())
            return ShutdownTimes(_read(tree["startTime"]), _read(tree["endTime"]))
        except FileNotFoundError:
            return ShutdownTimes()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("cannot read %s: %s", self._file, error)
            return ShutdownTimes()


_NEVER = "0001-01-01T00:00:00Z"


def _written(time: float) -> str:
    return rfc3339(time) if time else _NEVER


def _read(text: str) -> float:
    return 0.0 if text == _NEVER else parse_rfc3339(text)


def _nothing() -> None:
    """There is no lock."""
