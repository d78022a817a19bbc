"""Which flow schema a request belongs to, and to which of its flows.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/rule.go`; the fields are those of `FlowSchema` of flowcontrol.apiserver.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.apiserver.request_info import RequestInfo
from bayplan.apiserver.requests import User

_ALL = "*"
_ACCOUNT = "system:serviceaccount:"
BY_USER, BY_NAMESPACE = "ByUser", "ByNamespace"


def in_matching_order(schemas: Iterable[fc.FlowSchema]) -> list[fc.FlowSchema]:
    """Schemas in the order in which they are tried: by precedence, then by name."""
    return sorted(schemas, key=lambda schema: (schema.spec.matching_precedence, schema.metadata.name))


def matches(schema: fc.FlowSchema, info: RequestInfo, user: User) -> bool:
    """Whether a schema takes a request."""
    return any(_matches_rule(rule, info, user) for rule in schema.spec.rules)


def distinguisher_of(schema: fc.FlowSchema, info: RequestInfo, user: User) -> str:
    """What tells the flows of a schema apart; "" if it has one only."""
    method = schema.spec.distinguisher_method
    if method is None:
        return ""
    return user.name if method.type == BY_USER else info.namespace


def _matches_rule(rule: fc.PolicyRulesWithSubjects, info: RequestInfo, user: User) -> bool:
    if not any(_matches_subject(subject, user) for subject in rule.subjects):
        return False
    if info.is_resource:
        return any(_matches_resource(one, info) for one in rule.resource_rules)
    return any(_contains(one.verbs, info.verb) and _matches_path(one, info.path) for one in rule.non_resource_rules)


def _matches_subject(subject: fc.Subject, user: User) -> bool:
    if subject.kind == "User" and subject.user is not None:
        return subject.user.name in (_ALL, user.name)
    if subject.kind == "Group" and subject.group is not None:
        return subject.group.name == _ALL or subject.group.name in user.groups
    if subject.kind == "ServiceAccount" and subject.service_account is not None:
        account = subject.service_account
        prefix = f"{_ACCOUNT}{account.namespace}:"
        return user.name.startswith(prefix) if account.name == _ALL else user.name == prefix + account.name
    return False


def _matches_resource(rule: fc.ResourcePolicyRule, info: RequestInfo) -> bool:
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not (
        _contains(rule.verbs, info.verb)
        and _contains(rule.resources, resource)
        and _contains(rule.api_groups, info.group)
    ):
        return False
    return _contains(rule.namespaces, info.namespace) if info.namespace else rule.cluster_scope


def _matches_path(rule: fc.NonResourcePolicyRule, path: str) -> bool:
    for allowed in rule.non_resource_urls:
        if allowed in (_ALL, path):
            return True
        prefix = allowed.removesuffix("*")
        if path.startswith(prefix if prefix.endswith("/") else prefix + "/"):
            return True
    return False


def _contains(values: Sequence[str], value: str) -> bool:
    """Whether a value is one of these, which a single `*` stands for."""
    return value in values or (len(values) == 1 and values[0] == _ALL)
