"""What priority levels and flow schemas share: objects whose spec is fixed, and conditions of their status."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bayplan.api.errors import duplicate, required
from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.api.validation.fields import Errors

_ALL = ("*",)


def _for_groups(*names: str) -> tuple[fc.PolicyRulesWithSubjects, ...]:
    """Rules that hold for every request of some groups."""
    subjects = tuple(fc.Subject(kind="Group", group=fc.GroupSubject(name=name)) for name in names)
    resources = fc.ResourcePolicyRule(verbs=_ALL, api_groups=_ALL, resources=_ALL, cluster_scope=True, namespaces=_ALL)
    others = fc.NonResourcePolicyRule(verbs=_ALL, non_resource_urls=_ALL)
    return (fc.PolicyRulesWithSubjects(subjects=subjects, resource_rules=(resources,), non_resource_rules=(others,)),)


@functools.cache
def fixed_flow_schemas() -> dict[str, fc.FlowSchemaSpec]:
    """Specs of the schemas that nobody may change, by name. Shared: not to be mutated."""
    level = fc.PriorityLevelConfigurationReference
    return {
        "exempt": fc.FlowSchemaSpec(
            priority_level_configuration=level(name="exempt"),
            matching_precedence=1,
            rules=_for_groups("system:masters"),
        ),
        "catch-all": fc.FlowSchemaSpec(
            priority_level_configuration=level(name="catch-all"),
            matching_precedence=10000,
            distinguisher_method=fc.FlowDistinguisherMethod(type="ByUser"),
            rules=_for_groups("system:unauthenticated", "system:authenticated"),
        ),
    }


@functools.cache
def fixed_priority_levels() -> dict[str, fc.PriorityLevelConfigurationSpec]:
    """Specs of the levels that nobody may change, by name; of `exempt` what is in `exempt` is free. Shared: not to be mutated."""
    limited = fc.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=5, lendable_percent=0, limit_response=fc.LimitResponse(type="Reject")
    )
    return {
        "exempt": fc.PriorityLevelConfigurationSpec(type="Exempt"),
        "catch-all": fc.PriorityLevelConfigurationSpec(type="Limited", limited=limited),
    }


def check_condition_types(
    errors: Errors, conditions: Sequence[fc.FlowSchemaCondition | fc.PriorityLevelConfigurationCondition]
) -> None:
    """Conditions have a type, each its own."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}].type"
        if condition.type in seen:
            errors.append(duplicate(path, condition.type))
        seen.add(condition.type)
        if not condition.type:
            errors.append(required(path))
