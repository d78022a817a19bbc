"""Rules of pod groups, composite groups and workloads as Kubernetes 1.37 has them (`v1beta1` and `v1alpha3`, which have the same form).

Source of the behaviour: the validation tags of `k8s.io/api/scheduling/v1beta1` and `pkg/apis/scheduling/validation` of 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from bayplan.api.errors import duplicate, invalid, required, too_many
from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS, POD_GROUP_PREEMPTION_POLICY, TOPOLOGY_AWARE
from bayplan.api.types import scheduling_v1alpha3, scheduling_v1beta1
from bayplan.api.validation.fields import Errors, check_format, check_one_of, check_unchanged
from bayplan.api.validation.pod_groups import (
    MOST_TEMPLATES,
    check_claims,
    check_controller,
    check_least,
    check_members,
    check_needed,
    check_once,
    check_policy,
    check_priority,
    check_topology,
    check_union,
)
from bayplan.api.validation.values import formats

MOST_LEVELS: Final = 4
"""Levels of templates in a workload, those of pod groups included."""
_LISTS: Final = ("podGroupTemplates", "compositePodGroupTemplates")
PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
NOT_SET: Final = "field cannot be set once created"
NOT_CLEARED: Final = "field cannot be cleared once set"
NOT_ADDED: Final = "item cannot be added"
NOT_REMOVED: Final = "item cannot be removed"

PodGroup = scheduling_v1beta1.PodGroup | scheduling_v1alpha3.PodGroup
Workload = scheduling_v1beta1.Workload | scheduling_v1alpha3.Workload
Composite = scheduling_v1alpha3.CompositePodGroup
_CONSTANT: Final = (
    ("parent_composite_pod_group_name", "parentCompositePodGroupName"),
    ("workload_ref", "workloadRef"),
    ("scheduling_constraints", "schedulingConstraints"),
    ("resource_claims", "resourceClaims"),
    ("disruption_mode", "disruptionMode"),
    ("priority_class_name", "priorityClassName"),
    ("priority", "priority"),
    ("preemption_policy", "preemptionPolicy"),
)
"""Fields that never change, of those that a part has."""


# Feature gates


def gate_group(group: PodGroup, old: PodGroup | None, gates: Collection[str]) -> None:
    """Take out of a pod group what feature gates that are off do not allow, unless the group before has it."""
    _gate(group.spec, old.spec if old is not None else None, gates)


def gate_composite(group: Composite, old: Composite | None, gates: Collection[str]) -> None:
    """The same of a composite group."""
    before = old.spec if old is not None else None
    if POD_GROUP_PREEMPTION_POLICY not in gates and (before is None or before.preemption_policy is None):
        group.spec.preemption_policy = None


def gate_workload(workload: Workload, old: Workload | None, gates: Collection[str]) -> None:
    """The same of a workload."""
    spec, before = workload.spec, old.spec if old is not None else None
    if COMPOSITE_POD_GROUPS not in gates and (before is None or not before.composite_pod_group_templates):
        spec.composite_pod_group_templates = ()
    known = {(kind, one.name): one for kind, _, one in _templates(before)} if before is not None else {}
    for kind, _, template in _templates(spec):
        _gate(template, known.get((kind, template.name)), gates)


def _gate(spec: Any, old: Any, gates: Collection[str]) -> None:
    for gate, field in (
        (TOPOLOGY_AWARE, "scheduling_constraints"),
        (COMPOSITE_POD_GROUPS, "parent_composite_pod_group_name"),
        (POD_GROUP_PREEMPTION_POLICY, "preemption_policy"),
    ):
        if gate not in gates and hasattr(spec, field) and (old is None or getattr(old, field) is None):
            setattr(spec, field, None)


# What objects may say


def check_group(errors: Errors, group: PodGroup) -> None:
    """A pod group."""
    spec = group.spec
    _check_name(errors, "spec.parentCompositePodGroupName", spec.parent_composite_pod_group_name)
    _check_reference(errors, spec.workload_ref)
    _check_leaf(errors, "spec", spec)


def check_composite(errors: Errors, group: Composite) -> None:
    """A composite group."""
    spec = group.spec
    _check_name(errors, "spec.parentCompositePodGroupName", spec.parent_composite_pod_group_name)
    if spec.workload_ref is None:
        errors.append(required("spec.workloadRef"))
    _check_reference(errors, spec.workload_ref)
    _check_branch(errors, "spec", spec)


def check_workload(errors: Errors, workload: Workload) -> None:
    """A workload: templates of one sort, of which the composite ones are trees."""
    spec = workload.spec
    reference = spec.controller_ref
    if reference is not None:
        check_controller(errors, "spec.controllerRef", reference)
    if bool(spec.pod_group_templates) == bool(spec.composite_pod_group_templates):
        check_union(errors, "spec", _LISTS if spec.pod_group_templates else (), _LISTS)
    _check_lists(errors, "spec", spec)
    roots: tuple[Any, ...] = spec.composite_pod_group_templates
    for index, template in enumerate(roots):
        if _levels(template) > MOST_LEVELS:
            where = f"spec.compositePodGroupTemplates[{index}]"
            errors.append(invalid(where, template.name, f"maximum template hierarchy depth is {MOST_LEVELS}"))
    if not spec.pod_group_templates:
        _check_names_apart(errors, spec)
    if len({(one.priority_class_name, one.priority) for _, _, one in _templates(spec)}) > 1:
        errors.append(invalid("spec", None, "detected multiple priority configurations"))


def _check_lists(errors: Errors, path: str, holder: Any) -> None:
    lists: tuple[tuple[str, tuple[Any, ...], Callable[[Errors, str, Any], None]], ...] = (
        ("podGroupTemplates", holder.pod_group_templates, _check_leaf),
        ("compositePodGroupTemplates", holder.composite_pod_group_templates, _check_branch),
    )
    for field, templates, check in lists:
        where = f"{path}.{field}"
        if len(templates) > MOST_TEMPLATES:
            errors.append(too_many(where, len(templates), MOST_TEMPLATES))
        check_once(errors, where, templates)
        for index, template in enumerate(templates):
            check_needed(errors, f"{where}[{index}].name", template.name, formats.dns_label)
            check(errors, f"{where}[{index}]", template)


def _check_leaf(errors: Errors, path: str, spec: Any) -> None:
    """A pod group's specification or template."""
    check_policy(errors, f"{path}.schedulingPolicy", spec.scheduling_policy)
    _check_both(errors, path, spec)
    check_claims(errors, f"{path}.resourceClaims", spec.resource_claims)


def _check_branch(errors: Errors, path: str, spec: Any) -> None:
    """A composite group's specification or template."""
    policy = spec.scheduling_policy
    check_members(errors, f"{path}.schedulingPolicy", policy, ("basic", "gang"))
    if policy.gang is not None:
        check_least(errors, f"{path}.schedulingPolicy.gang.minGroupCount", policy.gang.min_group_count)
    _check_both(errors, path, spec)
    if hasattr(spec, "composite_pod_group_templates"):
        _check_lists(errors, path, spec)


def _check_both(errors: Errors, path: str, spec: Any) -> None:
    check_topology(errors, path, spec)
    if spec.disruption_mode is not None:
        check_members(errors, f"{path}.disruptionMode", spec.disruption_mode, ("single", "all"))
    check_priority(errors, path, spec)
    if spec.preemption_policy is not None:
        check_one_of(errors, f"{path}.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES, needed=False)


def _check_reference(errors: Errors, reference: Any) -> None:
    if reference is not None:
        check_needed(errors, "spec.workloadRef.workloadName", reference.workload_name, formats.long_name)
        check_needed(errors, "spec.workloadRef.templateName", reference.template_name, formats.dns_label)


def _check_name(errors: Errors, path: str, value: str | None) -> None:
    if value is not None:
        check_format(errors, path, value, formats.long_name)


def _templates(holder: Any, path: str = "spec", levels: int = MOST_LEVELS) -> Iterator[tuple[str, str, Any]]:
    """All templates of a workload: the list in which they are, its path, the template. No deeper than is allowed."""
    if levels <= 0:
        return
    for field, templates in (
        ("podGroupTemplates", holder.pod_group_templates),
        ("compositePodGroupTemplates", holder.composite_pod_group_templates),
    ):
        for index, template in enumerate(templates):
            yield field, f"{path}.{field}", template
            if field == "compositePodGroupTemplates":
                yield from _templates(template, f"{path}.{field}[{index}]", levels - 1)


def _levels(template: Any) -> int:
    """Levels of a template of a composite group, that of pod groups included."""
    return 1 + max((_levels(one) for one in template.composite_pod_group_templates), default=1)


def _check_names_apart(errors: Errors, spec: Any) -> None:
    """Templates of different lists have different names."""
    lists: dict[str, str] = {}
    for _, path, template in _templates(spec):
        if lists.setdefault(template.name, path) != path:
            errors.append(duplicate(f"{path}.name", template.name))


# What may change


def check_group_update(errors: Errors, group: PodGroup, old: PodGroup) -> None:
    """A gang's `minCount` may change, and nothing else."""
    _check_constant(errors, "spec", group.spec, old.spec)
    _check_policy_update(errors, "spec.schedulingPolicy", group.spec.scheduling_policy, old.spec.scheduling_policy)


def check_composite_update(errors: Errors, group: Composite, old: Composite) -> None:
    """Nothing of the specification may change."""
    _check_constant(errors, "spec", group.spec, old.spec)
    check_unchanged(errors, "spec.schedulingPolicy", group.spec.scheduling_policy, old.spec.scheduling_policy)


def check_workload_update(errors: Errors, workload: Workload, old: Workload) -> None:
    """What gangs need may change, and nothing else."""
    check_unchanged(errors, "spec.controllerRef", workload.spec.controller_ref, old.spec.controller_ref)
    _check_lists_update(errors, "spec", workload.spec, old.spec)


def _check_lists_update(errors: Errors, path: str, holder: Any, old: Any) -> None:
    for field, attribute in (
        ("podGroupTemplates", "pod_group_templates"),
        ("compositePodGroupTemplates", "composite_pod_group_templates"),
    ):
        known = {one.name: one for one in getattr(old, attribute)}
        templates = getattr(holder, attribute)
        for index, template in enumerate(templates):
            where = f"{path}.{field}[{index}]"
            before = known.pop(template.name, None)
            if before is None:
                errors.append(invalid(where, template.name, NOT_ADDED))
                continue
            _check_constant(errors, where, template, before)
            _check_policy_update(
                errors, f"{where}.schedulingPolicy", template.scheduling_policy, before.scheduling_policy
            )
            if field == "compositePodGroupTemplates":
                _check_lists_update(errors, where, template, before)
        errors += [invalid(f"{path}.{field}", name, NOT_REMOVED) for name in known]


def _check_constant(errors: Errors, path: str, spec: Any, old: Any) -> None:
    for attribute, field in _CONSTANT:
        if hasattr(spec, attribute):
            check_unchanged(errors, f"{path}.{field}", getattr(spec, attribute), getattr(old, attribute))


def _check_policy_update(errors: Errors, path: str, policy: Any, old: Any) -> None:
    check_unchanged(errors, f"{path}.basic", policy.basic, old.basic)
    if (policy.gang is None) != (old.gang is None):
        errors.append(invalid(f"{path}.gang", None, NOT_SET if old.gang is None else NOT_CLEARED))
