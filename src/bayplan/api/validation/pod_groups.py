"""Rules of pod groups and the workloads that hold templates of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bayplan.api.errors import invalid, required, too_many
from bayplan.api.feature_gates import TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation import formats
from bayplan.api.validation.fields import Errors, check_format, check_one_of

MOST_TEMPLATES = 8
MOST_KEYS = 1
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
    if old is None or not old.priority_class_name:
        spec.priority_class_name = ""
    if old is None or old.priority is None:
        spec.priority = None


def check_gated(errors: Errors, path: str, spec: Gated) -> None:
    """Fields of feature gates: one topology key at most, a known disruption mode, a priority that users may have."""
    check_topology(errors, path, spec)
    if spec.disruption_mode is not None:
        check_one_of(errors, f"{path}.disruptionMode", spec.disruption_mode, DISRUPTION_MODES)
    check_priority(errors, path, spec)


def check_topology(errors: Errors, path: str, spec: Any) -> None:
    """One topology key at most. spec: of any version."""
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints is not None else ()
    where = f"{path}.schedulingConstraints.topology"
    if len(topology) > MOST_KEYS:
        errors.append(too_many(where, len(topology), MOST_KEYS))
    for index, constraint in enumerate(topology):
        if not constraint.key:
            errors.append(required(f"{where}[{index}].key"))
        else:
            check_format(errors, f"{where}[{index}].key", constraint.key, formats.label_key)


def check_priority(errors: Errors, path: str, spec: Any) -> None:
    """A priority that users may have. spec: of any version."""
    if spec.priority_class_name:
        check_format(errors, f"{path}.priorityClassName", spec.priority_class_name, formats.long_name)
    if spec.priority is not None and spec.priority > HIGHEST_PRIORITY:
        detail = f"must be less than or equal to {HIGHEST_PRIORITY}"
        errors.append(invalid(f"{path}.priority", spec.priority, detail))


def check_policy(errors: Errors, path: str, policy: Any) -> None:
    """Exactly one policy; a gang has at least one pod. policy: of any version."""
    check_union(errors, path, policy, ("basic", "gang"))
    if policy.gang is not None and policy.gang.min_count < 1:
        errors.append(invalid(f"{path}.gang.minCount", policy.gang.min_count, "must be greater than or equal to 1"))


def check_union(errors: Errors, path: str, value: Any, members: tuple[str, ...]) -> None:
    """Exactly one member is there."""
    there = [name for name in members if getattr(value, name) is not None]
    if len(there) != 1:
        shown = ", ".join(f"`{name}`" for name in members)
        errors.append(invalid(path, "{" + ", ".join(there) + "}", f"must specify exactly one of: {shown}"))


def check_templates(errors: Errors, path: str, templates: tuple[scheduling_v1alpha2.PodGroupTemplate, ...]) -> None:
    """At least one, each with a name of its own."""
    if not templates:
        errors.append(required(path, "must have at least one item"))
    if len(templates) > MOST_TEMPLATES:
        errors.append(invalid(path, len(templates), f"must have at most {MOST_TEMPLATES} items"))
    seen: set[str] = set()
    for index, template in enumerate(templates):
        where = f"{path}[{index}]"
        if not template.name:
            errors.append(required(f"{where}.name"))
        else:
            check_format(errors, f"{where}.name", template.name, formats.dns_label)
        if template.name in seen:
            errors.append(invalid(f"{where}.name", template.name, "must be unique"))
        seen.add(template.name)
        check_policy(errors, f"{where}.schedulingPolicy", template.scheduling_policy)
        check_gated(errors, where, template)
