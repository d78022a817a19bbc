"""JobSets: all pods of a JobSet (`jobset.x-k8s.io/v1alpha2`) as one gang.

A pod belongs to the JobSet that its label `jobset.sigs.k8s.io/jobset-name` names, which JobSet's controller gives it. How many pods have to be
placed together follows from `replicatedJobs`. Some JobSets do not have all of their pods made at once: with `startupPolicyOrder: InOrder` or
`dependsOn`, jobs come after others have started; with the annotation `alpha.jobset.sigs.k8s.io/exclusive-topology`, JobSet's webhook has the
leader of each job find a domain of its own before its followers may come. Of those the pods that come first are the gang, and they
are tried only while the cluster has room for the JobSet as a whole (see `minResources` of other groups).

Worked example: leader 1 x 1 pod, workers 4 x 8 pods: 33 are placed together. InOrder: 1, while there is room for 33. With an exclusive topology: 5.

Source of the behaviour: the types, the pod webhooks and the start-up policy of kubernetes-sigs/jobset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bayplan.api.codec import DecodeError, from_tree
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.types import scheduling_v1alpha2 as scheduling
from bayplan.scheduler.framework.custom_groups import CustomGroupsPlugin, GroupProgress, MalformedGroup, Tree
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.scheduler.snapshot.resources import ResourceTable, amounts_of

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
"""With this annotation, the domains are chosen beforehand, and all pods come at once."""


@dataclass(frozen=True, slots=True)
class _ReplicatedJob:
    """One entry of `replicatedJobs`: so many jobs of so many pods that run at once."""

    jobs: int
    pods: int
    is_late: bool
    """Whether it waits for other jobs."""
    is_exclusive: bool
    """Whether its leaders come before its other pods."""
    requests: Mapping[str, int]
    """What a pod asks for."""

    @property
    def first_pods(self) -> int:
        """How many of its pods come with the JobSet."""
        if self.is_late:
            return 0
        return self.jobs * min(self.pods, 1) if self.is_exclusive else self.jobs * self.pods


class JobSets(CustomGroupsPlugin):
    """See the module."""

    name = "JobSets"
    api_group = "jobset.x-k8s.io"
    version = "v1alpha2"
    kind = "JobSet"
    plural = "jobsets"
    has_own_status = False

    def group_name(self, pod: Pod) -> str:
        return pod.metadata.labels.get(JOB_SET_LABEL, "")

    def read_group(self, metadata: meta_v1.ObjectMeta, content: Tree) -> CustomPodGroup:
        group = super().read_group(metadata, content)
        jobs = _replicated_jobs(metadata, _mapping(content.get("spec"), "spec"), _succeeded(content.get("status")))
        first = sum(job.first_pods for job in jobs)
        policy = scheduling.PodGroupSchedulingPolicy(gang=scheduling.GangSchedulingPolicy(min_count=first))
        total: dict[str, int] = {}
        if first < sum(job.jobs * job.pods for job in jobs):
            for job in jobs:
                for resource, amount in job.requests.items():
                    total[resource] = total.get(resource, 0) + amount * job.jobs * job.pods
        spec = scheduling.PodGroupSpec(scheduling_policy=policy)
        return msgspec.structs.replace(group, spec=spec, min_resources=total)

    def status_of(self, group: CustomPodGroup, progress: GroupProgress) -> dict[str, Any]:
        return dict(group.written_status)


def _succeeded(status: Any) -> dict[Any, int]:
    """By name of the replicated job, how many of its jobs have ended well: they need no pods any more."""
    jobs = status.get("replicatedJobsStatus") if isinstance(status, Mapping) else None
    return {one.get("name"): int(one.get("succeeded") or 0) for one in jobs or () if isinstance(one, Mapping)}


def _replicated_jobs(metadata: meta_v1.ObjectMeta, spec: Tree, succeeded: Mapping[Any, int]) -> list[_ReplicatedJob]:
    """What is left of a JobSet. Raises MalformedGroup."""
    given = spec.get("replicatedJobs") or ()
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise MalformedGroup("spec.replicatedJobs: must be a list")
    order = _mapping(spec.get("startupPolicy"), "spec.startupPolicy").get("startupPolicyOrder")
    found = []
    for position, one in enumerate(given):
        path = f"spec.replicatedJobs[{position}]"
        job = _mapping(one, path)
        template = _mapping(job.get("template"), f"{path}.template")
        annotations = {
            **_mapping(_mapping(template.get("metadata"), f"{path}.template.metadata").get("annotations"), path),
            **metadata.annotations,
        }
        job_spec = _mapping(template.get("spec"), f"{path}.template.spec")
        parallelism = _count(job_spec, "parallelism", f"{path}.template.spec")
        completions = job_spec.get("completions")
        if completions is not None:
            parallelism = min(parallelism, _count(job_spec, "completions", f"{path}.template.spec"))
        found.append(
            _ReplicatedJob(
                jobs=max(_count(job, "replicas", path) - succeeded.get(job.get("name"), 0), 0),
                pods=parallelism,
                is_late=bool(job.get("dependsOn")) or (order == "InOrder" and position > 0),
                is_exclusive=EXCLUSIVE_TOPOLOGY in annotations and NODE_SELECTOR not in annotations,
                requests=_requests(job_spec, f"{path}.template.spec"),
            )
        )
    return found


def _requests(job_spec: Tree, path: str) -> dict[str, int]:
    """What a pod of a job asks for, in the units of the scheduler's columns. Raises MalformedGroup."""
    pod = _mapping(_mapping(job_spec.get("template"), f"{path}.template").get("spec"), f"{path}.template.spec")
    try:
        resources = ResourceTable()
        _, accounted = amounts_of(from_tree(core_v1.PodSpec, pod), resources)
    except (DecodeError, ValueError) as error:
        raise MalformedGroup(f"{path}.template.spec: {error}") from error
    return {resources.names[column]: amount for column, amount in accounted.requests}


def _mapping(value: Any, path: str) -> Tree:
    """An object, empty if it is missing. Raises MalformedGroup."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedGroup(f"{path}: must be an object")
    return value


def _count(tree: Tree, key: str, path: str) -> int:
    """A whole number that is not negative, 1 if it is missing. Raises MalformedGroup."""
    value = tree.get(key, 1)
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MalformedGroup(f"{path}.{key}: {value!r} must be a whole number that is not negative")
    return value
