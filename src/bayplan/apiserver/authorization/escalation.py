"""Nobody grants more than they hold: what has to be true before a role or binding is written.

Who may `escalate` a role or `bind` it is trusted; everybody else has to hold every permission in it. Source: Kubernetes' `policybased` storages of the four kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import ApiError, bad_request, failure, forbidden_error, not_found_error, quoted
from bayplan.api.types import rbac_v1
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.authorization.interface import MASTERS, Decision
from bayplan.apiserver.authorization.rbac import GROUP, RoleMissing, aggregate
from bayplan.apiserver.authorization.rules import FULL_AUTHORITY, PolicyRule, compacted, missing, show, show_list
from bayplan.apiserver.context import Call
from bayplan.apiserver.reads.storage_key import segment_problem

ROLES = ("Role", "ClusterRole")
BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


def check_escalation(call: Call, obj: Any, old: Any) -> None:
    """Before a role or binding is written; `old` is None for new ones. Raises ApiError (403, 404)."""
    if MASTERS in call.request.user.groups or (old is not None and only_for_garbage_collector(obj, old)):
        return
    if call.stored.kind in ROLES:
        _check_role(call, obj, old)
    else:
        _check_binding(call, obj)


def only_for_garbage_collector(obj: Any, old: Any) -> bool:
    """Whether nothing but owners and finalizers changes, if anything: who deletes need not hold what is deleted."""
    metadata = replace(
        obj.metadata,
        owner_references=old.metadata.owner_references,
        finalizers=old.metadata.finalizers,
        managed_fields=old.metadata.managed_fields,
        generation=old.metadata.generation,
        resource_version=old.metadata.resource_version,
    )
    return bool(replace(obj, metadata=metadata, kind=old.kind, api_version=old.api_version) == old)


def _check_role(call: Call, obj: Any, old: Any) -> None:
    asked = attributes_of(call.request)
    may = Attributes(
        call.request.user,
        "escalate",
        group=asked.group,
        version="*",
        resource=asked.resource,
        name=asked.name,
        namespace=asked.namespace,
    )
    if call.context.authorizer.authorize(may).decision is Decision.ALLOW:
        return
    _check_covered(call, obj, obj.rules)
    if any(getattr(one, "aggregation_rule", None) is not None for one in (obj, old)):
        try:
            _check_covered(call, obj, FULL_AUTHORITY)
        except ApiError:
            raise _refused(call, obj, _AGGREGATION) from None


def _check_binding(call: Call, obj: Any) -> None:
    role: rbac_v1.RoleRef = obj.role_ref
    namespace = call.path.namespace
    plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(role.kind)
    if plural is not None:
        may = Attributes(
            call.request.user, "bind", group=role.api_group, resource=plural, name=role.name, namespace=namespace
        )
        if call.context.authorizer.authorize(may).decision is Decision.ALLOW:
            return
    _check_reference(role, namespace)
    try:
        rules = call.context.authorizer.rbac.rules_of(role, namespace)
    except RoleMissing as problem:
        if problem.is_unsupported:
            raise failure(500, "", str(problem), details=False) from None
        raise not_found_error(call.kind.plural, GROUP, role.name) from None
    _check_covered(call, obj, rules)


def _check_reference(role: rbac_v1.RoleRef, namespace: str) -> None:
    """Raises ApiError (400) if there can be no such role, worded as Kubernetes' storage does."""
    if role.kind == "Role" and not namespace:
        raise bad_request("Namespace parameter required.")
    if role.kind in ROLES and not role.name:
        raise bad_request("Name parameter required.")
    if role.kind in ROLES and (problem := segment_problem(role.name)):
        raise bad_request(f"Name parameter invalid: {quoted(role.name)}: {problem}")


def _check_covered(call: Call, obj: Any, rules: Sequence[PolicyRule]) -> None:
    user, rbac = call.request.user, call.context.authorizer.rbac
    namespace = call.path.namespace
    lacking = missing(rbac.rules_for(user, namespace), rules)
    if not lacking:
        return
    shown = "\n".join(sorted({show(rule) for rule in compacted(lacking)}))
    who = f"user {quoted(user.name)} (groups={show_list(user.groups)})"
    text = f"{who} is attempting to grant RBAC permissions not currently held:\n{shown}"
    problems = rbac.problems(user, namespace)
    if problems:
        text += f"; resolution errors: [{aggregate(problems)}]"
    raise _refused(call, obj, text)


def _refused(call: Call, obj: Any, text: str) -> ApiError:
    return forbidden_error(call.kind.plural, GROUP, obj.metadata.name, text)
