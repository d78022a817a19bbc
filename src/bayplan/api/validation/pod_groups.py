"""Rules of pod groups and the workloads that hold templates of them."""

from __future__ import annotations

from bayplan.api.errors import invalid, required
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation import formats
from bayplan.api.validation.fields import Errors, check_format

MOST_TEMPLATES = 8


def check_policy(errors: Errors, path: str, policy: scheduling_v1alpha2.PodGroupSchedulingPolicy) -> None:
    """Exactly one policy; a gang has at least one pod."""
    if (policy.basic is None) == (policy.gang is None):
        shown = "{}" if policy.basic is None else "{basic, gang}"
        errors.append(invalid(path, shown, "must specify exactly one of: `basic`, `gang`"))
    if policy.gang is not None and policy.gang.min_count < 1:
        errors.append(invalid(f"{path}.gang.minCount", policy.gang.min_count, "must be greater than or equal to 1"))


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
