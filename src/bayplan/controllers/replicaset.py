"""ReplicaSet: as many pods of one template as the spec asks for.

Source of the behaviour: kube-controller-manager's replicaset controller: slow-start creation, ranking for deletion, adoption and release by selector.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.selectors import LabelSelector, compile_selector
from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.controllers.base import (
    Controller,
    adoption,
    condition_of,
    controller_of,
    is_still_there,
    owner_reference,
    release,
    with_condition,
)
from bayplan.controllers.expectations import Expectations
from bayplan.controllers.pods import deletion_rank, is_active, is_available, is_ready, ready_since
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339

BURST = 500
"""Pods created or deleted in one go."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What is to be done for one ReplicaSet."""

    create: int = 0
    delete: Sequence[core_v1.Pod] = ()
    adopt: Sequence[core_v1.Pod] = ()
    release: Sequence[core_v1.Pod] = ()
    owned: Sequence[core_v1.Pod] = field(default_factory=tuple)
    """Active pods that belong to the ReplicaSet after adoption and release."""
    terminating: int = 0
    """Pods of the ReplicaSet that are on their way out."""


def desired(replica_set: Any, selector: LabelSelector, pods: Sequence[core_v1.Pod], now: float) -> Actions:
    """Which pods of the namespace to adopt, release, delete, and how many to create."""
    uid, deleting = replica_set.metadata.uid, bool(replica_set.metadata.deletion_timestamp)
    owned, adopt, released = [], [], []
    for pod in pods:
        owner, matches = controller_of(pod), selector.matches(pod.metadata.labels)
        if owner is not None and owner.uid == uid:
            if matches:
                owned.append(pod)
            elif not deleting and not pod.metadata.deletion_timestamp:
                released.append(pod)
        elif owner is None and matches and not deleting and is_active(pod):
            adopt.append(pod)
            owned.append(pod)
    active = [pod for pod in owned if is_active(pod)]
    terminating = sum(_is_terminating(pod) for pod in owned)
    if deleting:
        return Actions(owned=active, terminating=terminating)
    difference = len(active) - (replica_set.spec.replicas or 0)
    if difference < 0:
        return Actions(
            create=min(-difference, BURST), adopt=adopt, release=released, owned=active, terminating=terminating
        )
    per_node = Counter(pod.spec.node_name for pod in active)
    ranked = sorted(active, key=lambda pod: deletion_rank(pod, per_node[pod.spec.node_name], now)) if difference else []
    return Actions(
        delete=ranked[: min(difference, BURST)], adopt=adopt, release=released, owned=active, terminating=terminating
    )


def _is_terminating(pod: core_v1.Pod) -> bool:
    return bool(pod.metadata.deletion_timestamp) and pod.status.phase not in ("Succeeded", "Failed")


def status_of(
    replica_set: apps_v1.ReplicaSet, owned: Sequence[core_v1.Pod], now: float, failure: str, terminating: int = 0
) -> apps_v1.ReplicaSetStatus:
    """The status that these active pods, and a number of terminating ones, make."""
    spec, old = replica_set.spec, replica_set.status
    template_labels = spec.template.metadata.labels if spec.template else {}
    conditions = tuple(condition for condition in old.conditions if condition.type != "ReplicaFailure")
    if failure:
        known = condition_of(old.conditions, "ReplicaFailure")
        created = known or apps_v1.ReplicaSetCondition(
            type="ReplicaFailure",
            status="True",
            reason="FailedCreate",
            message=failure,
            last_transition_time=rfc3339(now),
        )
        conditions = with_condition(conditions, created)
    return apps_v1.ReplicaSetStatus(
        replicas=len(owned),
        fully_labeled_replicas=sum(template_labels.items() <= pod.metadata.labels.items() for pod in owned),
        ready_replicas=sum(map(is_ready, owned)),
        available_replicas=sum(is_available(pod, spec.min_ready_seconds, now) for pod in owned),
        observed_generation=replica_set.metadata.generation,
        conditions=conditions,
        terminating_replicas=terminating,
    )


class ReplicaSetController(Controller):
    """See the module."""

    name = "replicaset-controller"
    workers = 16
    api_version, kind = "apps/v1", "ReplicaSet"

    def setup(self) -> None:
        self.sets = self.informer(apps_v1.ReplicaSet)
        self.pods = self.informer(core_v1.Pod)
        self.pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self.pods.add_index(
            "controller", lambda pod: tuple(owner.uid for owner in pod.metadata.owner_references if owner.controller)
        )
        self.pods.add_index("orphan", lambda pod: () if controller_of(pod) else (pod.metadata.namespace,))
        self.expectations = Expectations(self.clock)
        self.watch_keys(self.sets)
        self.pods.on_change(add=self._pod_added, update=self._pod_changed, delete=self._pod_deleted)

    def _owner_key(self, pod: core_v1.Pod) -> str:
        owner = controller_of(pod)
        return f"{pod.metadata.namespace}/{owner.name}" if owner is not None and owner.kind == self.kind else ""

    def _pod_added(self, pod: core_v1.Pod) -> None:
        if key := self._owner_key(pod):
            self.expectations.creation_observed(key)
            self.queue.add(key)
        elif controller_of(pod) is None:
            self._touch_matching(pod)

    def _touch_matching(self, pod: core_v1.Pod) -> None:
        """An orphan may be adopted by whoever selects it."""
        for one in self.sets.cache:
            if one.metadata.namespace == pod.metadata.namespace and compile_selector(one.spec.selector).matches(
                pod.metadata.labels
            ):
                self.queue.add(key_of(one))

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        before, after = self._owner_key(old), self._owner_key(new)
        if new.metadata.deletion_timestamp and after:
            self.expectations.deletion_observed(after, new.metadata.uid)
        for key in {before, after} - {""}:
            self.queue.add(key)
        if controller_of(new) is None and (old.metadata.labels != new.metadata.labels or before):
            self._touch_matching(new)

    def _pod_deleted(self, pod: core_v1.Pod) -> None:
        if key := self._owner_key(pod):
            self.expectations.deletion_observed(key, pod.metadata.uid)
            self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        replica_set = self.sets.cache.by_key(key)
        if replica_set is None:
            self.expectations.forget(key)
            return
        ready_to_act = self.expectations.satisfied(key)
        pods = {pod.metadata.uid: pod for pod in self.pods.cache.by_index("controller", replica_set.metadata.uid)}
        pods |= {pod.metadata.uid: pod for pod in self.pods.cache.by_index("orphan", replica_set.metadata.namespace)}
        now = self.clock.now()
        actions = desired(replica_set, compile_selector(replica_set.spec.selector), list(pods.values()), now)
        failure = ""
        if ready_to_act and not replica_set.metadata.deletion_timestamp:
            await self._claim(replica_set, actions)
            failure = await self._create(key, replica_set, actions.create)
            await self._delete(key, replica_set, actions.delete)
        await self._update_status(replica_set, status_of(replica_set, actions.owned, now, failure, actions.terminating))
        if failure:
            raise RuntimeError(failure)
        delay = replica_set.spec.min_ready_seconds
        waiting = [
            ready_since(pod) + delay - now
            for pod in actions.owned
            if is_ready(pod) and not is_available(pod, delay, now)
        ]
        if waiting:
            self.queue.add_after(key, max(min(waiting), 0.0) + 0.001)

    async def _claim(self, replica_set: Any, actions: Actions) -> None:
        """Take in orphans that match, let go of pods that no longer do."""
        if actions.adopt and not await is_still_there(self.client, replica_set):
            raise RuntimeError("the cache is behind: the ReplicaSet is gone or about to go")
        reference = owner_reference(self.api_version, self.kind, replica_set)
        for pod in actions.adopt:
            await self._patch(pod, adoption(reference, pod))
        for pod in actions.release:
            await self._patch(pod, release(replica_set, pod))

    async def _patch(self, pod: core_v1.Pod, patch: dict[str, Any]) -> None:
        try:
            await self.client.patch(
                core_v1.Pod, pod.metadata.name, pod.metadata.namespace, patch, patch_type=STRATEGIC_PATCH
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _template(self, replica_set: Any) -> core_v1.Pod:
        """A new pod of the template."""
        template: core_v1.PodTemplateSpec = clone(replica_set.spec.template)
        metadata = template.metadata
        name = replica_set.metadata.name
        return core_v1.Pod(
            metadata=meta_v1.ObjectMeta(
                generate_name=f"{name}-",
                namespace=replica_set.metadata.namespace,
                labels=metadata.labels,
                annotations=metadata.annotations,
                finalizers=metadata.finalizers,
                owner_references=(owner_reference(self.api_version, self.kind, replica_set),),
            ),
            spec=template.spec,
        )

    async def _create(self, key: str, replica_set: Any, count: int) -> str:
        """Create pods, few at first and more while it goes well. Returns why it did not, or ""."""
        batch, left = 1, count
        while left > 0:
            batch = min(batch, left)
            self.expectations.expect_creations(key, batch)
            results = await asyncio.gather(*(self._create_one(replica_set) for _ in range(batch)))
            failures = [error for error in results if error]
            for _ in failures:
                self.expectations.creation_observed(key)
            if failures:
                return failures[0]
            left -= batch
            batch *= 2
        return ""

    async def _create_one(self, replica_set: Any) -> str:
        try:
            pod = await self.client.create(self._template(replica_set))
        except ApiError as error:
            terminating = error.status.details is not None and any(
                cause.reason == "NamespaceTerminating" for cause in error.status.details.causes
            )
            if not terminating:
                self.recorder.event(replica_set, "Warning", "FailedCreate", f"Error creating: {error.message}")
            return error.message
        self.recorder.event(replica_set, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        return ""

    async def _delete(self, key: str, replica_set: Any, pods: Sequence[core_v1.Pod]) -> None:
        if not pods:
            return
        self.expectations.expect_deletions(key, {pod.metadata.uid for pod in pods})
        await asyncio.gather(*(self._delete_one(key, replica_set, pod) for pod in pods))

    async def _delete_one(self, key: str, replica_set: Any, pod: core_v1.Pod) -> None:
        try:
            await self.client.delete(core_v1.Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except ApiError as error:
            self.expectations.deletion_observed(key, pod.metadata.uid)
            if error.code not in (404, 409):
                self.recorder.event(replica_set, "Warning", "FailedDelete", f"Error deleting: {error.message}")
                raise
            return
        self.recorder.event(replica_set, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    async def _update_status(self, replica_set: apps_v1.ReplicaSet, status: apps_v1.ReplicaSetStatus) -> None:
        if status == replica_set.status:
            return
        changed = clone(replica_set)
        changed.status = status
        try:
            await self.client.update_status(changed)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key_of(replica_set))
