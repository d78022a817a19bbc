"""Watches what the node has left, and evicts pods before it runs out (pkg/kubelet/eviction/eviction_manager.go)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection, is_critical
from bayplan.kubelet.core.eviction import (
    REASON,
    RESOURCES,
    Observation,
    Pressure,
    Threshold,
    local_storage_violation,
    observations,
    pressure_rejection,
    ranked,
    soft_grace,
    threshold_message,
)
from bayplan.kubelet.core.pod_status import disrupted
from bayplan.kubelet.core.usage import NodeUsage, PodUsage
from bayplan.kubelet.pods.container_events import WARNING, ContainerEvents
from bayplan.kubelet.pods.pod_workers import PodWorkers, Termination
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0
IMMEDIATE_GRACE = 1
"""Seconds that a pod gets whose node cannot wait."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One measurement."""

    node: NodeUsage
    pods: Mapping[str, PodUsage]


class EvictionManager:
    """See the module. `conditions` are those of the node, such as MemoryPressure."""

    def __init__(
        self,
        pressure: Pressure,
        measure: Callable[[], Awaitable[Usage]],
        active: Callable[[], list[core_v1.Pod]],
        workers: PodWorkers,
        events: ContainerEvents,
        node: Callable[[], core_v1.Node | None],
        reclaim: Mapping[str, Callable[[], Awaitable[None]]],
        clock: Clock,
        *,
        most_grace: int = 0,
        isolates_storage: bool = True,
    ) -> None:
        """reclaim: what frees space without ending pods, by resource. most_grace: seconds that soft evictions give at most."""
        self._pressure = pressure
        self._measure = measure
        self._active = active
        self._workers = workers
        self._events = events
        self._node = node
        self._reclaim = reclaim
        self._clock = clock
        self._most_grace = most_grace
        self._isolates_storage = isolates_storage
        self.on_eviction: Callable[[str], None] = lambda _: None
        """Called with the signal, such as memory.available, when a pod is evicted because of it."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions that the node has now."""
        return self._pressure.conditions

    async def run(self) -> None:
        """Look every ten seconds, and sooner while pods are being evicted, until cancelled."""
        while True:
            try:
                evicted = await self.look()
            except (RuntimeRequestError, OSError) as error:
                logger.warning("cannot measure usage: %s", error)
                evicted = []
            for uid in evicted:
                await self._workers.wait_terminated(uid)
            if not evicted:
                await self._clock.sleep(PERIOD_SECONDS)

    async def look(self) -> list[str]:
        """Measure once and do what is needed; uids of the pods that were evicted."""
        pods = self._active()
        usage = await self._measure()
        seen = observations(usage.node)
        due = self._pressure.look(seen, self._clock.monotonic())
        separate = usage.node.image_filesystem is not None
        if self._isolates_storage:
            evicted = self._evict_by_own_limits(pods, usage, separate_images=separate)
            if evicted:
                return evicted
        if not due:
            return []
        return await self._relieve(due[0], pods, usage, seen, separate_images=separate)

    def rejection(self, pod: core_v1.Pod, others: list[core_v1.Pod]) -> Rejection | None:
        """Why a node under pressure does not take a pod."""
        return pressure_rejection(pod, self.conditions)

    def _evict_by_own_limits(self, pods: list[core_v1.Pod], usage: Usage, *, separate_images: bool) -> list[str]:
        evicted = []
        for pod in pods:
            found = usage.pods.get(pod.metadata.uid)
            text = local_storage_violation(pod, found, separate_images=separate_images) if found is not None else ""
            if text and self._evict(pod, text, IMMEDIATE_GRACE, disruption=False):
                evicted.append(pod.metadata.uid)
        return evicted

    async def _relieve(
        self,
        threshold: Threshold,
        pods: list[core_v1.Pod],
        usage: Usage,
        seen: Mapping[str, Observation],
        *,
        separate_images: bool,
    ) -> list[str]:
        """Free what the node itself can, else evict one pod."""
        resource = RESOURCES[threshold.signal]
        node = self._node()
        if node is not None:
            self._events.node(node, WARNING, "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        free = self._reclaim.get(resource)
        if free is not None:
            await free()
            now = observations((await self._measure()).node)
            limit = threshold.amount.of(now[threshold.signal].capacity)
            if now[threshold.signal].available >= limit + threshold.reclaim.of(now[threshold.signal].capacity):
                return []
        for pod in ranked(pods, threshold.signal, usage.pods, separate_images=separate_images):
            grace = IMMEDIATE_GRACE if threshold.is_hard else soft_grace(pod, self._most_grace)
            text = threshold_message(pod, threshold, seen, usage.pods.get(pod.metadata.uid))
            if self._evict(pod, text, grace, disruption=True):
                self.on_eviction(threshold.signal)
                return [pod.metadata.uid]
        logger.error("no pod can be evicted to reclaim %s", resource)
        return []

    def _evict(self, pod: core_v1.Pod, text: str, grace: int, *, disruption: bool) -> bool:
        """Whether the pod goes: pods that the system needs never do."""
        if is_critical(pod):
            return False
        self._events.pod(pod, WARNING, REASON, text)

        def failed(status: core_v1.PodStatus) -> core_v1.PodStatus:
            if disruption:
                return disrupted(pod, status, REASON, text, text)
            changed: core_v1.PodStatus = msgspec.structs.replace(status, phase="Failed", reason=REASON, message=text)
            return changed

        termination = Termination(grace_seconds=grace, set_status=failed, evicted=True)
        self._workers.kill(pod.metadata.uid, pod, termination)
        return True
