"""Simulated nodes that run out of memory: their condition, and the pods that they evict, by the rules of the kubelet's core.

Looked at are only nodes with a pod that says what memory it uses (`bayplan.dev/memory-usage`), every ten seconds as kubelets do. Annotations say nothing of disks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from bayplan.api.errors import ApiError
from bayplan.api.quantity import value
from bayplan.api.simulated_usage import ANNOTATIONS, container_usage
from bayplan.api.types import core_v1
from bayplan.client.errors import TransportError
from bayplan.kubelet.core.admission import is_critical
from bayplan.kubelet.core.eviction import (
    Observation,
    Pressure,
    Threshold,
    parse_thresholds,
    ranked,
    threshold_message,
)
from bayplan.kubelet.core.usage import ContainerUsage, PodUsage
from bayplan.kubelet.node.status import pressure_words
from bayplan.kubelet.simulator.durations import chance
from bayplan.support.clock import Clock
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
MEMORY_PRESSURE: Final = "MemoryPressure"
_TRANSITION_SECONDS = 300.0
"""How long a node has the condition after it was last short of memory (evictionPressureTransitionPeriod)."""
_SIGNAL = "memory.available"
_THRESHOLDS = tuple(each for each in parse_thresholds(None, {}, {}, {}) if each.signal == _SIGNAL)

Evict = Callable[[core_v1.Pod, str], Awaitable[None]]


class Reports(Protocol):
    """What a node tells about its state."""

    async def write_condition(self, node: core_v1.Node, condition: core_v1.NodeCondition) -> None:
        """Show that a node has got or lost a condition. Raises ApiError, TransportError."""

    def say_short_of(self, node: core_v1.Node, resource: str) -> None:
        """Tell that a node evicts pods."""


def says_memory(pod: core_v1.Pod) -> bool:
    """Whether annotations of a pod say what memory it uses."""
    annotations = pod.metadata.annotations
    return bool(annotations) and any(name.startswith(ANNOTATIONS["memory"]) for name in annotations)


def memory_usage(pod: core_v1.Pod, now: float) -> PodUsage:
    """What memory a running pod uses at a moment."""
    drawn = container_usage(pod, lambda: chance(pod.metadata.uid, str(int(now))), now)
    containers = {name: ContainerUsage(memory=used["memory"].value()) for name, used in drawn.items()}
    return PodUsage(memory=sum(one.memory or 0 for one in containers.values()), containers=containers)


def victim_of(
    pods: Iterable[core_v1.Pod], usages: dict[str, PodUsage], threshold: Threshold, seen: dict[str, Observation]
) -> tuple[core_v1.Pod, str] | None:
    """The pod that a node evicts first, and why; None if all are needed by the system."""
    for pod in ranked(pods, threshold.signal, usages, separate_images=False):
        if not is_critical(pod):
            return pod, threshold_message(pod, threshold, seen, usages.get(pod.metadata.uid))
    return None


class MemoryWatch:
    """Looks at simulated nodes. `pods` gives the pods of a node, `node` a node that is to be looked at (None for one that is gone or silent)."""

    def __init__(
        self,
        clock: Clock,
        *,
        node: Callable[[str], core_v1.Node | None],
        pods: Callable[[str], Iterable[core_v1.Pod]],
        evict: Evict,
        reports: Reports,
    ) -> None:
        self._clock = clock
        self._node = node
        self._pods = pods
        self._evict = evict
        self._reports = reports
        self._nodes: dict[str, Pressure] = {}
        """Nodes that have, or had, a pod that says what memory it uses."""
        self._wanted = asyncio.Event()

    def see(self, pod: core_v1.Pod) -> None:
        """A pod of a simulated node is as the API shows it."""
        if says_memory(pod) and pod.spec.node_name not in self._nodes:
            self._nodes[pod.spec.node_name] = Pressure(_THRESHOLDS, _TRANSITION_SECONDS)
            self._wanted.set()

    async def run(self) -> None:
        """Look while there are nodes to look at, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                await self.look()
            except (ApiError, TransportError) as error:
                logger.warning("memory of nodes: %s", error)  # the next look finds what is left to do
            if not self._nodes:
                self._wanted.clear()
            await self._clock.sleep(PERIOD_SECONDS)

    async def look(self) -> None:
        """Look at all nodes that may be short of memory. Raises ApiError, TransportError."""
        for name, pressure in tuple(self._nodes.items()):
            node = self._node(name)
            if node is not None:
                await self._look_at(node, pressure)
            pods = tuple(self._pods(name))
            if not pressure.conditions and not any(map(says_memory, pods)):
                del self._nodes[name]

    async def _look_at(self, node: core_v1.Node, pressure: Pressure) -> None:
        now, capacity = self._clock.now(), value(node.status.allocatable.get("memory", 0))
        pods = {one.metadata.uid: one for one in self._pods(node.metadata.name) if one.status.phase == "Running"}
        usages = {uid: memory_usage(one, now) for uid, one in pods.items()}
        shown = False
        while True:
            used = sum(usages[uid].memory or 0 for uid in pods)
            seen = {_SIGNAL: Observation(max(capacity - used, 0), capacity)}
            due = pressure.look(seen, self._clock.monotonic())
            if not shown:
                await self._show(node, has_pressure=MEMORY_PRESSURE in pressure.conditions)
                shown = True
            if due:
                self._reports.say_short_of(node, "memory")
            found = victim_of(pods.values(), usages, due[0], seen) if due else None
            if found is None:
                return
            await self._evict(*found)
            del pods[found[0].metadata.uid]

    async def _show(self, node: core_v1.Node, *, has_pressure: bool) -> None:
        """Write the node's condition if it is another one."""
        status, now = "True" if has_pressure else "False", rfc3339(self._clock.now())
        known = next((one for one in node.status.conditions if one.type == MEMORY_PRESSURE), None)
        if known is not None and known.status == status:
            return
        reason, message = pressure_words(MEMORY_PRESSURE, has_pressure)
        condition = core_v1.NodeCondition(
            type=MEMORY_PRESSURE,
            status=status,
            reason=reason,
            message=message,
            last_heartbeat_time=now,
            last_transition_time=now,
        )
        await self._reports.write_condition(node, condition)
