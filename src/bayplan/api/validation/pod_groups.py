"""Rules of pod groups and the workloads that hold templates of them, as Kubernetes 1.36 has them (`v1alpha2`); some are those of newer versions as well.

Source: the validation tags of `k8s.io/api/scheduling/v1alpha2`. A field that an update leaves as it is is not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from bayplan.api.errors import duplicate, invalid, required, too_many
from bayplan.api.feature_gates import TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation.fields import Errors, check_format, check_one_of, repeats
from bayplan.api.validation.values import formats

MOST_TEMPLATES = 8
MOST_KEYS = 1
MOST_CLAIMS = 4
HIGHEST_PRIORITY = 1_000_000_000
DISRUPTION_MODES = ("Pod", "PodGroup")

Gated = scheduling_v1alpha2.PodGroupSpec | scheduling_v1alpha2.PodGroupTemplate
"""What has fields of feature gates."""


def apply_gates(spec: Gated, old: Gated | None, gates: Collection[str]) -> None:
    """Take out fields of gates that are off, unless the object before has them."""
    if TOPOLOGY_AWARE not in gates and (old is None or old.scheduling_constraints is None):
        spec.scheduling_constraints = None
    if WORKLOAD_PREEMPTION in gates:
        return
    if old is None or old.disruption_mode is None:
        spec.disruption_mode = None
        if isinstance(spec, scheduling_v1alpha2.PodGroupSpec):
            spec.disruption_mode = DISRUPTION_MODES[0]  # the default, which is filled in whenever the group is read
    if old is None or not old.priority_class_name:
        spec.priority_class_name = ""
    if old is None or old.priority is None:
        spec.priority = None


def check_group(
    errors: Errors, spec: scheduling_v1alpha2.PodGroupSpec, old: scheduling_v1alpha2.PodGroupSpec | None
) -> None:
    """A pod group's specification, new or changed: nothing of it may change."""
    if not _is_settled(errors, "spec.podGroupTemplateRef", spec, old, "pod_group_template_ref"):
        _check_reference(errors, "spec.podGroupTemplateRef", spec.pod_group_template_ref)
    if not _is_settled(errors, "spec.schedulingPolicy", spec, old, "scheduling_policy"):
        check_policy(errors, "spec.schedulingPolicy", spec.scheduling_policy)
    if not _is_settled(errors, "spec.schedulingConstraints", spec, old, "scheduling_constraints"):
        check_topology(errors, "spec", spec)
    if not _is_settled(errors, "spec.resourceClaims", spec, old, "resource_claims"):
        check_claims(errors, "spec.resourceClaims", spec.resource_claims)
    if not _is_settled(errors, "spec.disruptionMode", spec, old, "disruption_mode"):
        _check_mode(errors, "spec.disruptionMode", spec.disruption_mode)
    if not _is_settled(errors, "spec.priorityClassName", spec, old, "priority_class_name"):
        _check_class(errors, "spec.priorityClassName", spec.priority_class_name)
    if not _is_settled(errors, "spec.priority", spec, old, "priority"):
        _check_value(errors, "spec.priority", spec.priority)


def check_workload(
    errors: Errors, spec: scheduling_v1alpha2.WorkloadSpec, old: scheduling_v1alpha2.WorkloadSpec | None
) -> None:
    """A workload's specification, new or changed: nothing of it may change."""
    if not _is_settled(errors, "spec.controllerRef", spec, old, "controller_ref") and spec.controller_ref is not None:
        check_controller(errors, "spec.controllerRef", spec.controller_ref)
    path, count = "spec.podGroupTemplates", len(errors)
    if old is not None and spec.pod_group_templates == old.pod_group_templates:
        return
    if old is not None:
        errors.append(invalid(path, None, "field is immutable"))
    if len(spec.pod_group_templates) > MOST_TEMPLATES:
        errors.append(too_many(path, len(spec.pod_group_templates), MOST_TEMPLATES))
    if not spec.pod_group_templates:
        errors.append(required(path))
    if len(errors) == count:
        check_once(errors, path, spec.pod_group_templates)
        for index, template in enumerate(spec.pod_group_templates):
            _check_template(errors, f"{path}[{index}]", template)


def _is_settled(errors: Errors, path: str, spec: Any, old: Any, attribute: str) -> bool:
    """Whether a field that never changes needs no look: it was there before, and was changed, which is told, or not."""
    if old is None:
        return False
    if getattr(spec, attribute) != getattr(old, attribute):
        errors.append(invalid(path, None, "field is immutable"))
    return True


def _check_reference(
    errors: Errors, path: str, reference: scheduling_v1alpha2.PodGroupTemplateReference | None
) -> None:
    if reference is None:
        return
    workload = reference.workload
    check_union(errors, path, ["workload"] if workload is not None else [], ("workload",))
    if workload is not None:
        check_needed(errors, f"{path}.workload.workloadName", workload.workload_name, formats.long_name)
        name = workload.pod_group_template_name
        check_needed(errors, f"{path}.workload.podGroupTemplateName", name, formats.dns_label)


def _check_template(errors: Errors, path: str, template: scheduling_v1alpha2.PodGroupTemplate) -> None:
    check_needed(errors, f"{path}.name", template.name, formats.dns_label)
    check_policy(errors, f"{path}.schedulingPolicy", template.scheduling_policy)
    check_topology(errors, path, template)
    check_claims(errors, f"{path}.resourceClaims", template.resource_claims)
    _check_mode(errors, f"{path}.disruptionMode", template.disruption_mode)
    _check_class(errors, f"{path}.priorityClassName", template.priority_class_name)
    _check_value(errors, f"{path}.priority", template.priority)


def _check_mode(errors: Errors, path: str, mode: str | None) -> None:
    if mode is not None:
        check_one_of(errors, path, mode, DISRUPTION_MODES, needed=False)


def _check_class(errors: Errors, path: str, name: str) -> None:
    if name:
        check_format(errors, path, name, formats.long_name)


def _check_value(errors: Errors, path: str, priority: int | None) -> None:
    if priority is not None and priority > HIGHEST_PRIORITY:
        errors.append(invalid(path, priority, f"must be less than or equal to {HIGHEST_PRIORITY}"))


def check_controller(errors: Errors, path: str, reference: Any) -> None:
    """The object that a workload belongs to. reference: of any version."""
    if reference.api_group:
        check_format(errors, f"{path}.apiGroup", reference.api_group, formats.long_name)
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        check_needed(errors, f"{path}.{name}", value, formats.path_segment)


def check_topology(errors: Errors, path: str, spec: Any) -> None:
    """One topology key at most. spec: of any version."""
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints is not None else ()
    where = f"{path}.schedulingConstraints.topology"
    if len(topology) > MOST_KEYS:
        errors.append(too_many(where, len(topology), MOST_KEYS))
        return
    for index, constraint in enumerate(topology):
        check_needed(errors, f"{where}[{index}].key", constraint.key, formats.label_key)


def check_priority(errors: Errors, path: str, spec: Any) -> None:
    """A priority that users may have. spec: of any version."""
    _check_class(errors, f"{path}.priorityClassName", spec.priority_class_name)
    _check_value(errors, f"{path}.priority", spec.priority)


def check_policy(errors: Errors, path: str, policy: Any) -> None:
    """Exactly one policy; a gang has at least one pod. policy: of any version."""
    check_members(errors, path, policy, ("basic", "gang"))
    if policy.gang is not None:
        check_least(errors, f"{path}.gang.minCount", policy.gang.min_count)


def check_least(errors: Errors, path: str, count: int) -> None:
    """How many of something there have to be: at least one."""
    if not count:
        errors.append(required(path))
    elif count < 1:
        errors.append(invalid(path, count, "must be greater than or equal to 1"))


def check_claims(errors: Errors, path: str, claims: Sequence[Any]) -> None:
    """Claims that the pods of a group share. claims: of any version."""
    if len(claims) > MOST_CLAIMS:
        errors.append(too_many(path, len(claims), MOST_CLAIMS))
        return
    check_once(errors, path, claims)
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        named = {
            "resourceClaimName": claim.resource_claim_name,
            "resourceClaimTemplateName": claim.resource_claim_template_name,
        }
        check_union(errors, where, [name for name, value in named.items() if value is not None], tuple(named))
        check_needed(errors, f"{where}.name", claim.name, formats.dns_label)
        for name, value in named.items():
            if value is not None:
                check_format(errors, f"{where}.{name}", value, formats.long_name)


def check_members(errors: Errors, path: str, value: Any, members: tuple[str, ...]) -> None:
    """Exactly one member of an object is there."""
    check_union(errors, path, [name for name in members if getattr(value, name) is not None], members)


def check_union(errors: Errors, path: str, there: Sequence[str], members: tuple[str, ...]) -> None:
    """Exactly one member is there."""
    shown = ", ".join(f"`{name}`" for name in members)
    if not there:
        errors.append(invalid(path, "", f"must specify one of: {shown}"))
    elif len(there) > 1:
        errors.append(invalid(path, "{" + ", ".join(there) + "}", f"must specify exactly one of: {shown}"))


def check_once(errors: Errors, path: str, items: Sequence[Any]) -> None:
    """Items of a list with names of their own."""
    for index in sorted(repeats(item.name for item in items)):
        errors.append(duplicate(f"{path}[{index}]", items[index]))


def check_needed(errors: Errors, path: str, value: str, rule: Callable[[str], formats.Messages]) -> None:
    """A text that there has to be."""
    if value:
        check_format(errors, path, value, rule)
    else:
        errors.append(required(path))
