"""Rules for roles and role bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.api.errors import invalid, required, unsupported_text
from bayplan.api.types import rbac_v1
from bayplan.api.validation.fields import (
    Errors,
    check_format,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.values import formats

GROUP: Final = "rbac.authorization.k8s.io"


def check_rules(errors: Errors, rules: Sequence[rbac_v1.PolicyRule], *, namespaced: bool) -> None:
    """`rules` of a role."""
    for index, rule in enumerate(rules):
        path = f"rules[{index}]"
        if not rule.verbs:
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.non_resource_urls:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", rule.non_resource_urls, text))
            if rule.api_groups or rule.resources or rule.resource_names:
                text = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", rule.non_resource_urls, text))
            continue
        if not rule.api_groups:
            errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.resources:
            errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


def default_binding(binding: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding) -> None:
    """API groups of the role and the subjects."""
    binding.role_ref.api_group = binding.role_ref.api_group or GROUP
    for subject in binding.subjects:
        if not subject.api_group and subject.kind in ("User", "Group"):
            subject.api_group = GROUP


def check_binding(
    errors: Errors, binding: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding, kinds: Sequence[str], *, namespaced: bool
) -> None:
    """A binding to a role of one of `kinds`."""
    role = binding.role_ref
    if role.api_group != GROUP:
        errors.append(unsupported_text("roleRef.apiGroup", role.api_group, (GROUP,)))
    if role.kind not in kinds:
        errors.append(unsupported_text("roleRef.kind", role.kind, kinds))
    if not role.name:
        errors.append(required("roleRef.name"))
    else:
        check_format(errors, "roleRef.name", role.name, formats.path_segment)
    for index, subject in enumerate(binding.subjects):
        _check_subject(errors, f"subjects[{index}]", subject, namespaced=namespaced)


def _check_subject(errors: Errors, path: str, subject: rbac_v1.Subject, *, namespaced: bool) -> None:
    if not subject.name:
        errors.append(required(f"{path}.name"))
    if subject.kind == "ServiceAccount":
        if subject.name:
            check_format(errors, f"{path}.name", subject.name, formats.dns_subdomain)
        if subject.api_group:
            errors.append(unsupported_text(f"{path}.apiGroup", subject.api_group, ("",)))
        if not namespaced and not subject.namespace:
            errors.append(required(f"{path}.namespace"))
    elif subject.kind in ("User", "Group"):
        if subject.api_group != GROUP:
            errors.append(unsupported_text(f"{path}.apiGroup", subject.api_group, (GROUP,)))
    else:
        errors.append(unsupported_text(f"{path}.kind", subject.kind, ("ServiceAccount", "User", "Group")))


def check_role_unchanged(
    errors: Errors,
    new: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding,
    old: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding,
) -> None:
    """A binding keeps its role."""
    if new.role_ref != old.role_ref:
        errors.append(invalid("roleRef", go_struct(new.role_ref), "cannot change roleRef"))
