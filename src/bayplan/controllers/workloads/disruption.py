"""PodDisruptionBudgets: how many pods may be missing now. The eviction subresource counts against what stands in the status here.

Source of the behaviour: kube-controller-manager's disruption controller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1, meta_v1, policy_v1
from bayplan.controllers.base import (
    Controller,
    condition_of,
    controller_of,
    index_by_namespace,
    show_selector,
    with_condition,
)
from bayplan.controllers.pods import DISRUPTION_TARGET, disruption_target, is_ready
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339, rfc3339

ALLOWED = "DisruptionAllowed"
EVICTION_SECONDS = 120.0
"""An evicted pod that is not on its way out after this time is not: its place in the budget is free again."""


@dataclass(frozen=True, slots=True)
class Scales:
    """What is known of the controllers of a budget's pods."""

    replicas: int = 0
    """Sum of the replicas that they should have."""
    unmanaged: bool = False
    """Whether some pods have none."""
    problem: str = ""
    """Why that cannot be told."""


def needs_scales(budget: policy_v1.PodDisruptionBudget) -> bool:
    """Whether the budget is relative to how many pods there should be."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def _scaled(value: int | str, total: int) -> int:
    return math.ceil(total * int(value.rstrip("%")) / 100) if isinstance(value, str) else value


def healthy_needed(budget: policy_v1.PodDisruptionBudget, pods: int, scales: Scales) -> tuple[int, int]:
    """How many pods are expected, and how many of them must be healthy."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return scales.replicas, max(scales.replicas - _scaled(spec.max_unavailable, scales.replicas), 0)
    if isinstance(spec.min_available, str):
        return scales.replicas, _scaled(spec.min_available, scales.replicas)
    return pods, spec.min_available or 0


def still_disrupted(
    budget: policy_v1.PodDisruptionBudget, pods: Iterable[core_v1.Pod], now: float
) -> tuple[dict[str, str], list[core_v1.Pod], float | None]:
    """Evicted pods that are expected to go: by name with the time of their eviction; those that did not go in time; seconds until the next gives up."""
    kept: dict[str, str] = {}
    stayed: list[core_v1.Pod] = []
    waits = []
    for pod in pods:
        since = budget.status.disrupted_pods.get(pod.metadata.name)
        if since is None or pod.metadata.deletion_timestamp:
            continue
        left = parse_rfc3339(since) + EVICTION_SECONDS - now
        if left > 0:
            kept[pod.metadata.name] = since
            waits.append(left)
        else:
            stayed.append(pod)
    return kept, stayed, min(waits, default=None)


def status_of(
    budget: policy_v1.PodDisruptionBudget,
    pods: Iterable[core_v1.Pod],
    disrupted: dict[str, str],
    expected: int,
    needed: int,
    now: float,
) -> policy_v1.PodDisruptionBudgetStatus:
    """The status that the budget's pods make."""
    healthy = sum(
        is_ready(pod) and not pod.metadata.deletion_timestamp and pod.metadata.name not in disrupted for pod in pods
    )
    allowed = max(healthy - needed, 0) if expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return policy_v1.PodDisruptionBudgetStatus(
        observed_generation=budget.metadata.generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=needed,
        expected_pods=expected,
        conditions=_with_condition(budget, _condition(budget, bool(allowed), reason, "", now)),
    )


def _with_condition(budget: policy_v1.PodDisruptionBudget, new: meta_v1.Condition) -> tuple[meta_v1.Condition, ...]:
    """The budget's conditions with one of them as it is now, whose generation is told also if nothing else has changed."""
    return tuple(
        msgspec.structs.replace(one, observed_generation=new.observed_generation) if one.type == new.type else one
        for one in with_condition(budget.status.conditions, new)
    )


def _condition(
    budget: policy_v1.PodDisruptionBudget, value: bool, reason: str, message: str, now: float
) -> meta_v1.Condition:
    return meta_v1.Condition(
        type=ALLOWED,
        status="True" if value else "False",
        reason=reason,
        message=message,
        observed_generation=budget.metadata.generation,
        last_transition_time=rfc3339(now),
    )


class DisruptionController(Controller):
    """See the module."""

    name = "disruption-controller"
    event_source = "controllermanager"

    def setup(self) -> None:
        self.budgets = self.informer(policy_v1.PodDisruptionBudget)
        self.pods = self.informer(core_v1.Pod)
        index_by_namespace(self.budgets)
        index_by_namespace(self.pods)
        self.deployments = self.informer(apps_v1.Deployment)
        self.scaled: dict[str, Any] = {
            "ReplicaSet": self.informer(apps_v1.ReplicaSet),
            "StatefulSet": self.informer(apps_v1.StatefulSet),
            "ReplicationController": self.informer(core_v1.ReplicationController),
        }
        self.watch_keys(self.budgets)
        self.pods.on_change(add=self._touch, update=self._changed, delete=self._touch)
        for informer in (self.deployments, *self.scaled.values()):
            informer.on_change(update=self._rescaled)

    def _touch(self, pod: core_v1.Pod) -> None:
        for budget in self.budgets.cache.by_index("namespace", pod.metadata.namespace):
            if compile_selector(budget.spec.selector).matches(pod.metadata.labels):
                self.queue.add(key_of(budget))

    def _changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._touch(old)
        self._touch(new)

    def _rescaled(self, old: Any, new: Any) -> None:
        if old.spec.replicas != new.spec.replicas:
            for budget in self.budgets.cache.by_index("namespace", new.metadata.namespace):
                self.queue.add(key_of(budget))

    async def reconcile(self, key: str) -> None:
        budget = self.budgets.cache.by_key(key)
        if budget is None or budget.metadata.deletion_timestamp:
            return
        now = self.clock.now()
        selector = compile_selector(budget.spec.selector)
        pods = [
            pod
            for pod in self.pods.cache.by_index("namespace", budget.metadata.namespace)
            if selector.matches(pod.metadata.labels)
        ]
        if not pods:
            self.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        scales = await self._scales(pods) if needs_scales(budget) else Scales()
        if scales.problem:
            text = f"Failed to calculate the number of expected pods: {scales.problem}"
            self.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            await self._write(budget, self._failed(budget, scales.problem, now))
            return
        if scales.unmanaged:
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {show_selector(budget.spec.selector)}) were found to be unmanaged. As a result, "
                "the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set "
                '".spec.minAvailable" field of the PDB to an integer value.'
            )
            self.recorder.event(budget, "Warning", "UnmanagedPods", text)
        expected, needed = healthy_needed(budget, len(pods), scales)
        disrupted, stayed, wait = still_disrupted(budget, pods, now)
        for pod in stayed:
            name = budget.metadata.name
            text = f"Pod was expected by PDB {budget.metadata.namespace}/{name} to be deleted but it wasn't"
            self.recorder.event(pod, "Warning", "NotDeleted", text)
            await self._clear_target(pod, now)
        await self._write(budget, status_of(budget, pods, disrupted, expected, needed, now))
        if wait is not None:
            self.queue.add_after(key, wait)

    def _failed(
        self, budget: policy_v1.PodDisruptionBudget, problem: str, now: float
    ) -> policy_v1.PodDisruptionBudgetStatus:
        """Nothing may be disrupted while nobody knows how many pods there should be."""
        status = msgspec.structs.replace(budget.status, disruptions_allowed=0)
        new = _condition(budget, False, "SyncFailed", problem, now)
        status.conditions = _with_condition(budget, new)
        status.observed_generation = budget.metadata.generation
        return status

    async def _scales(self, pods: Iterable[core_v1.Pod]) -> Scales:
        """How many pods the controllers of some pods should have."""
        found: dict[str, int] = {}
        unmanaged = False
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged = True
                continue
            if owner.uid in found:
                continue
            uid, replicas = await self._scale_of(pod.metadata.namespace, owner)
            if uid is None:
                where = f"{owner.kind}.{owner.api_version}"
                return Scales(problem=f"{where} does not implement the scale subresource")
            found[owner.uid] = 0 if uid in found and uid != owner.uid else replicas
            if uid != owner.uid:
                found[uid] = 0
        return Scales(sum(found.values()), unmanaged)

    async def _scale_of(self, namespace: str, owner: meta_v1.OwnerReference) -> tuple[str | None, int]:
        """The uid of what scales some pods, and to how many; None if nothing does. A Deployment counts for its ReplicaSets."""
        informer = self.scaled.get(owner.kind)
        obj = informer.cache.get(namespace, owner.name) if informer is not None else None
        if obj is not None and obj.metadata.uid == owner.uid:
            above = controller_of(obj)
            if above is not None and above.kind == "Deployment":
                deployment = self.deployments.cache.get(namespace, above.name)
                if deployment is not None and deployment.metadata.uid == above.uid:
                    return above.uid, deployment.spec.replicas or 0
            return owner.uid, obj.spec.replicas or 0
        kind = self.client.kinds.of_kind(owner.api_version, owner.kind)
        if kind is None or kind.subresource("scale") is None:
            return None, 0
        try:
            data = await self.client.raw("GET", kind.path(namespace, owner.name, "scale"))
        except ApiError as error:
            if error.code != 404:
                raise
            return owner.uid, 0
        return owner.uid, int(msgspec.json.decode(data).get("spec", {}).get("replicas", 0))

    async def _clear_target(self, pod: core_v1.Pod, now: float) -> None:
        """A pod that was to be evicted and stays no longer says that it is about to go."""
        target = condition_of(pod.status.conditions, DISRUPTION_TARGET)
        if target is None or target.status != "True":
            return
        changed = clone(pod)
        stays = disruption_target(pod, now, status="False")
        changed.status.conditions = with_condition(changed.status.conditions, stays)
        await self.client.update_status(changed)

    async def _write(self, budget: policy_v1.PodDisruptionBudget, status: policy_v1.PodDisruptionBudgetStatus) -> None:
        """Write a status; the resource version guards what evictions have counted meanwhile."""
        if status == budget.status:
            return
        changed = clone(budget)
        changed.status = status
        try:
            await self.client.update_status(changed)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key_of(budget))
