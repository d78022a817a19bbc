"""Resource quotas."""

from __future__ import annotations

import msgspec

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, null_if_empty
from bayplan.api.validation.resources import Resources, check_amount, quota_resource_messages

_POD_SCOPES = frozenset(
    ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity", "BestEffort")
)
_SCOPES = _POD_SCOPES | {"VolumeAttributesClass"}
_EXISTS_ONLY = _POD_SCOPES - {"PriorityClass"}
_POD_RESOURCES = frozenset(("pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
_STANDARD = _POD_RESOURCES | {
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "requests.storage",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
}
"""Resources that not every scope can narrow, besides huge pages; any scope is taken for others."""
_REQUESTED_AND_LIMITED = ("cpu", "memory", "storage", "ephemeral-storage")
_CLAIM_RESOURCES = frozenset(("persistentvolumeclaims", "requests.storage"))


class ResourceQuotaStrategy(Strategy):
    """Rules of resource quotas."""

    has_status = True
    returns_object_on_delete = True

    def default(self, obj: core_v1.ResourceQuota) -> None:
        canonical_list(obj.spec.hard)
        canonical_list(obj.status.hard)
        canonical_list(obj.status.used)

    def validate(self, obj: core_v1.ResourceQuota) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        _check_amounts(errors, "spec.hard", spec.hard)
        if spec.scopes:
            _check_scopes(errors, spec)
        if spec.scope_selector is not None:
            _check_selector(errors, spec.scope_selector, spec.hard)
            scopes = {expression.scope_name for expression in spec.scope_selector.match_expressions}
            _check_conflicts(errors, scopes, spec.scopes)
        return errors

    def warnings(self, obj: core_v1.ResourceQuota, old: core_v1.ResourceQuota | None) -> list[str]:
        """New quotas whose requests exceed their limits."""
        found = []
        hard = obj.spec.hard if old is None else {}
        for name in _REQUESTED_AND_LIMITED:
            request, limit = f"requests.{name}", f"limits.{name}"
            if request not in hard and name in ("cpu", "memory"):
                request = name
            if request in hard and limit in hard and quantity.parse(hard[request]) > quantity.parse(hard[limit]):
                shown = f"{request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
                found.append(f"ResourceQuota {shown}")
        return found

    def validate_update(self, obj: core_v1.ResourceQuota, old: core_v1.ResourceQuota) -> list[FieldError]:
        if set(obj.spec.scopes) != set(old.spec.scopes):
            return [invalid("spec.scopes", obj.spec.scopes or None, "field is immutable")]
        return []

    def validate_status_update(self, obj: core_v1.ResourceQuota, old: core_v1.ResourceQuota) -> list[FieldError]:
        errors: list[FieldError] = []
        if not obj.metadata.resource_version:
            errors.append(required("resourceVersion"))
        _check_amounts(errors, "status.hard", obj.status.hard)
        _check_amounts(errors, "status.used", obj.status.used)
        return errors


def _check_amounts(errors: Errors, path: str, amounts: Resources) -> None:
    for name in sorted(amounts):
        where = f"{path}[{name}]"
        errors.extend(invalid(where, name, message) for message in quota_resource_messages(name))
        check_amount(errors, where, name, amounts[name])


def _fits(scope: str, name: str) -> bool:
    """Whether a scope can narrow the counting of a resource."""
    if name not in _STANDARD and not name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in _CLAIM_RESOURCES
    return name in _POD_RESOURCES


def _check_scopes(errors: Errors, spec: core_v1.ResourceQuotaSpec) -> None:
    scopes = spec.scopes
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
            continue
        for name in sorted(spec.hard):
            if not _fits(scope, name):
                errors.append(invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
    _check_conflicts(errors, set(scopes), scopes)


def _check_conflicts(errors: Errors, scopes: set[str], shown: tuple[str, ...]) -> None:
    for one, other in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if one in scopes and other in scopes:
            errors.append(invalid("spec.scopes", null_if_empty(shown), "conflicting scopes"))


class _Expression(msgspec.Struct, rename="pascal"):
    """As errors show it: with the names of fields in the server's program."""

    scope_name: str
    operator: str
    values: list[str] | None


class _Selector(msgspec.Struct, rename="pascal"):
    match_expressions: list[_Expression]


def _as_in_go(selector: core_v1.ScopeSelector) -> _Selector:
    return _Selector(
        [_Expression(one.scope_name, one.operator, list(one.values) or None) for one in selector.match_expressions]
    )


def _check_selector(errors: Errors, selector: core_v1.ScopeSelector, hard: Resources) -> None:
    path = "spec.scopeSelector.matchExpressions"
    for expression in selector.match_expressions:
        if expression.scope_name not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", expression.scope_name, "unsupported scope"))
        for name in sorted(hard):
            if expression.scope_name in _SCOPES and not _fits(expression.scope_name, name):
                errors.append(invalid(path, _as_in_go(selector), "unsupported scope applied to resource"))
        operator, values = expression.operator, expression.values
        if expression.scope_name in _EXISTS_ONLY and operator != "Exists":
            text = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, "
                "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", operator, text))
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{path}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(f"{path}.values", values, text))
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))


STRATEGY = ResourceQuotaStrategy()
