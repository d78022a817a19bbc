"""PodGroupProtection, PodGroupWorkloadExists and JobValidation: what pod groups need, and what they forbid.

Source: Kubernetes' `plugin/pkg/admission/scheduling/podgroupprotection`, `podgroup` and `job`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bayplan.api.conversions.pod_groups import workload_to_v1beta1
from bayplan.api.errors import ApiError, forbidden_error, quoted
from bayplan.api.kinds import Kind
from bayplan.api.optional_kinds import POD_GROUP, POD_GROUP_FINALIZER, WORKLOAD
from bayplan.api.types import batch_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest


def _is_pod_group(kind: Kind) -> bool:
    return kind.storage_prefix == POD_GROUP.storage_prefix and not kind.is_custom


def _refused(request: AdmissionRequest, text: str) -> ApiError:
    return forbidden_error(request.kind.plural, request.kind.group, request.name, text)


class PodGroupProtection(AdmissionPlugin):
    """A group is not deleted while pods use it; a finalizer holds it back, which a controller takes away."""

    name = "PodGroupProtection"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return _is_pod_group(kind) and operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the finalizer."""
        metadata = request.obj.metadata
        if POD_GROUP_FINALIZER not in metadata.finalizers:
            metadata.finalizers = (*metadata.finalizers, POD_GROUP_FINALIZER)


class PodGroupWorkloadExists(AdmissionPlugin):
    """The template from which a group says that it is made must be there."""

    name = "PodGroupWorkloadExists"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return _is_pod_group(kind) and operation == CREATE and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the group."""
        reference = request.obj.spec.pod_group_template_ref
        if reference is None or reference.workload is None:
            return
        name, template = reference.workload.workload_name, reference.workload.pod_group_template_name
        cache = request.call.context.objects.cache(WORKLOAD)
        entry = cache.get(request.namespace, name)
        if entry is None:
            raise _refused(request, f"PodGroup rejected: Workload {quoted(name)} not found")
        workload = cache.shared(entry)
        if workload.metadata.deletion_timestamp:
            raise _refused(request, f"PodGroup rejected: Workload {quoted(name)} is being deleted")
        if template not in _template_names([workload_to_v1beta1(workload).spec]):
            text = f"PodGroup rejected: PodGroupTemplate {quoted(template)} not found in Workload {quoted(name)}"
            raise _refused(request, text)


def _template_names(holders: Iterable[Any]) -> Iterator[str]:
    """The names of templates of groups in a workload, and in its templates of composite groups."""
    for holder in holders:
        yield from (one.name for one in holder.pod_group_templates)
        yield from _template_names(holder.composite_pod_group_templates)


class JobValidation(AdmissionPlugin):
    """How many pods of a Job run at once does not change while they are a gang."""

    name = "JobValidation"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Job" and kind.group == "batch" and operation == UPDATE and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the change."""
        context, old = request.call.context, request.old
        if request.obj.spec.parallelism == old.spec.parallelism or not any(map(_is_pod_group, context.kinds)):
            return
        for group in _groups_of(request, old):
            if group.spec.scheduling_policy.gang is not None:
                name = quoted(group.metadata.name)
                text = f"cannot change parallelism for a Job referencing gang-scheduled PodGroup {name}"
                raise _refused(request, text)


def _groups_of(request: AdmissionRequest, job: batch_v1.Job) -> Iterator[Any]:
    """The group that a Job's pods name, or else those that the Job controls."""
    cache, namespace = request.call.context.objects.cache(POD_GROUP), job.metadata.namespace
    named = job.spec.template.spec.scheduling_group
    if named is not None and named.pod_group_name:
        entry = cache.get(namespace, named.pod_group_name)
        if entry is not None:
            yield cache.shared(entry)
        return
    for entry in cache.ordered(namespace):
        group = cache.shared(entry)
        if any(one.controller and one.uid == job.metadata.uid for one in group.metadata.owner_references):
            yield group
