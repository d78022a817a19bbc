"""StatefulSets: which pods and claims a set lacks, which go next, and its status. Pure functions of objects and time.

    plan(set, revisions, pods, now) -> Plan(create, delete, repair, status)

With `OrderedReady` one pod at a time is touched, from the lowest ordinal up when creating and from the highest down when deleting, and only while all below are
healthy; with `Parallel` all at once. A rolling update replaces from the highest ordinal down to the partition.

Source of the behaviour: kube-controller-manager's statefulset controller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from bayplan.api.types import apps_v1, core_v1
from bayplan.controllers.pods import POD_LABEL, is_available, is_ready, ready_since
from bayplan.controllers.workloads.statefulset_claims import claim_name

NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(.*)-([0-9]+)")


_MOST_CREATED = 500
"""Pods of a parallel set that are created at once. Others come when these are there: a set may want two thousand million."""


class Names(NamedTuple):
    """The revisions of a set, by name."""

    current: str
    update: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done for a set now."""

    create: tuple[tuple[int, str], ...] = ()
    """Ordinals of pods to create, with the revision of each."""
    delete: tuple[core_v1.Pod, ...] = ()
    """Pods to delete: surplus, outdated or ended."""
    condemned: frozenset[str] = frozenset()
    """Names of pods beyond the wanted ordinals: what retention on scaling down is about."""
    repair: tuple[core_v1.Pod, ...] = ()
    """Pods whose identity or claims are not as they should be."""
    status: apps_v1.StatefulSetStatus = field(default_factory=apps_v1.StatefulSetStatus)
    again: float | None = None
    """Seconds until a pod becomes available by the mere passing of time."""


def ordinal_of(set_name: str, pod_name: str) -> int:
    """The ordinal of a pod of a set; -1 if the name is none of the set's."""
    match = _NAME.fullmatch(pod_name)
    return int(match[2]) if match is not None and match[1] == set_name else -1


def start_of(one: apps_v1.StatefulSet) -> int:
    """The lowest ordinal."""
    return one.spec.ordinals.start if one.spec.ordinals is not None else 0


def is_parallel(one: apps_v1.StatefulSet) -> bool:
    """Whether pods need not wait for one another."""
    return one.spec.pod_management_policy == "Parallel"


def partition_of(one: apps_v1.StatefulSet) -> int:
    """The first position (from 0) that a rolling update may touch."""
    rolling = one.spec.update_strategy.rolling_update
    return rolling.partition or 0 if rolling is not None else 0


def max_unavailable(one: apps_v1.StatefulSet) -> int:
    """How many pods a rolling update may have unavailable; at least 1."""
    rolling = one.spec.update_strategy.rolling_update
    value = rolling.max_unavailable if rolling is not None else None
    if value is None:
        return 1
    if isinstance(value, str):
        value = math.ceil((one.spec.replicas or 0) * int(value.rstrip("%")) / 100)
    return max(value, 1)


def plan(one: apps_v1.StatefulSet, revisions: Names, pods: Iterable[core_v1.Pod], now: float) -> Plan:
    """What to do next. `pods`: those of the set, whatever their state."""
    pods = [pod for pod in pods if ordinal_of(one.metadata.name, pod.metadata.name) >= 0]
    first, count = start_of(one), one.spec.replicas or 0
    by_ordinal = {ordinal_of(one.metadata.name, pod.metadata.name): pod for pod in pods}
    wanted = {ordinal: by_ordinal[ordinal] for ordinal in sorted(by_ordinal) if first <= ordinal < first + count}
    extra = sorted((ordinal for ordinal in by_ordinal if not first <= ordinal < first + count), reverse=True)
    status = status_of(one, revisions, pods, now)
    fresh = [
        ready_since(pod) + one.spec.min_ready_seconds - now
        for pod in pods
        if is_ready(pod) and not is_available(pod, one.spec.min_ready_seconds, now)
    ]
    base = Plan(status=status, again=max(min(fresh), 0.0) + 0.001 if fresh else None)
    if one.metadata.deletion_timestamp:
        return base
    condemned = [by_ordinal[ordinal] for ordinal in extra]
    return _steps(one, revisions, wanted, condemned, base, now)


def _steps(
    one: apps_v1.StatefulSet,
    revisions: Names,
    wanted: Mapping[int, core_v1.Pod],
    condemned: Sequence[core_v1.Pod],
    base: Plan,
    now: float,
) -> Plan:
    """wanted: the pods that are to stay, by ordinal, from the lowest up."""
    names = frozenset(pod.metadata.name for pod in condemned)
    create, delete, repair, waiting = _fill(one, revisions, wanted, now)
    ordered = not is_parallel(one)

    def made(*more: core_v1.Pod) -> Plan:
        return Plan(tuple(create), (*delete, *more), names, tuple(repair), base.status, base.again)

    if ordered and (waiting or create or delete):
        return made()
    surplus = _surplus(one, wanted, condemned, now, ordered=ordered)
    if surplus and ordered:
        return made(*surplus)
    if condemned and ordered:
        return made()
    outdated = _outdated(one, revisions, wanted, now) if one.spec.update_strategy.type != "OnDelete" else []
    return made(*surplus, *(pod for pod in outdated if pod not in delete))


def _fill(
    one: apps_v1.StatefulSet, revisions: Names, wanted: Mapping[int, core_v1.Pod], now: float
) -> tuple[list[tuple[int, str]], list[core_v1.Pod], list[core_v1.Pod], bool]:
    """Pods to create, to delete because they have ended, and to repair; and whether a pod has to be waited for."""
    delete: list[core_v1.Pod] = []
    repair: list[core_v1.Pod] = []
    ordered, first = not is_parallel(one), start_of(one)
    missing = (ordinal for ordinal in range(first, first + (one.spec.replicas or 0)) if ordinal not in wanted)
    create = [
        (ordinal, revision_for(one, revisions, ordinal - first))
        for ordinal in islice(missing, 1 if ordered else _MOST_CREATED)
    ]
    for ordinal, pod in wanted.items():
        if ordered and create and ordinal > create[0][0]:
            break
        if pod.status.phase in ("Failed", "Succeeded"):
            if not pod.metadata.deletion_timestamp:
                delete.append(pod)
            if ordered:
                return [], delete, repair, True
            continue
        repair.append(pod)
        if ordered and not _is_healthy(pod, one.spec.min_ready_seconds, now):
            return [], delete, repair, True
    return create, delete, repair, ordered and bool(create)


def _is_healthy(pod: core_v1.Pod, min_ready_seconds: int, now: float) -> bool:
    running = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
    return running and is_available(pod, min_ready_seconds, now)


def _surplus(
    one: apps_v1.StatefulSet,
    wanted: Mapping[int, core_v1.Pod],
    condemned: Sequence[core_v1.Pod],
    now: float,
    *,
    ordered: bool,
) -> list[core_v1.Pod]:
    """Pods beyond the wanted ordinals that go now, the highest first."""
    if not ordered:
        return [pod for pod in condemned if not pod.metadata.deletion_timestamp]
    if not condemned or condemned[0].metadata.deletion_timestamp:
        return []
    seconds = one.spec.min_ready_seconds
    unhealthy = [pod for pod in (*wanted.values(), *reversed(condemned)) if not _is_healthy(pod, seconds, now)]
    top = condemned[0]
    if unhealthy and not _is_healthy(top, seconds, now) and unhealthy[0] is not top:
        return []  # a lower pod that is not healthy either comes first
    return [top]


def _outdated(
    one: apps_v1.StatefulSet, revisions: Names, wanted: Mapping[int, core_v1.Pod], now: float
) -> list[core_v1.Pod]:
    """Pods of an older revision that a rolling update replaces now. One that is not available costs nothing."""
    seconds = one.spec.min_ready_seconds
    healthy = sum(_is_healthy(pod, seconds, now) for pod in wanted.values())
    budget = max_unavailable(one) - ((one.spec.replicas or 0) - healthy)
    chosen = []
    for ordinal, pod in reversed([*wanted.items()]):
        if ordinal < start_of(one) + partition_of(one):
            break
        if pod.metadata.deletion_timestamp or revision_in(pod) == revisions.update:
            continue
        costs = _is_healthy(pod, seconds, now)
        if costs and budget <= 0:
            break
        budget -= costs
        chosen.append(pod)
    return chosen


def revision_in(pod: core_v1.Pod) -> str:
    """The name of the revision that a pod was made from."""
    return pod.metadata.labels.get(POD_LABEL, "")


def revision_for(one: apps_v1.StatefulSet, revisions: Names, position: int) -> str:
    """The revision of a new pod: below the partition the current one."""
    strategy = one.spec.update_strategy
    if strategy.type == "OnDelete":
        return revisions.update
    if strategy.rolling_update is None:
        return revisions.current if position < one.status.current_replicas else revisions.update
    return revisions.current if position < partition_of(one) else revisions.update


def status_of(
    one: apps_v1.StatefulSet, revisions: Names, pods: Sequence[core_v1.Pod], now: float
) -> apps_v1.StatefulSetStatus:
    """The status that the pods make. When a rolling update is complete, its revision becomes the current one."""
    created = [pod for pod in pods if pod.status.phase]
    staying = [pod for pod in created if not pod.metadata.deletion_timestamp]
    ready = [pod for pod in created if pod.status.phase == "Running" and is_ready(pod)]
    status = apps_v1.StatefulSetStatus(
        observed_generation=one.metadata.generation,
        replicas=len(created),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, one.spec.min_ready_seconds, now) for pod in ready),
        current_replicas=sum(revision_in(pod) == revisions.current for pod in staying),
        updated_replicas=sum(revision_in(pod) == revisions.update for pod in staying),
        current_revision=revisions.current,
        update_revision=revisions.update,
        conditions=one.status.conditions,
    )
    rolling = one.spec.update_strategy.type != "OnDelete"
    if rolling and status.updated_replicas == status.replicas == status.ready_replicas == (one.spec.replicas or 0):
        status.current_replicas, status.current_revision = status.updated_replicas, revisions.update
    return status


def with_identity(one: apps_v1.StatefulSet, pod: core_v1.Pod, name: str) -> None:
    """Give a new pod (which this changes) the name, labels, host name and volumes of its ordinal."""
    metadata = pod.metadata
    metadata.name = name
    metadata.labels = {**metadata.labels, **identity_labels(one, name)}
    pod.spec.hostname, pod.spec.subdomain = name, one.spec.service_name
    claims = {template.metadata.name: claim_name(template, name) for template in one.spec.volume_claim_templates}
    own = [
        core_v1.Volume(
            name=volume,
            persistent_volume_claim=core_v1.PersistentVolumeClaimVolumeSource(claim_name=claim, read_only=False),
        )
        for volume, claim in claims.items()
    ]
    pod.spec.volumes = (*own, *(volume for volume in pod.spec.volumes if volume.name not in claims))


def identity_labels(one: apps_v1.StatefulSet, name: str) -> Mapping[str, str]:
    """Labels that say which pod of the set it is."""
    return {NAME_LABEL: name, INDEX_LABEL: str(ordinal_of(one.metadata.name, name))}
