"""Flow schemas of priority and fairness."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import flowcontrol_v1
from bayplan.api.validation.fields import (
    Errors,
    check_format,
)
from bayplan.api.validation.flow_control import check_condition_types, fixed_flow_schemas
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

_DEFAULT_PRECEDENCE = 1000
_HIGHEST_PRECEDENCE = 10000
_VERBS = frozenset(
    (
        "get",
        "list",
        "create",
        "update",
        "delete",
        "deletecollection",
        "patch",
        "watch",
        "proxy",
    )
)
_METHODS = ("ByNamespace", "ByUser")
_SUBJECTS = {
    "ServiceAccount": ("serviceAccount", "service_account"),
    "User": ("user", "user"),
    "Group": ("group", "group"),
}


class FlowSchemaStrategy(Strategy):
    """Rules of flow schemas."""

    update_checks = UpdateChecks(whole=1, change=0)
    status_checks = UpdateChecks(change=0)
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    counts_generation = True
    has_status = True

    def default(self, obj: flowcontrol_v1.FlowSchema) -> None:
        if not obj.spec.matching_precedence:
            obj.spec.matching_precedence = _DEFAULT_PRECEDENCE

    def validate(self, obj: flowcontrol_v1.FlowSchema) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        precedence = spec.matching_precedence
        if precedence <= 0:
            errors.append(invalid("spec.matchingPrecedence", precedence, "must be a positive value"))
        if precedence > _HIGHEST_PRECEDENCE:
            errors.append(
                invalid("spec.matchingPrecedence", precedence, f"must not be greater than {_HIGHEST_PRECEDENCE}")
            )
        if precedence == 1 and obj.metadata.name != "exempt":
            text = "only the schema named 'exempt' may have matchingPrecedence 1"
            errors.append(invalid("spec.matchingPrecedence", precedence, text))
        method = spec.distinguisher_method
        if method is not None and method.type not in _METHODS:
            errors.append(unsupported("spec.distinguisherMethod.type", go_struct(method), _METHODS))
        name = spec.priority_level_configuration.name
        if not name:
            errors.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
        else:
            check_format(errors, "spec.priorityLevelConfiguration.name", name, formats.dns_subdomain)
        for index, rule in enumerate(spec.rules):
            _check_rule(errors, f"spec.rules[{index}]", rule)
        fixed = fixed_flow_schemas().get(obj.metadata.name)
        if fixed is not None and spec != fixed:
            errors.append(invalid("spec", spec, f"spec of '{obj.metadata.name}' must equal the fixed value"))
        return errors

    def validate_status_update(
        self, obj: flowcontrol_v1.FlowSchema, old: flowcontrol_v1.FlowSchema
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_condition_types(errors, obj.status.conditions)
        return errors


def _check_rule(errors: Errors, path: str, rule: flowcontrol_v1.PolicyRulesWithSubjects) -> None:
    if not rule.subjects:
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(rule.subjects):
        _check_subject(errors, f"{path}.subjects[{index}]", subject)
    if not rule.resource_rules and not rule.non_resource_rules:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, text))
    for index, resource in enumerate(rule.resource_rules):
        where = f"{path}.resourceRules[{index}]"
        _check_verbs(errors, where, resource.verbs)
        for field, values in (("apiGroups", resource.api_groups), ("resources", resource.resources)):
            if not values:
                noun = "api group" if field == "apiGroups" else "resource"
                errors.append(required(f"{where}.{field}", f"resource rules must supply at least one {noun}"))
            elif len(values) > 1 and "*" in values:
                text = (
                    f"if '*' is present, must not specify other {'api groups' if field == 'apiGroups' else 'resources'}"
                )
                errors.append(invalid(f"{where}.{field}", values, text))
        if not resource.namespaces and not resource.cluster_scope:
            text = "resource rules that are not cluster scoped must supply at least one namespace"
            errors.append(required(f"{where}.namespaces", text))
        elif "*" in resource.namespaces:
            if len(resource.namespaces) > 1:
                text = "if '*' is present, must not specify other namespaces"
                errors.append(invalid(f"{where}.namespaces", resource.namespaces, text))
        else:
            for position, namespace in enumerate(resource.namespaces):
                for message in formats.dns_label(namespace):
                    text = f"each member of this list must be '*' or a DNS-1123 label; {message}"
                    errors.append(invalid(f"{where}.namespaces[{position}]", namespace, text))
    for index, urls in enumerate(rule.non_resource_rules):
        where = f"{path}.nonResourceRules[{index}]"
        _check_verbs(errors, where, urls.verbs)
        if not urls.non_resource_urls:
            errors.append(required(f"{where}.nonResourceURLs", "nonResourceURLs must contain at least one value"))
        elif "*" in urls.non_resource_urls:
            if len(urls.non_resource_urls) > 1:
                text = "if '*' is present, must not specify other non-resource URLs"
                errors.append(invalid(f"{where}.nonResourceURLs", urls.non_resource_urls, text))
        else:
            for position, url in enumerate(urls.non_resource_urls):
                _check_url(errors, f"{where}.nonResourceURLs[{position}]", url)


def _check_url(errors: Errors, path: str, url: str) -> None:
    if not url:
        errors.append(invalid(path, url, "must not be empty"))
    elif not url.startswith("/"):
        errors.append(invalid(path, url, "must start with slash"))
    elif " " in url:
        errors.append(invalid(path, url, "must not contain white-space"))
    elif "//" in url:
        errors.append(invalid(path, url, "must not contain double slash"))
    elif "*" in url[:-1] or (url.endswith("*") and not url.endswith("/*")):
        errors.append(invalid(path, url, "wildcard can only do suffix matching"))


def _check_verbs(errors: Errors, path: str, verbs: tuple[str, ...]) -> None:
    if not verbs:
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    elif "*" in verbs:
        if len(verbs) > 1:
            errors.append(invalid(f"{path}.verbs", verbs, "if '*' is present, must not specify other verbs"))
    elif any(verb not in _VERBS for verb in verbs):
        errors.append(unsupported(f"{path}.verbs", verbs, sorted(_VERBS)))


def _check_subject(errors: Errors, path: str, subject: flowcontrol_v1.Subject) -> None:
    if subject.kind not in _SUBJECTS:
        errors.append(unsupported(f"{path}.kind", subject.kind, sorted(_SUBJECTS)))
        return
    for kind, (field, attribute) in sorted(_SUBJECTS.items(), key=lambda one: one[0] != subject.kind):
        member = getattr(subject, attribute)
        if kind != subject.kind:
            if member is not None:
                errors.append(forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{kind}'"))
        elif member is None:
            errors.append(required(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'"))
        elif not member.name:
            errors.append(required(f"{path}.{field}.name"))
        elif kind == "ServiceAccount" and member.name != "*":
            check_format(errors, f"{path}.{field}.name", member.name, formats.dns_subdomain)
        if kind == subject.kind == "ServiceAccount" and member is not None:
            if not member.namespace:
                errors.append(required(f"{path}.{field}.namespace", "must specify namespace for service account"))
            else:
                check_format(errors, f"{path}.{field}.namespace", member.namespace, formats.dns_label)


STRATEGY = FlowSchemaStrategy()
