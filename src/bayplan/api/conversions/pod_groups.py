"""Pod groups and workloads between `scheduling.k8s.io/v1alpha2` of Kubernetes 1.36 and `v1beta1` and `v1alpha3` of 1.37.

Objects are kept in v1alpha2, as by servers of 1.36. What that cannot say (parents, policies of preemption, templates of composite groups) travels in
an annotation, as autoscalers carry in autoscaling/v1 what only v2 knows; the newer versions do not show it. v1beta1 and v1alpha3 have the same form.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import meta_v1, scheduling_v1alpha2, scheduling_v1alpha3, scheduling_v1beta1

KEPT: Final = "bayplan.dev/scheduling-v1beta1"
"""Annotation of objects in v1alpha2: the fields of the specification in v1beta1 that v1alpha2 cannot say, as JSON."""
KEPT_PATH: Final = f"metadata.annotations[{KEPT}]"
SCHEDULED: Final = "PodGroupScheduled"
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The same condition in 1.37."""
_replace = msgspec.structs.replace

Spec = scheduling_v1beta1.PodGroupSpec | scheduling_v1beta1.WorkloadSpec
Older = scheduling_v1alpha2.PodGroup | scheduling_v1alpha2.Workload
Newer = scheduling_v1beta1.PodGroup | scheduling_v1beta1.Workload


class KeptError(ValueError):
    """The annotation does not hold what it should. The text says why."""


def group_to_v1beta1(group: scheduling_v1alpha2.PodGroup) -> scheduling_v1beta1.PodGroup:
    """The same pod group in v1beta1. An annotation that cannot be read counts as absent."""
    metadata, kept = _taken_out(group.metadata)
    return scheduling_v1beta1.PodGroup(
        metadata=metadata,
        spec=_with_kept(_group_spec(group.spec), kept),
        status=scheduling_v1beta1.PodGroupStatus(
            conditions=_renamed(group.status.conditions, SCHEDULED, INITIALLY_SCHEDULED),
            resource_claim_statuses=_as(
                group.status.resource_claim_statuses, tuple[scheduling_v1beta1.PodGroupResourceClaimStatus, ...]
            ),
        ),
    )


def group_to_v1alpha2(group: scheduling_v1beta1.PodGroup) -> scheduling_v1alpha2.PodGroup:
    """The same pod group in v1alpha2."""
    spec = group.spec
    reference = spec.workload_ref
    older = scheduling_v1alpha2.PodGroupSpec(
        pod_group_template_ref=scheduling_v1alpha2.PodGroupTemplateReference(
            workload=scheduling_v1alpha2.WorkloadPodGroupTemplateReference(
                workload_name=reference.workload_name, pod_group_template_name=reference.template_name
            )
        )
        if reference is not None
        else None,
        **_older_parts(spec),
    )
    return scheduling_v1alpha2.PodGroup(
        metadata=_with_annotation(group.metadata, spec, _group_spec(older)),
        spec=older,
        status=scheduling_v1alpha2.PodGroupStatus(
            conditions=_renamed(group.status.conditions, INITIALLY_SCHEDULED, SCHEDULED),
            resource_claim_statuses=_as(
                group.status.resource_claim_statuses, tuple[scheduling_v1alpha2.PodGroupResourceClaimStatus, ...]
            ),
        ),
    )


def workload_to_v1beta1(workload: scheduling_v1alpha2.Workload) -> scheduling_v1beta1.Workload:
    """The same workload in v1beta1. An annotation that cannot be read counts as absent."""
    metadata, kept = _taken_out(workload.metadata)
    return scheduling_v1beta1.Workload(metadata=metadata, spec=_with_kept(_workload_spec(workload.spec), kept))


def workload_to_v1alpha2(workload: scheduling_v1beta1.Workload) -> scheduling_v1alpha2.Workload:
    """The same workload in v1alpha2."""
    spec = workload.spec
    templates = tuple(
        scheduling_v1alpha2.PodGroupTemplate(
            name=one.name,
            **_older_parts(one),
        )
        for one in spec.pod_group_templates
    )
    older = scheduling_v1alpha2.WorkloadSpec(
        controller_ref=_as(spec.controller_ref, scheduling_v1alpha2.TypedLocalObjectReference | None),
        pod_group_templates=templates,
    )
    return scheduling_v1alpha2.Workload(
        metadata=_with_annotation(workload.metadata, spec, _workload_spec(older)), spec=older
    )


def to_v1beta1(obj: Older) -> Newer:
    """A pod group or workload of v1alpha2 in v1beta1."""
    return group_to_v1beta1(obj) if isinstance(obj, scheduling_v1alpha2.PodGroup) else workload_to_v1beta1(obj)


def from_v1beta1(obj: Newer) -> Older:
    """A pod group or workload of v1beta1 in v1alpha2."""
    return group_to_v1alpha2(obj) if isinstance(obj, scheduling_v1beta1.PodGroup) else workload_to_v1alpha2(obj)


def to_v1alpha3(obj: Older) -> scheduling_v1alpha3.PodGroup | scheduling_v1alpha3.Workload:
    """A pod group or workload of v1alpha2 in v1alpha3."""
    newer = to_v1beta1(obj)
    if isinstance(newer, scheduling_v1beta1.PodGroup):
        return scheduling_v1alpha3.PodGroup(
            metadata=newer.metadata,
            spec=_as(newer.spec, scheduling_v1alpha3.PodGroupSpec),
            status=_as(newer.status, scheduling_v1alpha3.PodGroupStatus),
        )
    return scheduling_v1alpha3.Workload(metadata=newer.metadata, spec=_as(newer.spec, scheduling_v1alpha3.WorkloadSpec))


def from_v1alpha3(obj: scheduling_v1alpha3.PodGroup | scheduling_v1alpha3.Workload) -> Older:
    """A pod group or workload of v1alpha3 in v1alpha2."""
    if isinstance(obj, scheduling_v1alpha3.PodGroup):
        return group_to_v1alpha2(
            scheduling_v1beta1.PodGroup(
                metadata=obj.metadata,
                spec=_as(obj.spec, scheduling_v1beta1.PodGroupSpec),
                status=_as(obj.status, scheduling_v1beta1.PodGroupStatus),
            )
        )
    return workload_to_v1alpha2(
        scheduling_v1beta1.Workload(metadata=obj.metadata, spec=_as(obj.spec, scheduling_v1beta1.WorkloadSpec))
    )


def has_kept(metadata: meta_v1.ObjectMeta) -> bool:
    """Whether an object in v1alpha2 has something that only the newer versions can say."""
    return KEPT in metadata.annotations


def kept(obj: Older) -> str | None:
    """The annotation of an object in v1alpha2; None if there is none."""
    return obj.metadata.annotations.get(KEPT)


def check_kept(obj: Older) -> None:
    """Raises KeptError if the annotation, where there is one, cannot be read."""
    text = obj.metadata.annotations.get(KEPT)
    if text is None:
        return
    is_group = isinstance(obj, scheduling_v1alpha2.PodGroup)
    _read(text, scheduling_v1beta1.PodGroupSpec if is_group else scheduling_v1beta1.WorkloadSpec)


def _group_spec(spec: scheduling_v1alpha2.PodGroupSpec) -> scheduling_v1beta1.PodGroupSpec:
    reference = spec.pod_group_template_ref
    workload = reference.workload if reference is not None else None
    return scheduling_v1beta1.PodGroupSpec(
        workload_ref=scheduling_v1beta1.WorkloadReference(
            workload_name=workload.workload_name, template_name=workload.pod_group_template_name
        )
        if workload is not None
        else None,
        **_newer_parts(spec),
    )


def _workload_spec(spec: scheduling_v1alpha2.WorkloadSpec) -> scheduling_v1beta1.WorkloadSpec:
    templates = tuple(
        scheduling_v1beta1.PodGroupTemplate(
            name=one.name,
            **_newer_parts(one),
        )
        for one in spec.pod_group_templates
    )
    return scheduling_v1beta1.WorkloadSpec(
        controller_ref=_as(spec.controller_ref, scheduling_v1beta1.TypedLocalObjectReference | None),
        pod_group_templates=templates,
    )


def _older_parts(of: scheduling_v1beta1.PodGroupSpec | scheduling_v1beta1.PodGroupTemplate) -> dict[str, Any]:
    """What groups and templates of groups have in common, in v1alpha2."""
    return {**_parts(of, scheduling_v1alpha2), "disruption_mode": _older_mode(of.disruption_mode)}


def _newer_parts(of: scheduling_v1alpha2.PodGroupSpec | scheduling_v1alpha2.PodGroupTemplate) -> dict[str, Any]:
    """The same in v1beta1."""
    return {**_parts(of, scheduling_v1beta1), "disruption_mode": _newer_mode(of.disruption_mode)}


def _parts(of: Any, version: Any) -> dict[str, Any]:
    """Those that both versions have in the same form. version: the module with the types of the version that is wanted."""
    return {
        "scheduling_policy": _as(of.scheduling_policy, version.PodGroupSchedulingPolicy),
        "scheduling_constraints": _as(of.scheduling_constraints, version.PodGroupSchedulingConstraints | None),
        "resource_claims": _as(of.resource_claims, tuple[version.PodGroupResourceClaim, ...]),
        "priority_class_name": of.priority_class_name,
        "priority": of.priority,
    }


def _older_mode(mode: scheduling_v1beta1.DisruptionMode | None) -> str | None:
    if mode is None:
        return None
    return "PodGroup" if mode.all is not None else "Pod"


def _newer_mode(mode: str | None) -> scheduling_v1beta1.DisruptionMode | None:
    if mode is None:
        return None
    if mode == "PodGroup":
        return scheduling_v1beta1.DisruptionMode(all=scheduling_v1beta1.AllDisruptionMode())
    return scheduling_v1beta1.DisruptionMode(single=scheduling_v1beta1.SingleDisruptionMode())


def _as(value: Any, wanted: Any) -> Any:
    """A part that both versions have in the same form."""
    return msgspec.convert(value, wanted, from_attributes=True)


def _renamed(conditions: tuple[meta_v1.Condition, ...], old: str, new: str) -> tuple[meta_v1.Condition, ...]:
    types = {one.type for one in conditions}
    if old not in types or new in types:
        return conditions
    return tuple(_replace(one, type=new) if one.type == old else one for one in conditions)


# The annotation


def _taken_out(metadata: meta_v1.ObjectMeta) -> tuple[meta_v1.ObjectMeta, str | None]:
    text = metadata.annotations.get(KEPT)
    if text is None:
        return metadata, None
    return _without(metadata), text


def _without(metadata: meta_v1.ObjectMeta) -> meta_v1.ObjectMeta:
    return _replace(metadata, annotations={key: value for key, value in metadata.annotations.items() if key != KEPT})


def _with_annotation(metadata: meta_v1.ObjectMeta, spec: Spec, told: Spec) -> meta_v1.ObjectMeta:
    """Metadata with an annotation for those fields of a specification that differ from what v1alpha2 has told; what the user wrote there does not count."""
    kept = {
        wire: getattr(spec, name)
        for name, wire in zip(spec.__struct_fields__, spec.__struct_encode_fields__, strict=True)
        if getattr(spec, name) != getattr(told, name)
    }
    if not kept:
        return _without(metadata) if KEPT in metadata.annotations else metadata
    return _replace(metadata, annotations={**metadata.annotations, KEPT: encode(kept).decode()})


def _with_kept(spec: Any, text: str | None) -> Any:
    if text is None:
        return spec
    try:
        return _replace(spec, **_read(text, type(spec)))
    except KeptError:
        return spec


def _read(text: str, wanted: type[Spec]) -> dict[str, Any]:
    """The fields that an annotation holds: attribute -> value. Raises KeptError."""
    try:
        said = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        found = msgspec.json.decode(text, type=wanted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise KeptError(str(error)) from error
    names = dict(zip(wanted.__struct_encode_fields__, wanted.__struct_fields__, strict=True))
    unknown = sorted(said.keys() - names.keys())
    if unknown:
        raise KeptError(f"unknown field {unknown[0]!r}")
    return {names[wire]: getattr(found, names[wire]) for wire in said}
