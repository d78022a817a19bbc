"""The arithmetic of deployments: pure functions from ReplicaSets and a Deployment to numbers of replicas and conditions.

Source of the behaviour: kube-controller-manager's deployment controller (rolling, recreate, proportional scaling, progress).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

import msgspec

from bayplan.api.codec import encode
from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.base import condition_of, owner_reference
from bayplan.controllers.pods import has_ended
from bayplan.support.timestamps import parse_rfc3339, rfc3339

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
HASH_LABEL = "pod-template-hash"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NO_DEADLINE = 2**31 - 1
"""The largest number stands for none: of the progress deadline and of the revision history limit."""
_HISTORY_CHARACTERS = 2000

_KEPT_HERE = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
}
"""Annotations of a deployment that its ReplicaSets do not inherit."""


def template_hash(template: core_v1.PodTemplateSpec, collisions: int | None) -> str:
    """A short name for a template, in the alphabet that Kubernetes allows in generated names."""
    digest = hashlib.sha256(encode(template) + (str(collisions).encode() if collisions is not None else b"")).digest()
    number = int.from_bytes(digest[:8], "big")
    text = ""
    for _ in range(10):
        number, rest = divmod(number, len(_ALPHABET))
        text += _ALPHABET[rest]
    return text


def same_template(first: core_v1.PodTemplateSpec, second: core_v1.PodTemplateSpec) -> bool:
    """Whether two templates make the same pods; the hash label does not count."""
    return _without_hash(first) == _without_hash(second)


def _without_hash(template: core_v1.PodTemplateSpec) -> bytes:
    labels = {key: value for key, value in sorted(template.metadata.labels.items()) if key != HASH_LABEL}
    annotations = sorted(template.metadata.annotations.items())
    return encode((labels, annotations, template.spec))


def revision_of(replica_set: apps_v1.ReplicaSet) -> int:
    """The revision that the annotation gives; 0 if it gives none."""
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0


def with_history(history: str, revision: str) -> str:
    """The revisions that a ReplicaSet had before, with one more; the oldest are dropped when the text gets longer than 2,000 characters."""
    revisions = [one for one in history.split(",") if one]
    while revisions and sum(len(one) + 1 for one in revisions) + len(revision) > _HISTORY_CHARACTERS:
        del revisions[0]
    return ",".join((*revisions, revision))


def inherited(deployment: apps_v1.Deployment) -> dict[str, str]:
    """The annotations of a deployment that its ReplicaSets have, too."""
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _KEPT_HERE}


def new_set(deployment: apps_v1.Deployment, revision: str) -> apps_v1.ReplicaSet:
    """A ReplicaSet of the deployment's template, without pods."""
    spec = deployment.spec
    collisions = deployment.status.collision_count
    hash_ = template_hash(spec.template, collisions)
    template, selector = clone(spec.template), clone(spec.selector)
    template.metadata.labels = {**template.metadata.labels, HASH_LABEL: hash_}
    selector.match_labels = {**selector.match_labels, HASH_LABEL: hash_}
    surge, _ = bounds(deployment)
    wanted = spec.replicas or 0
    annotations = {
        **inherited(deployment),
        REVISION: revision,
        DESIRED: str(wanted),
        MAX: str(wanted + surge),
    }
    return apps_v1.ReplicaSet(
        metadata=meta_v1.ObjectMeta(
            name=f"{deployment.metadata.name}-{hash_}",
            namespace=deployment.metadata.namespace,
            labels=template.metadata.labels,
            annotations=annotations,
            owner_references=(owner_reference("apps/v1", "Deployment", deployment),),
        ),
        spec=apps_v1.ReplicaSetSpec(
            replicas=0, selector=selector, template=template, min_ready_seconds=spec.min_ready_seconds
        ),
    )


def find_new(deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet]) -> apps_v1.ReplicaSet | None:
    """The oldest ReplicaSet with the deployment's template, or None."""
    ordered = sorted(sets, key=_age)
    return next((one for one in ordered if same_template(one.spec.template, deployment.spec.template)), None)


def _count(value: int | str | None, replicas: int, *, up: bool) -> int:
    if isinstance(value, str):
        share = int(value.rstrip("%")) * replicas / 100
        return math.ceil(share) if up else math.floor(share)
    return value or 0


def bounds(deployment: apps_v1.Deployment) -> tuple[int, int]:
    """How many pods a rolling update may have above, and miss below, the wanted number."""
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type == "Recreate" or rolling is None:
        return 0, 0
    replicas = deployment.spec.replicas or 0
    surge = _count(rolling.max_surge, replicas, up=True)
    unavailable = _count(rolling.max_unavailable, replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def new_size(deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet) -> int:
    """Replicas of the new ReplicaSet in this step of a rolling update."""
    wanted, current = deployment.spec.replicas or 0, new.spec.replicas or 0
    if deployment.spec.strategy.type == "Recreate" or current > wanted:
        return wanted
    surge, _ = bounds(deployment)
    total = sum(one.spec.replicas or 0 for one in sets)
    room = wanted + surge - total
    return current if room <= 0 else min(current + room, wanted)


def old_sizes(
    deployment: apps_v1.Deployment, new: apps_v1.ReplicaSet, old: Sequence[apps_v1.ReplicaSet]
) -> dict[str, int]:
    """Replicas of old ReplicaSets in this step of a rolling update, by name, where they change: first pods that are not available anyway, then as
    many as availability allows, oldest first."""
    wanted = deployment.spec.replicas or 0
    _, unavailable = bounds(deployment)
    least = wanted - unavailable
    total = sum(one.spec.replicas or 0 for one in (new, *old))
    new_missing = (new.spec.replicas or 0) - new.status.available_replicas
    removable = total - least - new_missing
    sizes = {one.metadata.name: one.spec.replicas or 0 for one in old}
    if removable <= 0:
        return {}
    ordered = sorted(old, key=_age)
    cleaned = 0
    for one in ordered:
        unhealthy = sizes[one.metadata.name] - one.status.available_replicas
        take = min(removable - cleaned, unhealthy)
        if take > 0:
            sizes[one.metadata.name] -= take
            cleaned += take
    available = sum(
        min(one.status.available_replicas, one.spec.replicas or 0) for one in (new, *old)
    )  # no more than will stay
    left = max(available - least, 0)
    for one in ordered:
        take = min(left, sizes[one.metadata.name])
        sizes[one.metadata.name] -= take
        left -= take
    return {
        one.metadata.name: sizes[one.metadata.name]
        for one in old
        if sizes[one.metadata.name] != (one.spec.replicas or 0)
    }


def proportional_sizes(deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet]) -> dict[str, int]:
    """Sizes of all active ReplicaSets after the deployment was scaled in the middle of a roll-out: each keeps its share, what rounding leaves goes to the
    largest. Of equal ones the newest grows first and the oldest shrinks first.

    Worth an example: 10 wanted, surge 3, a roll-out with sizes 8 (old) and 5 (new). Scaled to 15 there is room for 18: 8 -> 8*18/13 = 11, 5 -> 7.
    """
    surge, _ = bounds(deployment)
    wanted = deployment.spec.replicas or 0
    allowed = wanted + surge if wanted > 0 else 0
    total = sum(one.spec.replicas or 0 for one in sets)
    to_add = allowed - total
    up = to_add > 0
    ordered = sorted(sets, key=_age, reverse=up)
    ordered.sort(key=lambda one: -(one.spec.replicas or 0))
    sizes: dict[str, int] = {}
    added = 0
    for one in ordered:
        size, share, rest = one.spec.replicas or 0, 0, to_add - added
        if size and to_add and rest:
            fraction = _fraction(deployment, one, wanted + surge)
            share = min(fraction, rest) if up else max(fraction, rest)
        sizes[one.metadata.name] = size + share
        added += share
    if ordered and added != to_add:
        largest = ordered[0].metadata.name
        sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return sizes


def _age(one: apps_v1.ReplicaSet) -> tuple[str, str]:
    """Sort key: the oldest first."""
    return one.metadata.creation_timestamp or "", one.metadata.name


def _fraction(deployment: apps_v1.Deployment, one: apps_v1.ReplicaSet, allowed: int) -> int:
    """By how much a ReplicaSet has to change to keep its share of `allowed` pods; halves are rounded up."""
    size = one.spec.replicas or 0
    if not deployment.spec.replicas:
        return -size
    text = one.metadata.annotations.get(MAX, "")
    before = (int(text) if text.isdigit() else 0) or deployment.status.replicas
    return (2 * size * allowed + before) // (2 * before) - size if before else 0


def may_run_old_pods(old: Iterable[apps_v1.ReplicaSet], pods: Iterable[core_v1.Pod]) -> bool:
    """Whether a deployment that recreates its pods has to wait: old ReplicaSets show pods in their status, or one of their pods has not ended."""
    return any(one.status.replicas for one in old) or any(not has_ended(pod) for pod in pods)


def unneeded(deployment: apps_v1.Deployment, old: Sequence[apps_v1.ReplicaSet]) -> list[apps_v1.ReplicaSet]:
    """Old ReplicaSets beyond the revision history limit, lowest revision first. One that has, or may still get, pods stays."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == NO_DEADLINE:
        return []
    kept = sorted(
        (one for one in old if not one.metadata.deletion_timestamp), key=lambda one: (revision_of(one), _age(one))
    )
    return [
        one
        for one in kept[: max(len(kept) - limit, 0)]
        if not one.spec.replicas
        and not one.status.replicas
        and one.metadata.generation <= one.status.observed_generation
    ]


def latest_or_only_active(
    sets: Sequence[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None
) -> apps_v1.ReplicaSet | None:
    """The ReplicaSet that takes all of a change of scale: the only one with pods, or the newest if none has any; None if several have."""
    active = [one for one in sets if one.spec.replicas]
    if active:
        return active[0] if len(active) == 1 else None
    return new or max(sets, key=_age, default=None)


def status_of(
    deployment: apps_v1.Deployment,
    sets: Sequence[apps_v1.ReplicaSet],
    new: apps_v1.ReplicaSet | None,
    now: float,
    collisions: int | None,
) -> apps_v1.DeploymentStatus:
    """The status that these ReplicaSets make, without progress."""
    available = sum(one.status.available_replicas for one in sets)
    replicas = sum(one.status.replicas for one in sets)
    total = sum(one.spec.replicas or 0 for one in sets)
    stamp = rfc3339(now)
    _, unavailable = bounds(deployment)
    enough = available >= (deployment.spec.replicas or 0) - unavailable
    condition = apps_v1.DeploymentCondition(
        type="Available",
        status="True" if enough else "False",
        reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        last_update_time=stamp,
        last_transition_time=stamp,
    )
    return apps_v1.DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=replicas,
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(one.status.ready_replicas for one in sets),
        available_replicas=available,
        unavailable_replicas=max(total - available, 0),
        collision_count=collisions,
        conditions=with_latest(deployment.status.conditions, condition),
        terminating_replicas=sum(one.status.terminating_replicas or 0 for one in sets),
    )


def is_complete(deployment: apps_v1.Deployment, status: apps_v1.DeploymentStatus) -> bool:
    """Whether the roll-out is done: everything is new and available, nothing old is left."""
    wanted = deployment.spec.replicas or 0
    return (
        status.updated_replicas == wanted
        and status.replicas == wanted
        and status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def has_deadline(deployment: apps_v1.Deployment) -> bool:
    """Whether the deployment wants its progress watched."""
    return deployment.spec.progress_deadline_seconds not in (None, NO_DEADLINE)


def progressing(value: str, reason: str, message: str, now: float) -> apps_v1.DeploymentCondition:
    """A Progressing condition as of now."""
    stamp = rfc3339(now)
    return apps_v1.DeploymentCondition(
        type="Progressing",
        status=value,
        reason=reason,
        message=message,
        last_update_time=stamp,
        last_transition_time=stamp,
    )


def with_progress(
    deployment: apps_v1.Deployment, status: apps_v1.DeploymentStatus, new: apps_v1.ReplicaSet | None, now: float
) -> tuple[apps_v1.DeploymentStatus, float]:
    """The status with its Progressing condition, and in how many seconds the deadline has to be looked at again (0: not at all).

    The clock of the deadline starts with the last progress. A roll-out that reached its end never times out: the one after it starts with the condition
    NewReplicaSetCreated, or, when an old template comes back, with its first progress.
    """
    if deployment.spec.paused:
        return status, 0.0
    if not has_deadline(deployment):
        return msgspec.structs.replace(status, conditions=without(status.conditions, "Progressing")), 0.0
    known = condition_of(deployment.status.conditions, "Progressing")
    reason = known.reason if known is not None else ""
    if status.replicas == status.updated_replicas and reason == "NewReplicaSetAvailable":
        return status, 0.0
    subject = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    if is_complete(deployment, status):
        done = progressing("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.", now)
        return msgspec.structs.replace(status, conditions=with_latest(status.conditions, done)), 0.0
    deadline = float(deployment.spec.progress_deadline_seconds or 0)
    if _progressed(deployment.status, status):
        moving = progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
        if known is not None and known.status == "True":
            moving.last_transition_time = known.last_transition_time
        conditions = (*without(status.conditions, "Progressing"), moving)
        return msgspec.structs.replace(status, conditions=conditions), deadline
    if known is None or reason in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return status, 0.0
    since = parse_rfc3339(known.last_update_time) if known.last_update_time else now
    left = since + deadline - now
    if left >= 0:
        return status, left + 1.0
    late = progressing("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.", now)
    return msgspec.structs.replace(status, conditions=with_latest(status.conditions, late)), 0.0


def with_latest(
    conditions: Sequence[apps_v1.DeploymentCondition], new: apps_v1.DeploymentCondition
) -> tuple[apps_v1.DeploymentCondition, ...]:
    """The conditions with one that says something else now as the last; the same ones if its status and reason are known already.

    >>> known = (apps_v1.DeploymentCondition(type="A", status="True"), apps_v1.DeploymentCondition(type="B", status="True"))
    >>> [one.type for one in with_latest(known, apps_v1.DeploymentCondition(type="A", status="False"))]
    ['B', 'A']
    """
    known = condition_of(conditions, new.type)
    if known is not None and known.status == new.status:
        if known.reason == new.reason:
            return tuple(conditions)
        new = msgspec.structs.replace(new, last_transition_time=known.last_transition_time)
    return (*without(conditions, new.type), new)


def without(conditions: Iterable[apps_v1.DeploymentCondition], kind: str) -> tuple[apps_v1.DeploymentCondition, ...]:
    """Conditions but for those of one type."""
    return tuple(one for one in conditions if one.type != kind)


def _progressed(old: apps_v1.DeploymentStatus, new: apps_v1.DeploymentStatus) -> bool:
    """More new pods, fewer old ones, or more ready or available ones than before."""
    old_count, new_count = old.replicas - old.updated_replicas, new.replicas - new.updated_replicas
    return (
        new.updated_replicas > old.updated_replicas
        or new_count < old_count
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )
