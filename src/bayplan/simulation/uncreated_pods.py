"""Pods that their owners could not make, such as those that a quota forbids, and what they were told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.types import apps_v1, batch_v1, core_v1
from bayplan.client import Client
from bayplan.client.event_correlation import COMBINED
from bayplan.controllers.base import controller_of
from bayplan.controllers.workloads.job_rules import finished, is_suspended

_REASONS: Final = ("FailedCreate", "ReplicaSetCreateError")
"""Of events by which owners say that they could not make something."""


@dataclass(frozen=True, slots=True)
class UncreatedPods:
    """Pods that are wanted, and that nobody can make."""

    workload: str
    """`namespace/Kind/name`; Deployments stand for their ReplicaSets."""
    pods: int
    """How many are missing."""
    reason: str
    """What the owner was told last."""
    new: bool
    """Whether fewer were missing before."""


async def uncreated_pods(client: Client, before: Iterable[UncreatedPods] = ()) -> tuple[UncreatedPods, ...]:
    """What is missing now, most pods first. `before`: what was missing earlier."""
    told: dict[str, core_v1.Event] = {}
    for event in (await client.list(core_v1.Event)).items:
        uid = event.involved_object.uid
        if event.reason in _REASONS and (uid not in told or _time(event) >= _time(told[uid])):
            told[uid] = event
    if not told:
        return ()
    known = {one.workload: one.pods for one in before}
    found: dict[str, UncreatedPods] = {}
    for cls, wanting in _WANTING.items():
        for owner in (await client.list(cls)).items:
            said, name, pods = told.get(owner.metadata.uid), _workload(cls.__name__, owner), wanting(owner)
            if said is not None and pods > 0 and name not in found:
                found[name] = UncreatedPods(name, pods, said.message.removeprefix(COMBINED), pods > known.get(name, 0))
    return tuple(sorted(found.values(), key=lambda one: (-one.pods, one.workload)))


def _time(event: core_v1.Event) -> str:
    last = event.series.last_observed_time if event.series is not None else None
    return last or event.last_timestamp or event.event_time or ""


def _workload(kind: str, owner: Any) -> str:
    maker = controller_of(owner)
    if kind == "ReplicaSet" and maker is not None:
        kind, name = maker.kind, maker.name
    else:
        name = owner.metadata.name
    return f"{owner.metadata.namespace}/{kind}/{name}"


def _of_replicas(owner: Any) -> int:
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    return int(wanted - owner.status.replicas)


def _of_daemons(owner: apps_v1.DaemonSet) -> int:
    return owner.status.desired_number_scheduled - owner.status.current_number_scheduled


def _of_job(job: batch_v1.Job) -> int:
    if is_suspended(job) or finished(job) is not None:
        return 0
    if job.spec.completions is None and job.status.succeeded:
        return 0  # once one has succeeded, no more are made
    wanted = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        wanted = min(wanted, job.spec.completions - job.status.succeeded)
    return wanted - job.status.active


_WANTING: Final[dict[type[Any], Callable[[Any], int]]] = {
    apps_v1.ReplicaSet: _of_replicas,
    core_v1.ReplicationController: _of_replicas,
    apps_v1.StatefulSet: _of_replicas,
    apps_v1.DaemonSet: _of_daemons,
    batch_v1.Job: _of_job,
    apps_v1.Deployment: _of_replicas,
}
"""Kind -> how many pods it is short of. ReplicaSets come before the Deployments that stand for them."""
