"""The service around the scheduler: informers feed the core, decisions become bindings, evictions, conditions and events.

Deciding is the core's (`core.SchedulerCore`, no I/O). Here is what waits: one loop takes pods from the core as long
as there are any, bindings run beside it, as many at once as the store can commit together.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.informers import InformerFactory
from bayplan.informers.cache import split_key
from bayplan.scheduler import settings as scheduler_settings
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.metrics import SchedulerMetrics
from bayplan.scheduler.snapshot.catalog import KINDS
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

BINDINGS_AT_ONCE = 512
_TURN = 32
"""Decisions before the event loop gets its turn."""


class SchedulerService:
    """One scheduler against one API server."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Registry,
        config: Path | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.core = SchedulerCore(scheduler_settings.load(config), clock, randomness)
        self.informers = InformerFactory(client, clock, randomness)
        self.recorders = {name: EventRecorder(client, name, clock, randomness) for name in self.core.cycles}
        self.metrics = SchedulerMetrics(metrics, self.core.queue.sizes)
        self._work = asyncio.Event()
        self._bindings = asyncio.Semaphore(BINDINGS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with Supervisor("scheduler", clock=self.clock) as tasks:
            try:
                # What constrains placement first, pods last: a pod must not be tried before its nodes are known.
                for kind in (*KINDS, "Node", "Pod"):
                    self._follow(kind)
                self.informers.start()
                await self.informers.wait_for_sync()
                for name, recorder in self.recorders.items():
                    tasks.spawn(f"events {name}", recorder.run())
                await self._schedule()
            finally:
                await self.informers.stop()
                for task in self._tasks:
                    task.cancel()

    def _follow(self, kind: str) -> None:
        cls = next(row.type for row in self.client.kinds if row.kind == kind and row.is_stored)

        def handle(old: Any, new: Any) -> None:
            self.core.handle(kind, old, new)
            self._work.set()

        self.informers.informer(cls).on_change(
            add=lambda obj: handle(None, obj), update=handle, delete=lambda obj: handle(obj, None)
        )

    async def _schedule(self) -> None:
        turn = 0
        while True:
            started = self.clock.monotonic()
            outcome = self.core.schedule_one()
            if outcome is None:
                await self._wait()
                continue
            self.metrics.attempt(outcome.decision, self.clock.monotonic() - started)
            if outcome.decision.scheduled:
                await self._bindings.acquire()
                self._spawn(self._bind(outcome))
            elif not outcome.decision.skipped:
                self._spawn(self._report(outcome))
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait for an event, or for the next pod whose back-off is over."""
        self._work.clear()
        wake = self.core.queue.next_wake()
        timer = None
        if wake is not None:
            timer = self.clock.call_later(max(wake - self.clock.monotonic(), 0.001), self._work.set)
        try:
            await self._work.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a decision could not be carried out", exc_info=task.exception())

    def _recorder(self, pod: core_v1.Pod) -> EventRecorder:
        return self.recorders[pod.spec.scheduler_name or scheduler_settings.DEFAULT_SCHEDULER_NAME]

    async def _bind(self, outcome: Outcome) -> None:
        info, node = outcome.queued.pod, outcome.decision.node or ""
        pod = info.pod
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            await self.client.bind(namespace, name, pod.metadata.uid, node)
        except (ApiError, TransportError) as error:
            self.core.binding_failed(info.key)
            self._work.set()
            if not (isinstance(error, ApiError) and error.code in (404, 409)):
                logger.warning("binding %s to %s: %s", info.key, node, error)
                self._recorder(pod).event(
                    pod, "Warning", "FailedScheduling", f"binding rejected: {error}", action="Scheduling"
                )
            return
        finally:
            self._bindings.release()
        self.core.bound(info.key)
        self.metrics.bound(self.clock.monotonic() - outcome.queued.first_seen)
        self._recorder(pod).event(
            pod, "Normal", "Scheduled", f"Successfully assigned {namespace}/{name} to {node}", action="Binding"
        )

    async def _report(self, outcome: Outcome) -> None:
        """Evict victims, clear nominations, and tell the pod's status and events why it is not placed."""
        decision, pod = outcome.decision, outcome.queued.pod.pod
        await asyncio.gather(*(self._evict(key, pod, decision.nominated_node) for key in decision.victims))
        await asyncio.gather(*(self._clear_nomination(other) for other in outcome.cleared))
        self._recorder(pod).event(pod, "Warning", "FailedScheduling", decision.message, action="Scheduling")
        await self._write_condition(pod, decision.reason, decision.message, decision.nominated_node)

    async def _write_condition(self, pod: core_v1.Pod, reason: str, message: str, nominated: str) -> None:
        now = rfc3339(self.clock.now())
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
            "observedGeneration": pod.metadata.generation,
        }
        known = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        if known is not None and known.status == "False":
            if (known.reason, known.message) == (reason, message) and (
                not nominated or pod.status.nominated_node_name == nominated
            ):
                return
            condition["lastTransitionTime"] = known.last_transition_time
        status: dict[str, Any] = {"conditions": [condition]}
        if nominated:
            status["nominatedNodeName"] = nominated
        await self._patch_status(pod, {"metadata": {"uid": pod.metadata.uid}, "status": status})

    async def _patch_status(self, pod: core_v1.Pod, patch: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/status"
        try:
            await self.client.raw(
                "PATCH", path, {}, msgspec.json.encode(patch), "application/strategic-merge-patch+json"
            )
        except ApiError as error:
            if error.code not in (404, 409):
                logger.warning("status of pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
        except TransportError as error:
            logger.warning("status of pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)

    async def _evict(self, key: str, pod: core_v1.Pod, node: str) -> None:
        """Make room: say in the victim's conditions why, then delete it."""
        namespace, name = split_key(key)
        victim = self.informers.informer(core_v1.Pod).cache.by_key(key)
        if victim is None:
            return
        scheduler = pod.spec.scheduler_name or scheduler_settings.DEFAULT_SCHEDULER_NAME
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        await self._patch_status(victim, {"status": {"conditions": [condition]}})
        try:
            await self.client.delete(core_v1.Pod, name, namespace, uid=victim.metadata.uid)
        except ApiError as error:
            if error.code not in (404, 409):
                logger.warning("preempting pod %s: %s", key, error)
            return
        except TransportError as error:
            logger.warning("preempting pod %s: %s", key, error)
            return
        self.metrics.preempted()
        message = f"Preempted by pod {pod.metadata.uid} on node {node}"
        self._recorder(pod).event(victim, "Normal", "Preempted", message, action="Preempting")

    async def _clear_nomination(self, other: PodInfo) -> None:
        await self._patch_status(other.pod, {"status": {"nominatedNodeName": None}})
