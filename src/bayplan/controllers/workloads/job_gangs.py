"""Jobs whose pods all run at once as gangs: a Workload and a PodGroup for each, to which its pods belong.

What a Job gets is decided by functions of data; `JobGangs` finds and creates it. Off unless the feature gates GenericWorkload and
WorkloadWithJob are on and the server has the kinds (`--runtime-config scheduling.k8s.io/v1alpha2=true`, or `v1beta1`). A Job that is not new, or whose
Workload or PodGroup is not its own, is scheduled pod by pod.

Source of the behaviour: KEP-5547 and kube-controller-manager 1.36 (`job_scheduling_manager.go`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.conversions import pod_groups as conversion
from bayplan.api.errors import ApiError
from bayplan.api.feature_gates import WORKLOAD_WITH_JOB
from bayplan.api.kinds import KindTable
from bayplan.api.optional_kinds import NEWER_POD_GROUP, NEWER_WORKLOAD, POD_GROUP, WORKLOAD
from bayplan.api.types import batch_v1, core_v1, meta_v1, scheduling_v1beta1
from bayplan.api.types import scheduling_v1alpha2 as scheduling
from bayplan.client import Client
from bayplan.controllers.base import ControllerContext, controller_of, owner_reference
from bayplan.controllers.workloads import job_rules
from bayplan.support.randomness import SAFE_ALPHABET

logger = logging.getLogger(__name__)

PREFERRED_TOPOLOGY: Final = "bayplan.dev/preferred-topology"
"""Annotation of a Job that its PodGroup gets as well, where the scheduler reads it."""
_NEWER: Final[dict[Any, type[Any]]] = {
    scheduling.Workload: scheduling_v1beta1.Workload,
    scheduling.PodGroup: scheduling_v1beta1.PodGroup,
}
_LONGEST: Final = 253
_PRIME, _BASIS = 16777619, 2166136261


def is_gang(job: batch_v1.Job) -> bool:
    """Whether all pods of a Job run at once, as its indexes, and it says nothing of a group itself."""
    spec = job.spec
    return (
        spec.parallelism is not None
        and spec.parallelism > 1
        and job_rules.is_indexed(job)
        and spec.completions == spec.parallelism
        and spec.template.spec.scheduling_group is None
    )


def is_new(job: batch_v1.Job, pods: Sequence[core_v1.Pod]) -> bool:
    """Whether a Job has never been started: others do not become gangs."""
    status = job.status
    has_begun = pods or status.start_time or status.succeeded or status.failed
    return not has_begun and all(one.type != job_rules.SUSPENDED for one in status.conditions)


def workload_of(job: batch_v1.Job) -> scheduling.Workload:
    """The Workload that a Job gets: one template for all of its pods."""
    name = job.metadata.name
    policy = scheduling.PodGroupSchedulingPolicy(
        gang=scheduling.GangSchedulingPolicy(min_count=job.spec.parallelism or 0)
    )
    return scheduling.Workload(
        metadata=meta_v1.ObjectMeta(
            name=workload_name(name, job.metadata.uid),
            namespace=job.metadata.namespace,
            owner_references=(owner_reference("batch/v1", "Job", job),),
        ),
        spec=scheduling.WorkloadSpec(
            controller_ref=scheduling.TypedLocalObjectReference(api_group="batch", kind="Job", name=name),
            pod_group_templates=(scheduling.PodGroupTemplate(name=f"{name}-pgt-0", scheduling_policy=policy),),
        ),
    )


def pod_group_of(job: batch_v1.Job, workload: scheduling.Workload) -> scheduling.PodGroup:
    """The PodGroup that a Job gets, by the first template of its Workload."""
    template = workload.spec.pod_group_templates[0]
    preferred = job.metadata.annotations.get(PREFERRED_TOPOLOGY)
    reference = scheduling.WorkloadPodGroupTemplateReference(
        workload_name=workload.metadata.name, pod_group_template_name=template.name
    )
    return scheduling.PodGroup(
        metadata=meta_v1.ObjectMeta(
            name=pod_group_name(workload.metadata.name, template.name),
            namespace=job.metadata.namespace,
            annotations={PREFERRED_TOPOLOGY: preferred} if preferred else {},
            owner_references=(
                owner_reference("batch/v1", "Job", job),
                meta_v1.OwnerReference(
                    api_version=WORKLOAD.api_version,
                    kind=WORKLOAD.kind,
                    name=workload.metadata.name,
                    uid=workload.metadata.uid,
                ),
            ),
        ),
        spec=scheduling.PodGroupSpec(
            pod_group_template_ref=scheduling.PodGroupTemplateReference(workload=reference),
            scheduling_policy=template.scheduling_policy,
        ),
    )


def workload_name(job: str, uid: str) -> str:
    """The Workload's name: that of the Job, and a hash of its UID."""
    suffix = _hash(f"(types.UID){uid}")
    return f"{job[: _LONGEST - len(suffix) - 1]}-{suffix}"


def pod_group_name(workload: str, template: str) -> str:
    """The PodGroup's name: those of the Workload and the template, shortened evenly where they are too long, and a hash of both."""
    suffix = _hash(workload + template)
    room = _LONGEST - len(suffix) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{suffix}"


def _hash(text: str) -> str:
    """FNV-1a of 32 bits as a decimal number, in the alphabet of generated names."""
    number = _BASIS
    for byte in text.encode():
        number = (number ^ byte) * _PRIME & 0xFFFFFFFF
    return "".join(SAFE_ALPHABET[ord(digit) % len(SAFE_ALPHABET)] for digit in str(number))


class JobGangs:
    """Finds or creates what Jobs need as gangs."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._is_on = WORKLOAD_WITH_JOB in context.settings.feature_gates
        self._client: Client | None = None
        self._is_newer = False
        """Whether the server has not the kinds in `v1alpha2`, but perhaps in `v1beta1`."""
        self._known: dict[str, str] = {}
        """UID of a Job -> the name of its PodGroup."""

    def forget(self, job: batch_v1.Job) -> None:
        """A Job has ended or is gone."""
        self._known.pop(job.metadata.uid, None)

    async def group_of(self, job: batch_v1.Job, pods: Sequence[core_v1.Pod]) -> str:
        """The name of the PodGroup to which a Job's pods belong; empty if they belong to none. Raises ApiError, TransportError."""
        if not self._is_on or not is_gang(job) or job.metadata.deletion_timestamp:
            return ""
        known = self._known.get(job.metadata.uid)
        if known is not None:
            return known
        name = await self._ensure(job, pods)
        if name:
            self._known[job.metadata.uid] = name
        return name

    async def _ensure(self, job: batch_v1.Job, pods: Sequence[core_v1.Pod]) -> str:
        try:
            workload = await self._own(scheduling.Workload, workload_name(job.metadata.name, job.metadata.uid), job)
            if workload is None:
                if not is_new(job, pods):
                    return ""
                workload = await self._create(workload_of(job))
                text = f"Created Workload {workload.metadata.name} for Job {job.metadata.name}"
                self._context.recorder.event(job, "Normal", "WorkloadCreated", text)
            if len(workload.spec.pod_group_templates) != 1:
                return ""
            wanted = pod_group_of(job, workload)
            group = await self._own(scheduling.PodGroup, wanted.metadata.name, job)
            if group is None:
                group = await self._create(wanted)
        except _NotOurs as error:
            logger.info("job %s/%s: %s", job.metadata.namespace, job.metadata.name, error)
            return ""
        return str(group.metadata.name)

    def _typed_client(self) -> Client:
        """A client that knows the kinds, which servers have only if they are told to."""
        if self._client is None:
            kinds = KindTable(self._context.client.kinds)
            for kind in (POD_GROUP, WORKLOAD, NEWER_POD_GROUP, NEWER_WORKLOAD):
                if kinds.of_kind(kind.api_version, kind.kind) is None:
                    kinds.add(kind)
            self._client = Client(self._context.client.transport, kinds)
        return self._client

    async def _own(self, cls: type[Any], name: str, job: batch_v1.Job) -> Any:
        """An object of that name that the Job controls; None if there is none. Raises _NotOurs for another one, ApiError."""
        found = await self._found(cls, name, job.metadata.namespace)
        if found is None:
            return None
        owner = controller_of(found)
        if owner is None or owner.uid != job.metadata.uid:
            raise _NotOurs(f"{cls.__name__} {name} is not owned by this Job, its pods are scheduled one by one")
        return found

    async def _found(self, cls: type[Any], name: str, namespace: str) -> Any:
        """An object in `v1alpha2`; None if there is none. Finds out which version the server has. Raises ApiError."""
        try:
            if self._is_newer:
                return conversion.from_v1beta1(await self._typed_client().get(_NEWER[cls], name, namespace))
            return await self._typed_client().get(cls, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            if self._is_newer or (error.status.details is not None and error.status.details.name):
                return None
        self._is_newer = True
        return await self._found(cls, name, namespace)

    async def _create(self, obj: Any) -> Any:
        try:
            if self._is_newer:
                return conversion.from_v1beta1(await self._typed_client().create(conversion.to_v1beta1(obj)))
            return await self._typed_client().create(obj)
        except ApiError as error:
            if error.code == 404:
                raise _NotOurs(f"the server has no {type(obj).__name__}, its pods are scheduled one by one") from error
            raise


class _NotOurs(Exception):
    """What a gang needs is not to be had."""
