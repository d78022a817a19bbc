"""HorizontalPodAutoscalers: workloads get as many replicas as metrics ask for.

Every sync period an autoscaler is looked at: scale of the target -> readings of its metrics -> `hpa_rules` -> scale, status, events.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.codec import decode, encode
from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import LabelSelector, SelectorError, compile_selector
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types import autoscaling_v1, autoscaling_v2, core_v1, meta_v1
from bayplan.client.errors import ClientError
from bayplan.controllers.autoscaling.hpa_behavior import History, Sample
from bayplan.controllers.autoscaling.hpa_metrics import MetricsError, MetricsReader
from bayplan.controllers.autoscaling.hpa_replicas import Patience, Target
from bayplan.controllers.autoscaling.hpa_rules import (
    ABLE,
    ACTIVE,
    Decision,
    Draft,
    Reading,
    bounds,
    decide,
    evaluate,
    note_rescale,
    tolerances,
)
from bayplan.controllers.base import Controller, index_by_namespace
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)
Autoscaler = autoscaling_v2.HorizontalPodAutoscaler

_ATTEMPTS = 5
"""Writes of a scale that others change at the same time."""
_TYPE_META = b'{"kind":"Scale","apiVersion":"autoscaling/v1",'


class ScaleError(Exception):
    """The scale of a target cannot be read; the message says why."""


class _Stop(Exception):
    """Nothing more can be done now; conditions and events say why."""


@dataclass(frozen=True, slots=True)
class FoundScale:
    """The scale of a target, and where it is."""

    path: str
    scale: autoscaling_v1.Scale


class _Resource(msgspec.Struct):
    name: str
    kind: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class HorizontalPodAutoscalerController(Controller):
    """See the module."""

    name = "horizontal-pod-autoscaler-controller"
    event_source = "horizontal-pod-autoscaler"

    def setup(self) -> None:
        settings = self.context.settings
        self.workers = settings.hpa_concurrent_syncs
        self.autoscalers = self.informer(Autoscaler)
        index_by_namespace(self.autoscalers)
        self.pods = self.informer(core_v1.Pod)
        index_by_namespace(self.pods)
        self.metrics = MetricsReader(self.client)
        self._patience = Patience(settings.hpa_cpu_initialization_period, settings.hpa_initial_readiness_delay)
        self._histories: dict[str, History] = {}
        self._selectors: dict[str, LabelSelector] = {}
        """Key of an autoscaler -> which pods its target has, as last seen."""
        self.autoscalers.on_change(
            add=self._later, update=lambda old, new: self._later(new), delete=lambda one: self._forget(key_of(one))
        )

    def _later(self, hpa: Autoscaler) -> None:
        """Every change waits for the next look, as in Kubernetes: metrics do not come faster anyway."""
        self.queue.add_after(key_of(hpa), self.context.settings.hpa_sync_period)

    def _forget(self, key: str) -> None:
        self._histories.pop(key, None)
        self._selectors.pop(key, None)

    async def reconcile(self, key: str) -> None:
        hpa = self.autoscalers.cache.by_key(key)
        if hpa is None:
            self._forget(key)
            return
        draft = Draft(hpa.status.conditions, self.clock.now())
        try:
            await self._autoscale(key, hpa, draft)
        finally:
            for event in draft.events:
                self.recorder.event(hpa, event.type, event.reason, event.message)
            self._later(hpa)

    async def _autoscale(self, key: str, hpa: Autoscaler, draft: Draft) -> None:
        status = hpa.status
        try:
            found = await self._scale_of(hpa, draft)
        except _Stop:
            await self._write(hpa, draft, status)
            return
        current = found.scale.spec.replicas
        history = self._histories.setdefault(key, History([Sample(current, draft.now)]))
        decision = bounds(hpa, current, draft)
        if decision is None:
            try:
                decision = await self._by_metrics(key, hpa, found.scale, history, draft)
            except _Stop:
                await self._write(hpa, draft, self._status(status, current, status.desired_replicas, ()))
                return
            if decision is None:
                return
        if decision.replicas == current:
            await self._write(hpa, draft, self._status(status, current, current, decision.statuses))
            return
        try:
            await self._rescale(found, decision.replicas)
        except (ApiError, ClientError) as error:
            text = error.message if isinstance(error, ApiError) else str(error)
            draft.warn("FailedRescale", f"New size: {decision.replicas}; reason: {decision.reason}; error: {text}")
            text = f"the HPA controller was unable to update the target scale: {text}"
            draft.set(ABLE, False, "FailedUpdateScale", text)
            await self._write(hpa, draft, self._status(status, current, status.desired_replicas, decision.statuses))
            return
        note_rescale(hpa, current, decision, draft)
        history.record_change(current, decision.replicas, hpa.spec.behavior, draft.now)
        after = self._status(status, current, decision.replicas, decision.statuses)
        await self._write(hpa, draft, msgspec.structs.replace(after, last_scale_time=rfc3339(draft.now)))

    async def _by_metrics(
        self, key: str, hpa: Autoscaler, scale: autoscaling_v1.Scale, history: History, draft: Draft
    ) -> Decision | None:
        """The decision that metrics make; None if they make none, which the status then says. Raises _Stop."""
        selector = self._selector(key, hpa, scale, draft)
        namespace, settings = hpa.metadata.namespace, self.context.settings
        pods = [
            pod for pod in self.pods.cache.by_index("namespace", namespace) if selector.matches(pod.metadata.labels)
        ]
        self._demand_one(hpa, selector, pods, draft)
        readings = await asyncio.gather(*(self._read(one, namespace, selector) for one in hpa.spec.metrics))
        current, allowed = scale.spec.replicas, tolerances(hpa, settings.hpa_tolerance)
        target = Target(current, pods, allowed, self._patience, draft.now, namespace)
        wanted = evaluate(hpa, readings, target, scale.status.replicas, draft)
        if wanted.problem:
            logger.info("autoscaler %s: %s", key, wanted.problem)
        if wanted.replicas is None:
            draft.warn("FailedComputeMetricsReplicas", wanted.problem)
            status = self._status(hpa.status, current, hpa.status.desired_replicas, wanted.statuses)
            await self._write(hpa, draft, status)
            return None
        return decide(hpa, current, wanted, history, settings.hpa_downscale_stabilization, draft)

    def _selector(self, key: str, hpa: Autoscaler, scale: autoscaling_v1.Scale, draft: Draft) -> LabelSelector:
        """Which pods the target has. Raises _Stop."""
        text = scale.status.selector
        if not text:
            problem = "selector is required"
            draft.warn("SelectorRequired", problem)
            draft.set(ACTIVE, False, "InvalidSelector", "the HPA target's scale is missing a selector")
        else:
            try:
                selector = self._selectors[key] = parse_labels(text)
                return selector
            except SelectorError as error:
                problem = f"couldn't convert selector into a corresponding internal selector object: {error}"
                draft.warn("InvalidSelector", problem)
                draft.set(ACTIVE, False, "InvalidSelector", problem)
        draft.warn("FailedComputeMetricsReplicas", problem)
        raise _Stop

    def _demand_one(self, hpa: Autoscaler, selector: LabelSelector, pods: list[core_v1.Pod], draft: Draft) -> None:
        """See that no other autoscaler has a part of these pods. Raises _Stop."""
        rivals = []
        for other in self.autoscalers.cache.by_index("namespace", hpa.metadata.namespace):
            theirs = self._selectors.get(key_of(other))
            if theirs is not None and any(theirs.matches(pod.metadata.labels) for pod in pods):
                rivals.append(key_of(other))
        if len(rivals) > 1:
            text = f"pods by selector {selector} are controlled by multiple HPAs: [{' '.join(sorted(rivals))}]"
            draft.warn("AmbiguousSelector", text)
            draft.set(ACTIVE, False, "AmbiguousSelector", text)
            draft.warn("FailedComputeMetricsReplicas", text)
            raise _Stop

    async def _read(self, spec: autoscaling_v2.MetricSpec, namespace: str, selector: LabelSelector) -> Reading:
        """What a metric says now, or why it says nothing."""
        reader = self.metrics
        try:
            if spec.resource is not None:
                return await reader.resource(spec.resource.name, namespace, selector)
            if spec.container_resource is not None:
                source = spec.container_resource
                return await reader.resource(source.name, namespace, selector, source.container)
            if spec.pods is not None:
                metric = spec.pods.metric
                return await reader.of_pods(metric.name, namespace, selector, _compiled(metric.selector))
            if spec.object is not None:
                metric, about = spec.object.metric, spec.object.described_object
                return await reader.of_object(metric.name, namespace, about, _compiled(metric.selector))
            if spec.external is not None:
                metric = spec.external.metric
                return await reader.external(metric.name, namespace, _compiled(metric.selector))
        except MetricsError as error:
            return error
        return MetricsError(f'unknown metric source type "{spec.type}"')

    async def _scale_of(self, hpa: Autoscaler, draft: Draft) -> FoundScale:
        """The scale of the target. Raises _Stop."""
        reference = hpa.spec.scale_target_ref
        try:
            found = await self._find_scale(reference, hpa.metadata.namespace)
        except ScaleError as error:
            draft.warn("FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            draft.set(ABLE, False, "FailedGetScale", text)
            raise _Stop from error
        text = "the HPA controller was able to get the target's current scale"
        draft.set(ABLE, True, "SucceededGetScale", text)
        return found

    async def _find_scale(self, reference: autoscaling_v2.CrossVersionObjectReference, namespace: str) -> FoundScale:
        """The scale of what is referred to, in any version of its group. Raises ScaleError."""
        problem = ""
        for collection in await self._collections(reference, namespace):
            path = f"{collection}/{reference.name}/scale"
            try:
                return FoundScale(path, decode(autoscaling_v1.Scale, await self.client.raw("GET", path)))
            except ApiError as error:
                problem = problem or error.message
            except (ClientError, msgspec.MsgspecError) as error:
                problem = problem or str(error)
        group = reference.api_version.rpartition("/")[0]
        raise ScaleError(problem or f'no matches for kind "{reference.kind}" in group "{group}"')

    async def _collections(self, reference: autoscaling_v2.CrossVersionObjectReference, namespace: str) -> list[str]:
        """Paths at which objects of the kind may be. Kinds that are not built in are looked up in discovery."""
        group, _, version = reference.api_version.rpartition("/")
        kinds = [one for one in self.client.kinds if one.group == group and one.kind == reference.kind]
        if kinds:
            kinds.sort(key=lambda one: one.version != version)
            return [one.path(namespace) for one in kinds]
        root = f"/apis/{reference.api_version}" if group else f"/api/{version or 'v1'}"
        try:
            served = msgspec.json.decode(await self.client.raw("GET", root), type=_Resources).resources
        except (ApiError, ClientError, msgspec.MsgspecError):
            return []  # a group that is not served has no such kind: the caller says so
        return [
            f"{root}/namespaces/{namespace}/{one.name}"
            for one in served
            if one.kind == reference.kind and "/" not in one.name
        ]

    async def _rescale(self, found: FoundScale, replicas: int) -> None:
        """Set the number of replicas, also if the target changes meanwhile. Raises ApiError, ClientError."""
        scale = found.scale
        for attempt in range(_ATTEMPTS):
            wanted = autoscaling_v1.Scale(
                metadata=meta_v1.ObjectMeta(
                    name=scale.metadata.name,
                    namespace=scale.metadata.namespace,
                    uid=scale.metadata.uid,
                    resource_version=scale.metadata.resource_version,
                ),
                spec=autoscaling_v1.ScaleSpec(replicas=replicas),
            )
            try:
                await self.client.raw("PUT", found.path, {}, _TYPE_META + encode(wanted)[1:])
            except ApiError as error:
                if error.code != 409 or attempt == _ATTEMPTS - 1:
                    raise
                scale = decode(autoscaling_v1.Scale, await self.client.raw("GET", found.path))
            else:
                return

    @staticmethod
    def _status(
        old: autoscaling_v2.HorizontalPodAutoscalerStatus, current: int, desired: int, metrics: tuple[Any, ...]
    ) -> autoscaling_v2.HorizontalPodAutoscalerStatus:
        return autoscaling_v2.HorizontalPodAutoscalerStatus(
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=metrics,
            last_scale_time=old.last_scale_time,
        )

    async def _write(self, hpa: Autoscaler, draft: Draft, status: autoscaling_v2.HorizontalPodAutoscalerStatus) -> None:
        """Write the status if it differs. A failure is told as an event; the next look tries again."""
        status = msgspec.structs.replace(status, conditions=draft.conditions)
        if status == hpa.status:
            return
        try:
            await self.client.update_status(msgspec.structs.replace(hpa, status=status))
        except ApiError as error:
            if error.code != 404:
                draft.warn("FailedUpdateStatus", error.message)
        except ClientError as error:
            draft.warn("FailedUpdateStatus", str(error))


def _compiled(selector: meta_v1.LabelSelector | None) -> LabelSelector:
    """Which series of a metric are meant: all if nothing is said. Raises MetricsError."""
    try:
        return compile_selector(selector or meta_v1.LabelSelector())
    except SelectorError as error:
        raise MetricsError(str(error)) from error
