"""As many pods of one template as a spec asks for: what ReplicaSets and ReplicationControllers have in common.

Source of the behaviour: kube-controller-manager's replicaset controller: slow-start creation, ranking for deletion, adoption and release by selector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import LabelSelector
from bayplan.api.types import core_v1
from bayplan.controllers.base import condition_of
from bayplan.controllers.pods import deletion_rank, has_ended, is_active, is_available, is_ready, ready_since
from bayplan.controllers.workloads.pod_owner import Claim, PodOwner, claim
from bayplan.support.timestamps import rfc3339

BURST = 500
"""Pods created or deleted in one go."""


_FAILED = "ReplicaFailure"


class Failure(NamedTuple):
    """Why pods could not be created or deleted."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Actions:
    """What is to be done for one owner."""

    create: int = 0
    delete: Sequence[core_v1.Pod] = ()
    claim: Claim = field(default_factory=Claim)
    owned: Sequence[core_v1.Pod] = field(default_factory=tuple)
    """Active pods that belong to the owner after adoption and release."""
    terminating: int = 0
    """Pods of the owner that are on their way out."""


def desired(owner: Any, selector: LabelSelector, pods: Sequence[core_v1.Pod], now: float) -> Actions:
    """Which pods of the namespace to adopt, release, delete, and how many to create."""
    claimed = claim(owner, selector, pods, adoptable=is_active)
    active, terminating = _sorted_out(claimed.owned)
    if owner.metadata.deletion_timestamp:
        return Actions(owned=active, terminating=terminating)
    difference = len(active) - (owner.spec.replicas or 0)
    if difference < 0:
        return Actions(create=min(-difference, BURST), claim=claimed, owned=active, terminating=terminating)
    if not difference:
        return Actions(claim=claimed, owned=active, terminating=terminating)
    per_node = Counter(pod.spec.node_name for pod in active)
    ranked = sorted(active, key=lambda pod: deletion_rank(pod, per_node[pod.spec.node_name], now))
    return Actions(delete=ranked[: min(difference, BURST)], claim=claimed, owned=active, terminating=terminating)


def _sorted_out(pods: Iterable[core_v1.Pod]) -> tuple[list[core_v1.Pod], int]:
    """The active pods, and how many are on their way out. There may be thousands, time and again."""
    active, terminating = [], 0
    for pod in pods:
        if has_ended(pod):
            continue
        if pod.metadata.deletion_timestamp:
            terminating += 1
        else:
            active.append(pod)
    return active, terminating


def counts(owner: Any, owned: Sequence[core_v1.Pod], now: float) -> dict[str, Any]:
    """The counters of a status that these active pods make, by attribute."""
    spec = owner.spec
    wanted = (spec.template.metadata.labels if spec.template else {}).items()
    ready = [pod for pod in owned if is_ready(pod)]
    seconds = spec.min_ready_seconds
    return {
        "replicas": len(owned),
        "fully_labeled_replicas": sum(wanted <= pod.metadata.labels.items() for pod in owned),
        "ready_replicas": len(ready),
        "available_replicas": sum(is_available(pod, seconds, now) for pod in ready) if seconds else len(ready),
        "observed_generation": owner.metadata.generation,
    }


def failure_conditions(
    old: Sequence[Any], condition_type: type[Any], failure: Failure | None, now: float
) -> tuple[Any, ...]:
    """Conditions that say why pods could not be created or deleted, or no longer say so. An older failure stays as it is."""
    kept = tuple(condition for condition in old if condition.type != _FAILED)
    if failure is None:
        return kept
    new = condition_of(old, _FAILED) or condition_type(
        type=_FAILED,
        status="True",
        reason=failure.reason,
        message=failure.message,
        last_transition_time=rfc3339(now),
    )
    return (*kept, new)


class ReplicasController(PodOwner):
    """Base of the controllers; `name`, the kind and the status are theirs."""

    workers = 16

    def status(self, owner: Any, actions: Actions, failure: Failure | None, now: float) -> Any:
        """The status that an owner should have."""
        raise TypeError(f"{type(self).__name__} has no status")

    async def reconcile(self, key: str) -> None:
        owner = self.owners.cache.by_key(key)
        if owner is None:
            self.forget(key)
            return
        ready_to_act = await self.may_act(key, owner)
        now = self.clock.now()
        actions = desired(owner, self.selector_of(owner), self.candidates(owner), now)
        failure = None
        if ready_to_act and not owner.metadata.deletion_timestamp:
            await self.take(owner, actions.claim)
            failure = await self._act(key, owner, actions)
        await self.update_status(owner, self.status(owner, actions, failure, now))
        if failure is not None:
            raise RuntimeError(failure.message)
        delay = owner.spec.min_ready_seconds
        waiting = [
            ready_since(pod) + delay - now
            for pod in (actions.owned if delay else ())
            if is_ready(pod) and not is_available(pod, delay, now)
        ]
        if waiting:
            self.queue.add_after(key, max(min(waiting), 0.0) + 0.001)

    async def _act(self, key: str, owner: Any, actions: Actions) -> Failure | None:
        template = owner.spec.template or core_v1.PodTemplateSpec()
        pods = (self.pod_of(owner, template) for _ in range(actions.create))
        problem = (await self.create_pods(key, owner, pods)).problem
        if problem:
            return Failure("FailedCreate", problem)
        try:
            await self.delete_pods(key, owner, actions.delete)
        except ApiError as error:
            return Failure("FailedDelete", error.message)
        return None
