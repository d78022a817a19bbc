"""The descheduler against a cluster: it follows what a pass needs, and carries out what the planner decides."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, policy_v1, scheduling_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import NORMAL, WARNING, EventRecorder, shortened
from bayplan.descheduler import planner
from bayplan.descheduler.errors import PolicyError, UsageError
from bayplan.descheduler.metrics import ERROR, SUCCESS, DeschedulerMetrics
from bayplan.descheduler.planner import Decision, Eviction, Outcome, PassSkipped, Refusal, StrategyEnd, StrategyStart
from bayplan.descheduler.policy import DeschedulerPolicy
from bayplan.descheduler.report import Attempt, PassReport
from bayplan.descheduler.settings import DeschedulerSettings
from bayplan.descheduler.snapshot import ClusterSnapshot, Usage, key_of
from bayplan.descheduler.usage_reader import read_usage
from bayplan.informers import InformerFactory
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

REQUESTED_BY: Final = "sigs.k8s.io/descheduler"
"""Who asks for evictions, in annotations and events, as upstream has it."""
_ACTION: Final = "Descheduled"
_TOO_MANY_REQUESTS: Final = 429
_NOT_FOUND: Final = 404
_KINDS: Final = (
    core_v1.Node,
    core_v1.Pod,
    core_v1.Namespace,
    core_v1.PersistentVolumeClaim,
    policy_v1.PodDisruptionBudget,
    scheduling_v1.PriorityClass,
)


class DeschedulerService:
    """One descheduler. `run` returns after its only pass, or when it is cancelled."""

    def __init__(
        self,
        client: Client,
        policy: DeschedulerPolicy,
        settings: DeschedulerSettings,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Registry,
        on_pass: Callable[[PassReport], None] = lambda report: None,
    ) -> None:
        """on_pass: called after each pass that `run` makes."""
        self._client = client
        self._policy = replace(policy, node_selector=settings.node_selector or policy.node_selector)
        self._settings = settings
        self._clock = clock
        self._on_pass = on_pass
        self._metrics = DeschedulerMetrics(metrics)
        self._informers = InformerFactory(client, clock, randomness)
        self._recorder = EventRecorder(client, REQUESTED_BY, clock, randomness)

    async def run(self) -> None:
        """Make passes. Raises PolicyError for a priority class that does not exist, unless it was there at the start and passes follow each other."""
        interval = self._settings.descheduling_interval
        async with Supervisor("descheduler") as tasks:
            try:
                await self._begin(tasks)
                while True:
                    if interval <= 0:
                        self._on_pass(await self._pass())
                        break
                    await self._pass_or_log()
                    await self._clock.sleep(interval)
                await self._recorder.flush()
            finally:
                await self._informers.stop()

    async def run_once(self) -> PassReport:
        """Make one pass, whatever the interval is. Raises PolicyError."""
        async with Supervisor("descheduler") as tasks:
            try:
                await self._begin(tasks)
                report = await self._pass()
                await self._recorder.flush()
                return report
            finally:
                await self._informers.stop()

    async def _begin(self, tasks: Supervisor) -> None:
        """Follow the cluster, and see whether the policy makes sense in it. Raises PolicyError."""
        for kind in _KINDS:
            self._informers.informer(kind)
        tasks.spawn("events", self._recorder.run())
        self._informers.start()
        await self._informers.wait_for_sync()
        planner.check_priority_classes(self._policy, self._snapshot(None))

    async def _pass_or_log(self) -> None:
        try:
            report = await self._pass()
        except PolicyError as error:
            logger.error("no pass: %s", error)
            return
        logger.info("evicted %d pods, refused %d", len(report.evicted), len(report.refused))
        self._on_pass(report)

    async def _pass(self) -> PassReport:
        """One pass over the cluster as it is known now."""
        began = self._clock.monotonic()
        usage = await self._usage()
        report = PassReport()
        running = planner.run_pass(self._policy, self._snapshot(usage))
        outcome: Outcome | None = None
        strategy_began = began
        while True:
            try:
                decision = running.send(outcome)
            except StopIteration:
                break
            if isinstance(decision, StrategyStart):
                strategy_began = self._clock.monotonic()
            elif isinstance(decision, StrategyEnd):
                took = self._clock.monotonic() - strategy_began
                self._metrics.strategy_took(decision.strategy, decision.profile, took)
            outcome = await self._carry_out(decision, report)
        self._metrics.pass_took(self._clock.monotonic() - began)
        return report

    async def _usage(self) -> Usage | None:
        """What nodes and pods really use; None if nobody wants to know or can tell. Strategies that need it say so."""
        if not self._policy.collects_usage:
            return None
        try:
            return await read_usage(self._client)
        except UsageError as error:
            logger.error("no usage: %s", error)
            return None

    def _snapshot(self, usage: Usage | None) -> ClusterSnapshot:
        return ClusterSnapshot(
            self._clock.now(),
            self._known(core_v1.Node),
            self._known(core_v1.Pod),
            self._known(core_v1.Namespace),
            self._known(policy_v1.PodDisruptionBudget),
            self._known(core_v1.PersistentVolumeClaim),
            self._known(scheduling_v1.PriorityClass),
            usage,
        )

    def _known(self, kind: type[Any]) -> list[Any]:
        """Objects of a kind in order of namespace and name, so that equal clusters have equal passes."""
        objects = self._informers.informer(kind).cache
        return sorted(objects, key=lambda one: (one.metadata.namespace, one.metadata.name))

    async def _carry_out(self, decision: Decision, report: PassReport) -> Outcome | None:
        """Do what was decided; the outcome of an eviction."""
        if isinstance(decision, Eviction):
            outcome = await self._evict(decision)
            self._tell(decision, outcome)
            report.attempts.append(_attempt(decision, outcome))
            return outcome
        if isinstance(decision, Refusal):
            self._refused(decision)
            report.attempts.append(_attempt(decision, Outcome(False, ", ".join(decision.objections))))
        elif isinstance(decision, StrategyEnd) and decision.error:
            logger.error("profile %s: plugin %s: %s", decision.profile, decision.strategy, decision.error)
            report.errors.append(f"{decision.strategy}: {decision.error}")
        elif isinstance(decision, PassSkipped):
            logger.info("no pass: %s", decision.reason)
            report.skipped = decision.reason
        return None

    async def _evict(self, eviction: Eviction) -> Outcome:
        if self._settings.dry_run:
            return Outcome(True)
        namespace, name = key_of(eviction.pod)
        why = f"triggered by {eviction.profile}/{eviction.strategy}: {eviction.reason}"
        try:
            await self._client.evict(
                namespace,
                name,
                grace_period_seconds=self._policy.grace_period_seconds,
                annotations={"reason": why, "requested-by": REQUESTED_BY},
            )
        except ApiError as error:
            if error.code == _TOO_MANY_REQUESTS:
                return Outcome(False, f'error when evicting pod (ignoring) "{name}": {error}')
            if error.code == _NOT_FOUND:
                return Outcome(False, f'pod not found when evicting "{name}": {error}')
            return Outcome(False, str(error))
        except TransportError as error:
            return Outcome(False, str(error))
        return Outcome(True)

    def _tell(self, eviction: Eviction, outcome: Outcome) -> None:
        """Count, log and record the outcome of an eviction."""
        pod, node = eviction.pod, eviction.pod.spec.node_name
        namespace, name = key_of(pod)
        result = SUCCESS if outcome.evicted else ERROR
        self._metrics.count(result, eviction.strategy, eviction.profile, namespace, node)
        if not outcome.evicted:
            logger.warning("%s/%s on %s was not evicted: %s", namespace, name, node, outcome.message)
            self._record_failure(pod, outcome.message)
        elif self._settings.dry_run:
            logger.info("would evict %s/%s from %s (%s): %s", namespace, name, node, eviction.strategy, eviction.reason)
        else:
            logger.info("evicted %s/%s from %s (%s): %s", namespace, name, node, eviction.strategy, eviction.reason)
            text = f"pod eviction from {node} node by {REQUESTED_BY}: {eviction.reason}"
            self._recorder.event(pod, NORMAL, eviction.strategy, shortened(text), action=_ACTION)

    def _refused(self, refusal: Refusal) -> None:
        namespace, name = key_of(refusal.pod)
        logger.debug("%s/%s stays (%s): %s", namespace, name, refusal.strategy, ", ".join(refusal.objections))
        if refusal.by_limit:
            limit = refusal.objections[0]
            node = refusal.pod.spec.node_name
            self._metrics.count(limit, refusal.strategy, refusal.profile, namespace, node)
            self._record_failure(refusal.pod, self._limit_text(limit))

    def _limit_text(self, limit: str) -> str:
        """Which limit was reached, as upstream's events say it."""
        policy = self._policy
        if limit == planner.NODE_LIMIT:
            return f"node eviction limit exceeded ({policy.max_per_node})"
        if limit == planner.NAMESPACE_LIMIT:
            return f"namespace eviction limit exceeded ({policy.max_per_namespace})"
        return f"total eviction limit exceeded ({policy.max_total})"

    def _record_failure(self, pod: core_v1.Pod, why: str) -> None:
        if self._policy.notifies_of_failures and not self._settings.dry_run:
            text = f"pod eviction from {pod.spec.node_name} node by {REQUESTED_BY} failed: {why}"
            self._recorder.event(pod, WARNING, "EvictionFailed", shortened(text), action=_ACTION)


def _attempt(decision: Eviction | Refusal, outcome: Outcome) -> Attempt:
    return Attempt(
        "/".join(key_of(decision.pod)),
        decision.pod.spec.node_name,
        decision.profile,
        decision.strategy,
        decision.reason,
        outcome.evicted,
        outcome.message,
    )
