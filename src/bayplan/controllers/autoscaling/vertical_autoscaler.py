"""Workloads that say so in an annotation get what they use: recommender and updater of vertical autoscaling in one.

    metrics.k8s.io ─▶ `vpa_rules.Usage` per container ─▶ recommendation ─▶ annotation of the workload
                                                                        ─▶ pods/resize, or eviction, as the annotation says

An autoscaler of upstream's kind does the same, where its custom resource is installed (`vpa_objects`): then the recommendation goes to its status. New
pods get the recommendation as soon as they are seen (upstream does that at admission). Samples are kept in memory, so that bounds are wide again after a
restart. See `vpa_annotations` for what users write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import LabelSelector, compile_selector
from bayplan.api.types import apps_v1, core_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.controllers.autoscaling.hpa_metrics import MetricsError, MetricsReader
from bayplan.controllers.autoscaling.vpa_annotations import (
    IN_PLACE,
    INITIAL,
    MODE,
    OFF,
    RECOMMENDATION,
    RECREATE,
    AnnotationError,
    mode_of,
    policies_of,
    render,
)
from bayplan.controllers.autoscaling.vpa_autoscalers import Autoscalers
from bayplan.controllers.autoscaling.vpa_objects import LEAST_REPLICAS, AutoscalerError, autoscaler_of, status_of
from bayplan.controllers.autoscaling.vpa_rules import (
    CPU,
    MEMORY,
    Policy,
    Recommendation,
    Usage,
    amount,
    is_due,
    is_quick_oom,
    may_evict,
    priority,
    recommend,
    resized,
)
from bayplan.controllers.base import Controller, condition_of, index_by_namespace
from bayplan.controllers.pods import is_active, is_ready
from bayplan.informers import Informer
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339, rfc3339

_WORKLOADS: tuple[type[Any], ...] = (apps_v1.Deployment, apps_v1.StatefulSet, apps_v1.DaemonSet)
_DEFERRED_PATIENCE, _PROGRESS_PATIENCE = 300.0, 3600.0
"""Seconds that a resize may be put off, and be under way, before the pod is evicted instead."""


@dataclass(slots=True)
class _Watched:
    """What is known of a workload."""

    usages: dict[str, Usage] = field(default_factory=dict)
    sampled: float | None = None
    """Monotonic time of the last sample."""
    ooms: dict[str, str] = field(default_factory=dict)
    """Pod and container -> when it was last killed for want of memory."""
    seen: set[str] = field(default_factory=set)
    """Uids of pods that have been given the recommendation, or were there before there was one."""
    problem: str = ""
    """What was last said about annotations that cannot be understood."""


@dataclass(frozen=True, slots=True)
class _Request:
    """How a workload is to be scaled, by its annotations or an autoscaler."""

    mode: str
    policies: dict[str, Policy]
    least_replicas: int = LEAST_REPLICAS
    problem: str = ""
    """Why it cannot be understood."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One look at a workload."""

    workload: Any
    request: _Request
    pods: list[core_v1.Pod]
    recommendations: list[Recommendation]


class VerticalAutoscalerController(Controller):
    """See the module."""

    name = "vertical-pod-autoscaler-controller"
    event_source = "vpa-updater"
    workers = 2

    def setup(self) -> None:
        self._workloads: dict[str, Informer[Any]] = {}
        for cls in _WORKLOADS:
            informer = self._workloads[cls.__name__] = self.informer(cls)
            self._follow(cls.__name__, informer)
        self.pods = self.informer(core_v1.Pod)
        index_by_namespace(self.pods)
        self.pods.on_change(add=self._pod_added)
        self.metrics = MetricsReader(self.client)
        self._watched: dict[str, _Watched] = {}
        self._autoscalers = Autoscalers(self.context.informers, self._workloads, self.queue.add)

    def _follow(self, kind: str, informer: Informer[Any]) -> None:
        def touch(obj: Any) -> None:
            key = f"{kind}/{key_of(obj)}"
            if obj.metadata.annotations.get(MODE) or key in self._autoscalers:
                self.queue.add(key)

        def change(old: Any, new: Any) -> None:
            if (old.spec, _asked(old)) != (new.spec, _asked(new)):
                touch(new)

        def forget(obj: Any) -> None:
            self._watched.pop(f"{kind}/{key_of(obj)}", None)

        informer.on_change(add=touch, update=change, delete=forget)

    def _pod_added(self, pod: core_v1.Pod) -> None:
        for key in self._watched:
            workload = self._workload(key)
            if workload is None or workload.metadata.namespace != pod.metadata.namespace:
                continue
            if _selector(workload).matches(pod.metadata.labels):
                self.queue.add(key)

    def _workload(self, key: str) -> Any | None:
        kind, _, rest = key.partition("/")
        return self._workloads[kind].cache.by_key(rest) if kind in self._workloads else None

    async def reconcile(self, key: str) -> None:
        workload, autoscaler = self._workload(key), self._autoscalers.of(key)
        if workload is None or not (autoscaler is not None or workload.metadata.annotations.get(MODE)):
            self._watched.pop(key, None)
            if autoscaler is not None:
                await self._write_status(
                    autoscaler, [], self._autoscalers.why_no_target(autoscaler, key), has_pods=False
                )
            return
        watched = self._watched.setdefault(key, _Watched())
        names = [one.name for one in workload.spec.template.spec.containers]
        request = _request_of(workload, autoscaler, names)
        watched.problem, said = request.problem, watched.problem
        if request.problem:
            if said != request.problem:
                about = workload if autoscaler is None else autoscaler
                self.recorder.event(about, "Warning", "InvalidVerticalAutoscaling", request.problem)
            if autoscaler is not None:
                await self._write_status(autoscaler, [], request.problem, has_pods=True)
            return
        selector, namespace = _selector(workload), workload.metadata.namespace
        found = self.pods.cache.by_index("namespace", namespace)
        pods = [pod for pod in found if selector.matches(pod.metadata.labels) and is_active(pod)]
        present = {pod.metadata.uid for pod in pods}
        watched.seen &= present
        known = {*names, *(one.name for pod in pods for one in pod.spec.containers)}
        watched.usages = {name: usage for name, usage in watched.usages.items() if name in known}
        if not any(usage.count for usage in watched.usages.values()):
            watched.seen |= present  # nothing was recommended when these were made
        interval = self.context.settings.vertical_interval
        now = self.clock.monotonic()
        if watched.sampled is None or now >= watched.sampled + interval:
            watched.sampled = now
            await self._sample(watched, namespace, selector, pods)
        self.queue.add_after(key, max(watched.sampled + interval - now, 0.001))
        recommendations = recommend(watched.usages, request.policies)
        if autoscaler is None:
            await self._write(workload, recommendations)
        else:
            await self._write_status(autoscaler, recommendations, "", has_pods=bool(pods))
        if request.mode != OFF and recommendations:
            await self._update(watched.seen, _Task(workload, request, pods, recommendations))

    async def _write_status(
        self, autoscaler: CustomObject, recommendations: list[Recommendation], problem: str, *, has_pods: bool
    ) -> None:
        """Write an autoscaler's status, if it is new."""
        before = autoscaler.content.get("status") or {}
        now = rfc3339(self.clock.now())
        status = status_of(before, recommendations, problem=problem, has_pods=has_pods, now=now)
        if status == before:
            return
        metadata = autoscaler.metadata
        try:
            await self.client.patch(
                type(autoscaler),
                metadata.name,
                metadata.namespace,
                {"metadata": {"uid": metadata.uid}, "status": status},
                subresource="status" if self._autoscalers.has_status else "",
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _sample(
        self, watched: _Watched, namespace: str, selector: LabelSelector, pods: list[core_v1.Pod]
    ) -> None:
        """One sample of each container. Without metrics there is none; the next look tries again."""
        by_name = {pod.metadata.name: pod for pod in pods}
        for pod in pods:
            self._note_ooms(watched, pod)
        for usage in watched.usages.values():
            usage.peaks = {name: one for name, one in usage.peaks.items() if name in by_name}
        watched.ooms = {key: time for key, time in watched.ooms.items() if key.partition("/")[0] in by_name}
        try:
            figures = await self.metrics.figures(namespace, selector)
        except MetricsError:
            return  # no figures, no sample: bounds stay as wide as they are
        for pod_figures in figures:
            found = by_name.get(pod_figures.metadata.name)
            requests = {one.name: one.resources.requests for one in found.spec.containers} if found else {}
            time = parse_rfc3339(pod_figures.timestamp) if pod_figures.timestamp else self.clock.now()
            for one in pod_figures.containers:
                if one.name not in requests:
                    continue
                usage = watched.usages.setdefault(one.name, Usage())
                if CPU in one.usage:
                    requested = amount(CPU, requests[one.name].get(CPU, "0")) / 1000
                    usage.add_cpu(amount(CPU, one.usage[CPU]) / 1000, requested, time)
                if MEMORY in one.usage:
                    usage.add_memory(pod_figures.metadata.name, amount(MEMORY, one.usage[MEMORY]), time)

    def _note_ooms(self, watched: _Watched, pod: core_v1.Pod) -> None:
        """Containers that were killed for want of memory need more than they had."""
        resources = {one.name: one.resources for one in pod.spec.containers}
        for status in pod.status.container_statuses:
            ended = status.last_state.terminated
            if ended is None or ended.reason != "OOMKilled" or not ended.finished_at or status.name not in resources:
                continue
            key = f"{pod.metadata.name}/{status.name}"
            if watched.ooms.get(key) == ended.finished_at:
                continue
            watched.ooms[key] = ended.finished_at
            have = resources[status.name]
            had = amount(MEMORY, have.limits.get(MEMORY) or have.requests.get(MEMORY) or "0")
            usage = watched.usages.setdefault(status.name, Usage())
            usage.add_oom(pod.metadata.name, float(had), parse_rfc3339(ended.finished_at))

    async def _write(self, workload: Any, recommendations: list[Recommendation]) -> None:
        """Write the recommendation to the workload, if there is one and it is new."""
        text = render(recommendations)
        if not recommendations or workload.metadata.annotations.get(RECOMMENDATION) == text:
            return
        patch = {"metadata": {"uid": workload.metadata.uid, "annotations": {RECOMMENDATION: text}}}
        try:
            await self.client.patch(type(workload), workload.metadata.name, workload.metadata.namespace, patch)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _update(self, seen: set[str], task: _Task) -> None:
        """Bring pods to what is recommended: new ones (not seen before) at once, others the most urgent first."""
        now = self.clock.now()
        configured = getattr(task.workload.spec, "replicas", None)
        configured = len(task.pods) if configured is None else configured
        running, evicted = sum(is_ready(pod) for pod in task.pods), 0
        for pod in sorted(task.pods, key=lambda pod: _urgency(pod, task.recommendations)):
            if pod.metadata.uid not in seen:
                seen.add(pod.metadata.uid)
                await self._resize(pod, task)
                continue
            if task.request.mode == INITIAL or not self._is_due(pod, task, now):
                continue
            if task.request.mode == IN_PLACE and not _is_stuck(pod, now) and await self._resize(pod, task):
                continue
            may_go = may_evict(configured, running, evicted, task.request.least_replicas)
            if task.request.mode in (RECREATE, IN_PLACE) and may_go:
                evicted += await self._evict(pod)

    def _is_due(self, pod: core_v1.Pod, task: _Task, now: float) -> bool:
        if _is_stuck(pod, now):
            return True
        if not pod.status.start_time:
            return False
        quick = any(
            ended.reason == "OOMKilled"
            and is_quick_oom(parse_rfc3339(ended.started_at or ""), parse_rfc3339(ended.finished_at or ""))
            for one in pod.status.container_statuses
            if (ended := one.last_state.terminated) is not None and ended.started_at and ended.finished_at
        )
        found = priority(pod, task.recommendations)
        return is_due(pod, found, now - parse_rfc3339(pod.status.start_time), quick_oom=quick)

    async def _resize(self, pod: core_v1.Pod, task: _Task) -> bool:
        """Give a pod what is recommended while it runs. False if the server does not allow it."""
        containers = {one.name: one for one in pod.spec.containers}
        changes = []
        for one in task.recommendations:
            container = containers.get(one.container)
            if container is None:
                continue
            wanted = resized(container, one, task.request.policies.get(one.container, Policy()))
            if wanted is not None:
                resources = {"requests": wanted.requests, "limits": wanted.limits}
                changes.append({"name": one.container, "resources": resources})
        if not changes:
            return True
        patch = {"metadata": {"uid": pod.metadata.uid}, "spec": {"containers": changes}}
        try:
            await self.client.patch(
                core_v1.Pod,
                pod.metadata.name,
                pod.metadata.namespace,
                patch,
                patch_type=STRATEGIC_PATCH,
                subresource="resize",
            )
        except ApiError as error:
            if error.code not in (404, 409):
                self.recorder.event(pod, "Warning", "FailedInPlaceResize", error.message)
            return error.code in (404, 409)
        self.recorder.event(pod, "Normal", "InPlaceResizedByVPA", "Pod was resized in place by VPA Updater.")
        return True

    async def _evict(self, pod: core_v1.Pod) -> bool:
        """Ask for a pod's eviction. False if a budget forbids it now."""
        try:
            await self.client.evict(pod.metadata.namespace, pod.metadata.name)
        except ApiError as error:
            if error.code not in (404, 409, 429):
                raise
            return False
        text = "Pod was evicted by VPA Updater to apply resource recommendation."
        self.recorder.event(pod, "Normal", "EvictedByVPA", text)
        return True


def _request_of(workload: Any, autoscaler: CustomObject | None, containers: list[str]) -> _Request:
    """How a workload is to be scaled."""
    try:
        if autoscaler is not None:
            asked = autoscaler_of(autoscaler.content)
            return _Request(asked.mode, asked.of(containers), asked.least_replicas)
        annotations = workload.metadata.annotations
        return _Request(mode_of(annotations), policies_of(annotations, containers))
    except (AnnotationError, AutoscalerError) as error:
        return _Request(OFF, {}, problem=str(error))


def _asked(workload: Any) -> dict[str, str]:
    """Annotations without what the controller writes."""
    return {name: value for name, value in workload.metadata.annotations.items() if name != RECOMMENDATION}


def _selector(workload: Any) -> LabelSelector:
    return compile_selector(workload.spec.selector)


def _urgency(pod: core_v1.Pod, recommendations: list[Recommendation]) -> tuple[bool, float, str]:
    found = priority(pod, recommendations)
    return not found.scale_up, -found.difference, pod.metadata.name


def _is_stuck(pod: core_v1.Pod, now: float) -> bool:
    """Whether a resize in place has failed, or takes too long."""
    for kind, patience in (("PodResizePending", _DEFERRED_PATIENCE), ("PodResizeInProgress", _PROGRESS_PATIENCE)):
        condition = condition_of(pod.status.conditions, kind)
        if condition is not None:
            since = parse_rfc3339(condition.last_transition_time) if condition.last_transition_time else now
            return bool(condition.reason == "Infeasible" or now - since > patience)
    return False
