"""Pod groups and composite groups of Kubernetes 1.37 in the form of 1.36, which the scheduler works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bayplan.api.codec import from_tree
from bayplan.api.conversions import pod_groups as conversion
from bayplan.api.types import scheduling_v1alpha2, scheduling_v1alpha3, scheduling_v1beta1
from bayplan.scheduler.snapshot.group_trees import CompositeGroup, NewerPodGroup

_NEVER: Final = "Never"
_NEWER_VERSIONS: Final = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3")


def read_group(obj: Any, *, has_trees: bool) -> scheduling_v1alpha2.PodGroup:
    """A pod group of any version, as plain data or as an object. Raises DecodeError."""
    if isinstance(obj, Mapping):
        is_newer = obj.get("apiVersion") in _NEWER_VERSIONS
        obj = from_tree(scheduling_v1beta1.PodGroup if is_newer else scheduling_v1alpha2.PodGroup, obj)
    if isinstance(obj, scheduling_v1alpha3.PodGroup):
        obj = conversion.from_v1alpha3(obj)
    if isinstance(obj, scheduling_v1beta1.PodGroup):
        return group_from(obj, has_trees=has_trees)
    if conversion.has_kept(obj.metadata):
        return group_from(conversion.group_to_v1beta1(obj), has_trees=has_trees)
    group: scheduling_v1alpha2.PodGroup = obj
    return group


def read_composite(obj: Any) -> CompositeGroup:
    """A composite group, as plain data or as an object. Raises DecodeError, ValueError."""
    typed = from_tree(scheduling_v1alpha3.CompositePodGroup, obj) if isinstance(obj, Mapping) else obj
    return composite_from(typed)


def group_from(group: scheduling_v1beta1.PodGroup, *, has_trees: bool) -> NewerPodGroup:
    """A pod group of `v1beta1`. has_trees: whether groups are part of trees at all. Its conditions are those of 1.37."""
    older = conversion.group_to_v1alpha2(group)
    spec = group.spec
    return NewerPodGroup(
        metadata=group.metadata,
        spec=older.spec,
        status=msgspec.structs.replace(older.status, conditions=group.status.conditions),
        parent=_parent(group, spec) if has_trees else "",
        preempts=spec.preemption_policy != _NEVER,
    )


def composite_from(group: scheduling_v1alpha3.CompositePodGroup) -> CompositeGroup:
    """A composite group. Raises ValueError."""
    spec = group.spec
    gang = spec.scheduling_policy.gang
    needed = gang.min_group_count if gang is not None else 0
    if needed < 0:
        raise ValueError(f"spec.schedulingPolicy.gang.minGroupCount: {needed!r} must be a whole number of at least 1")
    constraints = spec.scheduling_constraints
    is_whole = spec.disruption_mode is not None and spec.disruption_mode.all is not None
    older = scheduling_v1alpha2.PodGroup(
        metadata=group.metadata,
        spec=scheduling_v1alpha2.PodGroupSpec(
            scheduling_constraints=scheduling_v1alpha2.PodGroupSchedulingConstraints(
                topology=tuple(scheduling_v1alpha2.TopologyConstraint(key=one.key) for one in constraints.topology)
            )
            if constraints is not None
            else None,
            disruption_mode="PodGroup" if is_whole else "Pod",
            priority_class_name=spec.priority_class_name,
            priority=spec.priority,
        ),
        status=scheduling_v1alpha2.PodGroupStatus(conditions=group.status.conditions),
    )
    return CompositeGroup(older, _parent(group, spec), needed, spec.preemption_policy != _NEVER)


def _parent(group: Any, spec: Any) -> str:
    name = spec.parent_composite_pod_group_name
    return f"{group.metadata.namespace}/{name}" if name else ""
