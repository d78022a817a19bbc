"""The arithmetic of deployments: pure functions from ReplicaSets and a Deployment to numbers of replicas and conditions.

Source of the behaviour: kube-controller-manager's deployment controller (rolling, recreate, proportional scaling, progress).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from bayplan.api.codec import encode
from bayplan.api.types import apps_v1, core_v1
from bayplan.controllers.base import condition_of, with_condition
from bayplan.support.timestamps import parse_rfc3339, rfc3339

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
HASH_LABEL = "pod-template-hash"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NO_DEADLINE = 2**31 - 1


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


def find_new(deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet]) -> apps_v1.ReplicaSet | None:
    """The oldest ReplicaSet with the deployment's template, or None."""
    ordered = sorted(sets, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
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
    return surge, min(unavailable, replicas) if replicas else unavailable


def new_size(deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet) -> int:
    """Replicas of the new ReplicaSet in this step of a rolling update."""
    wanted, current = deployment.spec.replicas or 0, new.spec.replicas or 0
    if deployment.spec.strategy.type == "Recreate" or current > wanted:
        return wanted
    surge, _ = bounds(deployment)
    total = sum(one.spec.replicas or 0 for one in sets)
    room = wanted + surge - total
    return current if room <= 0 else min(current + room, wanted)


def old_sizes(deployment: apps_v1.Deployment, new: apps_v1.ReplicaSet, old: Sequence[apps_v1.ReplicaSet]) -> dict[str, int]:
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
    ordered = sorted(old, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
    cleaned = 0
    for one in ordered:
        unhealthy = sizes[one.metadata.name] - one.status.available_replicas
        take = min(removable - cleaned, unhealthy)
        if take > 0:
            sizes[one.metadata.name] -= take
            cleaned += take
    available = sum(one.status.available_replicas for one in (new, *old))
    left = max(available - least, 0)
    for one in ordered:
        take = min(left, sizes[one.metadata.name])
        sizes[one.metadata.name] -= take
        left -= take
    return {one.metadata.name: sizes[one.metadata.name] for one in old if sizes[one.metadata.name] != (one.spec.replicas or 0)}


def proportional_sizes(deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet]) -> dict[str, int]:
    """Sizes of all active ReplicaSets after the deployment was scaled in the middle of a roll-out: each keeps its share, what rounding leaves goes to the
    largest."""
    surge, _ = bounds(deployment)
    wanted = deployment.spec.replicas or 0
    allowed = wanted + surge if wanted > 0 else 0
    total = sum(one.spec.replicas or 0 for one in sets)
    to_add = allowed - total
    up = to_add > 0
    ordered = sorted(sets, key=lambda one: (-(one.spec.replicas or 0), one.metadata.creation_timestamp or ""), reverse=False)
    sizes: dict[str, int] = {}
    added = 0
    for one in ordered:
        size = one.spec.replicas or 0
        share = 0
        if to_add and added != to_add:
            before = int(one.metadata.annotations.get(MAX, "0") or 0) or (deployment.status.replicas or total)
            fraction = round(size * allowed / before) - size if before else 0
            rest = to_add - added
            share = min(fraction, rest) if up else max(fraction, rest)
            if (up and share < 0) or (not up and share > 0):
                share = 0
        sizes[one.metadata.name] = size + share
        added += share
    if ordered and added != to_add:
        largest = ordered[0].metadata.name
        sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return sizes


def status_of(
    deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None, now: float, collisions: int | None
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
        conditions=with_condition(deployment.status.conditions, condition),
    )


def is_complete(deployment: apps_v1.Deployment, status: apps_v1.DeploymentStatus) -> bool:
    """Whether the roll-out is done: everything is new and available, nothing old is left."""
    wanted = deployment.spec.replicas or 0
    return status.updated_replicas == wanted and status.replicas == wanted and status.available_replicas == wanted


def with_progress(
    deployment: apps_v1.Deployment, status: apps_v1.DeploymentStatus, new: apps_v1.ReplicaSet | None, now: float
) -> tuple[apps_v1.DeploymentStatus, float]:
    """The status with its Progressing condition, and in how many seconds the deadline has to be looked at again (0: not at all)."""
    deadline = deployment.spec.progress_deadline_seconds
    if deadline is None or deadline == NO_DEADLINE or deployment.spec.paused:
        return status, 0.0
    known = condition_of(status.conditions, "Progressing")
    name = new.metadata.name if new is not None else ""
    subject = f'ReplicaSet "{name}"' if name else f'Deployment "{deployment.metadata.name}"'
    done = is_complete(deployment, status)
    stamp = rfc3339(now)

    def condition(value: str, reason: str, message: str) -> apps_v1.DeploymentCondition:
        return apps_v1.DeploymentCondition(
            type="Progressing", status=value, reason=reason, message=message, last_update_time=stamp, last_transition_time=stamp
        )

    if done:
        if known is None or known.reason != "NewReplicaSetAvailable":
            reached = condition("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
            status.conditions = with_condition(status.conditions, reached)
        return status, 0.0
    if known is not None and known.reason == "NewReplicaSetAvailable" and status.updated_replicas == (deployment.spec.replicas or 0):
        return status, 0.0
    if _progressed(deployment.status, status) or known is None:
        progressing = condition("True", "ReplicaSetUpdated", f"{subject} is progressing.")
        if known is not None and known.status == "True":
            progressing.last_transition_time = known.last_transition_time
        others = tuple(one for one in status.conditions if one.type != "Progressing")
        status.conditions = (*others, progressing)
        return status, float(deadline)
    if known.reason == "ProgressDeadlineExceeded":
        return status, 0.0
    since = parse_rfc3339(known.last_update_time) if known.last_update_time else now
    left = since + deadline - now
    if left > 0:
        return status, left + 0.001
    exceeded = condition("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
    status.conditions = with_condition(status.conditions, exceeded)
    return status, 0.0


def _progressed(old: apps_v1.DeploymentStatus, new: apps_v1.DeploymentStatus) -> bool:
    """More new pods, fewer old ones, or more ready or available ones than before."""
    old_count, new_count = old.replicas - old.updated_replicas, new.replicas - new.updated_replicas
    return (
        new.updated_replicas > old.updated_replicas
        or new_count < old_count
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )
