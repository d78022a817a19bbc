"""The service around the scheduler: informers feed the core, decisions become bindings, evictions, conditions and events.

Deciding is the core's (`core.SchedulerCore`, no I/O). Here is what waits: one loop takes pods from the core as long
as there are any, bindings run beside it, as many at once as the store can commit together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from bayplan.api.errors import ApiError
from bayplan.api.kinds import KindTable
from bayplan.api.optional_kinds import DEVICE_TAINT_RULE, NEWER_DEVICE_TAINT_RULE, NEWER_POD_GROUP, POD_GROUP
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.informers import InformerFactory
from bayplan.scheduler.attempts import AttemptLog
from bayplan.scheduler.binding import POD_BINDING, Changes, ClientActions, carry_out
from bayplan.scheduler.binding_cycle import BindingCycle, Failure, failed
from bayplan.scheduler.configuration import settings as scheduler_settings
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.development.plugin_files import PluginFiles
from bayplan.scheduler.development.plugin_reload import LOOK_SECONDS, PluginReload
from bayplan.scheduler.evictions import Evicted, Evictions
from bayplan.scheduler.extenders.calls import ExtenderCalls
from bayplan.scheduler.extenders.http import HttpDoor
from bayplan.scheduler.extenders.protocol import ExtenderTransport
from bayplan.scheduler.framework.meter import SUCCESS
from bayplan.scheduler.framework.verdicts import ActionError, Status
from bayplan.scheduler.gangs.custom_group_follower import CustomGroupFollower
from bayplan.scheduler.gangs.gang_cycle import GANG, UNSCHEDULABLE_REASON, GroupResult
from bayplan.scheduler.gangs.gang_preemption import GroupPreemption
from bayplan.scheduler.gangs.group_binding import GroupBinding
from bayplan.scheduler.gangs.newer_groups import NewerGroups
from bayplan.scheduler.metrics import SchedulerMetrics
from bayplan.scheduler.profile import DEFAULT_BINDER
from bayplan.scheduler.questions.service import PlacementQuestions
from bayplan.scheduler.reporting import Preemptor, Reporter
from bayplan.scheduler.snapshot.catalog import KINDS
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import ResourceClaim
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_TURN = 32
"""Decisions before the event loop gets its turn."""
_MAKING_ROOM = 256
"""Pods whose victims are evicted at the same time. More would be no faster: what waits for the server is cold when its turn comes."""


def _leave(obj: Any, problem: str) -> None:
    """Another scheduler tells the users of an object what is wrong with it."""


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
        feature_gates: Collection[str] = (),
        transport: ExtenderTransport | None = None,
        plugins: PluginFiles | None = None,
        schedules: bool = True,
    ) -> None:
        """`feature_gates` are those that are on. `transport` carries calls to extenders; by default they are made over HTTP. `plugins`: those of files,
        which are looked at before each decision if they are followed. `schedules`: without it the cluster is followed and questions about it are
        answered, but no pod is placed and nothing is written. Raises SettingsError."""
        self.client = client
        self.clock = clock
        self.randomness = randomness
        self._schedules = schedules
        self._plugins = PluginReload(plugins, config, feature_gates) if plugins is not None else None
        self._reload = self._plugins if plugins is not None and plugins.follows else None
        """What looks at the files; None if nothing does."""
        settings = self._plugins.settings() if self._plugins else scheduler_settings.load(config, feature_gates)
        self.core = SchedulerCore(settings, clock, randomness)
        self.informers = InformerFactory(client, clock, randomness)
        self.recorders = {name: EventRecorder(client, name, clock, randomness) for name in self.core.cycles}
        self.reporter = Reporter(client, clock, self.recorders, self._seen)
        self.evictions = Evictions(self.reporter, clock, self._seen, self.core.waiting)
        self.changes = Changes(clock)
        self.actions = ClientActions(client, self.changes, clock)
        snapshot = self.core.snapshot
        sizes = {
            "nodes": lambda: snapshot.node_count,
            "pods": lambda: len(snapshot.pods),
            "assumed_pods": lambda: len(self.core.cache),
        }
        self.metrics = SchedulerMetrics(metrics, self.core.queue, sizes, clock)
        self.core.measure(self.metrics)
        self.core.queue.incoming = self.metrics.incoming
        self.core.queue.waiting.hinted = self.metrics.hinted
        self.core.queue.in_flight.tracked = self.metrics.tracked
        self.actions.created = self.metrics.claim_created
        self.actions.called = self.reporter.called = self.metrics.called
        self.metrics.pending_calls.labels(POD_BINDING).set_function(lambda: float(self.actions.pending))
        self._http = HttpDoor()
        self._extenders = ExtenderCalls(self.core, transport or self._http, self._changed)
        self._group = GroupBinding(
            self.actions,
            clock,
            self.metrics,
            committed=self.core.queue.placed,
            bound=self._bound,
            failed_to_bind=self._binding_failed,
        )
        self._attempts = AttemptLog(clock)
        self.questions = PlacementQuestions(self.core, self._extenders, clock, metrics, schedules=schedules)
        self._absent: set[str] = set()
        """Kinds that the server does not have, or does not let us read."""
        refuse = self.reporter.misunderstood if schedules else _leave
        self._custom_groups = CustomGroupFollower(self.core, clock, randomness, self._deliver, refuse)
        self._newer_groups = NewerGroups(self.core, clock, self._deliver, refuse)
        self._making_room = asyncio.Semaphore(_MAKING_ROOM)
        self._work = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reports: dict[str, asyncio.Task[None]] = {}
        """Pods whose last attempt failed, which is being told: their binding waits, so that the news do not come after it."""
        self.metrics.goroutines.labels("binding").set_function(lambda: float(len(self._tasks)))
        self.metrics.goroutines.labels("prioritizing_extender").set_function(
            lambda: float(self._extenders.prioritizing)
        )

    def state(self) -> dict[str, Any]:
        """The queue and the latest attempts, for people."""
        return self._attempts.state(self.core.queue)

    async def run(self) -> None:
        """Schedule, or only answer questions, until cancelled."""
        async with Supervisor("scheduler", clock=self.clock) as tasks:
            try:
                # What constrains placement first, pods last: a pod must not be tried before its nodes are known.
                await self._find_optional_kinds()
                for kind in (*KINDS, "Node", "Pod"):
                    self._follow(kind)
                await self._follow_newer_groups(tasks)
                await self._follow_custom_groups(tasks)
                self.informers.start()
                await self.informers.wait_for_sync()
                self.questions.knows_the_cluster = True
                if not self._schedules:
                    await self._only_answer()
                for name, recorder in self.recorders.items():
                    tasks.spawn(f"events {name}", recorder.run())
                await self._schedule()
            finally:
                self.questions.knows_the_cluster = False
                await self.informers.stop()
                await self._http.close()
                self.evictions.close()
                if self._plugins is not None:
                    self._plugins.close()
                for task in self._tasks:
                    task.cancel()

    async def _find_optional_kinds(self) -> None:
        """Find out whether the server has pod groups and rules that taint devices (off by default), and dynamic resources (1.34).

        Groups of 1.37, which say more, come first.
        """
        kinds = KindTable(self.client.kinds)
        if not await self._is_readable(NEWER_POD_GROUP.path()) and await self._is_readable(POD_GROUP.path()):
            self._newer_groups.leave_groups()
            kinds.add(POD_GROUP)
        else:
            self._absent.add(POD_GROUP.kind)
        for kind in (DEVICE_TAINT_RULE, NEWER_DEVICE_TAINT_RULE):
            if await self._is_readable(kind.path()):
                kinds.add(kind)
                break
        else:
            self._absent.add(DEVICE_TAINT_RULE.kind)
        self.client = Client(self.client.transport, kinds)
        self.informers = InformerFactory(self.client, self.clock, self.randomness)
        if not await self._is_readable("/apis/resource.k8s.io/v1/resourceclaims"):
            self._absent |= {"ResourceClaim", "ResourceSlice", "DeviceClass"}

    async def _is_readable(self, path: str) -> bool:
        """Whether the server has a collection and lets us read it."""
        while True:
            try:
                await self.client.raw("GET", path, {"limit": "1"})
                return True
            except ApiError as error:
                if error.code == 403:
                    logger.warning("doing without %s: %s", path, error)
                if error.code in (403, 404):
                    return False
                logger.warning("looking for %s: %s", path, error)
            except TransportError as error:
                logger.warning("looking for %s: %s", path, error)
            await self.clock.sleep(_RETRY_SECONDS)

    def _follow(self, kind: str) -> None:
        if kind in self._absent:
            return
        cls = next(row.type for row in self.client.kinds if row.kind == kind and row.is_stored)

        added, changed, deleted = [self._handler(kind, event) for event in ("Add", "Update", "Delete")]
        self.informers.informer(cls).on_change(
            add=lambda obj: added(None, obj), update=changed, delete=lambda obj: deleted(obj, None)
        )

    def _handler(self, kind: str, event: str) -> Callable[[Any, Any], None]:
        """What takes in news of a kind: the object before and after, None where there is none."""
        name, is_pod = f"{kind}{event}", kind == "Pod"

        def take(old: Any, new: Any) -> None:
            self.core.handle(kind, old, new)
            if is_pod:
                self.evictions.handle(old, new)

        return lambda old, new: self._deliver(name, partial(take, old, new))

    def _deliver(self, name: str, take: Callable[[], None]) -> None:
        """Have an event taken in, by and by if extenders are being asked."""
        if self._extenders.is_keeping:
            self._extenders.keep(take)
            return
        started = self.clock.monotonic()
        take()
        self.metrics.handled(name, self.clock.monotonic() - started)
        self._changed()

    async def _follow_newer_groups(self, tasks: Supervisor) -> None:
        """Follow the pod groups of Kubernetes 1.37, if the server has them."""
        await self._newer_groups.find(self.client, self.informers)
        if self._newer_groups.are_expected:
            tasks.spawn("search for pod groups", self._newer_groups.search(self.client, self.informers))

    async def _follow_custom_groups(self, tasks: Supervisor) -> None:
        """Follow the pod groups of other schedulers, if a profile has a plugin for them."""
        if not self.core.custom_groups:
            return
        await self._custom_groups.find(self.client, self.informers)
        tasks.spawn("search for custom pod groups", self._custom_groups.search(self.client, self.informers))
        if self._schedules:
            tasks.spawn("status of custom pod groups", self._custom_groups.run(self.client))

    async def _only_answer(self) -> NoReturn:
        """Leave the time to informers and questions. What pods would be told is forgotten."""
        while True:
            if self._reload is not None:
                self._reload.look(self.core)
            self.core.held_back.take()
            await self.clock.sleep(LOOK_SECONDS)

    async def _schedule(self) -> None:
        turn = 0
        while True:
            if self._reload is not None:
                self._reload.look(self.core)
            started = self.clock.monotonic()
            outcome = self.core.schedule_one() if not self.core.settings.extenders else await self._extenders.attempt()
            self._tell_held_back()
            if outcome is None:
                await self._wait()
                continue
            seconds = self.clock.monotonic() - started
            self.metrics.decided(outcome.decision, seconds)
            self._attempts.add(outcome.decision, outcome.queued.attempts, seconds)
            if self._reload is not None:
                self._reload.decided(self.core, outcome.decision)
            if outcome.group is not None:
                self.metrics.group_decided(
                    outcome.group.outcome, outcome.decision.profile, self.clock.monotonic() - started
                )
                for result in (outcome.group, *outcome.composites):
                    self._spawn(self._report_group(result))
                    if result.preemption is not None and result.preemption.victims:
                        self._spawn(self._make_room(result, result.preemption, outcome.decision.profile))
            if outcome.binding_cycle is not None and self._joins_group(outcome, outcome.binding_cycle):
                self._group.add(outcome, outcome.binding_cycle, started)
            elif outcome.binding_cycle is not None:
                self._spawn(self._pass(outcome, outcome.binding_cycle, started))
            elif outcome.decision.scheduled:
                await self.actions.take_slot()
                self._spawn(self._bind(outcome, started))
            elif outcome.decision.skipped:
                pod = outcome.queued.pod
                self.reporter.event(
                    pod.pod, "Warning", "FailedScheduling", f"skip schedule deleting pod: {pod.key}", "Scheduling"
                )
            elif outcome.decision.gate is None:
                self._report_later(outcome, started)
            if self._group and (self._group.is_full or not self.core.has_more_of_group):
                self._spawn((await self._group.take())())
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)

    def _joins_group(self, outcome: Outcome, binding_cycle: BindingCycle) -> bool:
        """Whether a pod is bound together with others of its group."""
        return (
            binding_cycle.is_ready_to_bind
            and not self.core.settings.extenders
            and outcome.queued.pod.key not in self._reports
            and (self.core.has_more_of_group or bool(self._group))
        )

    def _tell_held_back(self) -> None:
        """Tell pods, and their groups, what keeps them out of the queue."""
        groups: dict[str, GroupResult] = {}
        for held in self.core.held_back.take():
            self.reporter.event(held.pod.pod, "Warning", "FailedScheduling", held.message, "Scheduling")
            key = group_key(held.pod.pod)
            if key and held.plugin == GANG:
                groups[key] = GroupResult(key, False, UNSCHEDULABLE_REASON, held.message)
        for result in groups.values():
            self._spawn(self._report_group(result))

    def _changed(self) -> None:
        """The core knows something new: there may be pods to schedule, and binding cycles may go on."""
        self._work.set()
        self.changes.tell()

    async def _wait(self) -> None:
        """Wait for an event, or for the next pod whose back-off is over."""
        self._work.clear()
        wake = self.core.queue.next_wake()
        if self._reload is not None:
            look = self.clock.monotonic() + LOOK_SECONDS
            wake = look if wake is None else min(wake, look)
        timer = None
        if wake is not None:
            timer = self.clock.call_later(max(wake - self.clock.monotonic(), 0.001), self._work.set)
        try:
            await self._work.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _spawn(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a decision could not be carried out", exc_info=task.exception())

    async def _bind(self, outcome: Outcome, started: float) -> None:
        """The way of most pods: nothing but the Binding is to be done."""
        info, node = outcome.queued.pod, outcome.decision.node or ""
        await self._reported(info.key)
        begun, status = self.clock.monotonic(), "Error"
        try:
            await self.actions.write_binding(info, node)
            status = SUCCESS
        except ActionError as error:
            await self._binding_failed(outcome, failed("Bind", DEFAULT_BINDER, error), started)
            return
        finally:
            self.actions.slots.release()
            self.metrics.point("Bind", status, outcome.decision.profile, self.clock.monotonic() - begun)
        self._bound(outcome, node, started)

    async def _pass(self, outcome: Outcome, binding_cycle: BindingCycle, started: float) -> None:
        """The way of pods that plugins have something to do with."""
        info, nominates = binding_cycle.pod, binding_cycle.has_work
        await self._reported(info.key)
        if nominates:
            await self.reporter.nominate(info.pod, binding_cycle.node_name)
        failure = await carry_out(
            binding_cycle,
            self.actions,
            self.clock,
            committed=lambda: self.core.queue.placed(info.key),
            waited=self.metrics.waited_on_permit,
            other=self._extenders.bind if self.core.settings.extenders else None,
        )
        if failure is None:
            self._bound(outcome, binding_cycle.node_name, started)
            return
        await self._binding_failed(outcome, failure, started)
        if nominates and not outcome.queued.pod.pod.status.nominated_node_name:
            # Our own nomination, which has not come back to us yet.
            await self.reporter.patch_status(info.pod, {"status": {"nominatedNodeName": None}})

    def _bound(self, outcome: Outcome, node: str, started: float) -> None:
        queued, now = outcome.queued, self.clock.monotonic()
        self.core.bound(queued.pod)
        self.metrics.attempt("scheduled", outcome.decision.profile, now - started)
        self.metrics.bound(queued.attempts, now - queued.first_seen, flushed=queued.flushed)
        self.reporter.scheduled(queued.pod.pod, node)

    async def _binding_failed(self, outcome: Outcome, failure: Failure, started: float) -> None:
        pod = outcome.queued.pod
        result = "error" if failure.reject.status is Status.ERROR else "unschedulable"
        self.metrics.attempt(result, outcome.decision.profile, self.clock.monotonic() - started)
        if not self._extenders.keep(lambda: self.core.binding_failed(pod, failure)):
            self.core.binding_failed(pod, failure)
        self._work.set()
        await self.reporter.not_scheduled(pod.pod, failure.reason, failure.message, "")

    def _report_later(self, outcome: Outcome, started: float) -> None:
        key = outcome.queued.pod.key
        task = self._reports[key] = self._spawn(self._report(outcome, started))

        def finished(_: asyncio.Task[None]) -> None:
            if self._reports.get(key) is task:
                del self._reports[key]

        task.add_done_callback(finished)

    async def _reported(self, key: str) -> None:
        """Wait until it has been told that the pod was not placed before, if it is being told."""
        task = self._reports.get(key)
        if task is not None:
            self.actions.pending += 1
            try:
                await asyncio.wait((task,))
            finally:
                self.actions.pending -= 1

    async def _report(self, outcome: Outcome, started: float) -> None:
        """Evict victims, and tell why the pod is not placed."""
        decision, pod = outcome.decision, outcome.queued.pod
        result = "error" if decision.error else "unschedulable"
        self.metrics.attempt(result, decision.profile, self.clock.monotonic() - started)
        if not decision.victims:
            await self._tell(outcome)
            return
        gone = False
        try:
            async with self._making_room:
                evicting = self.evictions.begin(decision.victims, Preemptor.of_pod(pod.pod), decision.nominated_node)
                await self._tell(outcome)
                gone = await self._evicted(evicting)
            if gone:
                await self.evictions.wait_until_leaving(decision.victims)
        finally:
            self.core.queue.release(pod.key, again=not gone)
            self._work.set()

    async def _tell(self, outcome: Outcome) -> None:
        """Clear nominations and claims, and tell the pod's status and events why it is not placed."""
        decision, pod = outcome.decision, outcome.queued.pod.pod
        if outcome.cleared:
            await asyncio.gather(*(self.reporter.nominate(other.pod, "") for other in outcome.cleared))
        for claim in decision.post_filter.deallocates if decision.post_filter is not None else ():
            await self._deallocate(claim)
        await self.reporter.not_scheduled(pod, decision.reason, decision.message, decision.nomination)

    async def _report_group(self, result: GroupResult) -> None:
        group = self._group_of(result)
        if isinstance(group, CustomPodGroup):
            self._custom_groups.decided(result)
        elif group is not None:
            await self.reporter.group(group, result)

    def _group_of(self, result: GroupResult) -> PodGroup | None:
        catalog = self.core.snapshot.catalog
        if not result.is_composite:
            return catalog.pod_groups.get(result.key)
        composite = catalog.trees.composites.get(result.key)
        return composite.group if composite is not None else None

    async def _make_room(self, result: GroupResult, preemption: GroupPreemption, scheduler: str) -> None:
        """Evict the victims of a group, and let its pods be tried again."""
        group = self._group_of(result)
        victims = [pod.key for pod in preemption.victims]
        members = [pod for pod in preemption.pods if pod in self.core.queue]
        gone = False
        try:
            async with self._making_room:
                uid = group.metadata.uid if group is not None else ""
                evicting = self.evictions.begin(victims, Preemptor("podgroup", uid, scheduler), "cluster")
                gone = await self._evicted(evicting)
            if gone:
                await self.evictions.wait_until_leaving(victims)
        finally:
            for pod in members:
                self.core.queue.release(pod, again=not gone)
            self._work.set()

    async def _deallocate(self, claim: ResourceClaim) -> None:
        """Write a claim that gives its devices up; if it has changed meanwhile, the next attempt looks again."""
        try:
            await self.actions.update(claim, subresource="status")
        except ActionError as error:
            logger.info("deallocating claim %s/%s: %s", claim.metadata.namespace, claim.metadata.name, error)

    async def _evicted(self, evicting: asyncio.Task[Evicted]) -> bool:
        """Wait until victims are evicted; False if the server would not have all of it."""
        evicted = await evicting
        self.metrics.evicted("success" if evicted.all_gone else "error", evicted.seconds)
        return evicted.all_gone

    def _seen(self, key: str) -> core_v1.Pod | None:
        """A pod as the API shows it."""
        return self.informers.informer(core_v1.Pod).cache.by_key(key)
