"""Ingress classes."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden, invalid, required, too_long, unsupported_text
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import networking_v1
from bayplan.api.validation.fields import Errors, check_domain_prefixed_path, check_format
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats


class IngressClassStrategy(Strategy):
    """Rules of ingress classes."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    changes_come_first = True
    counts_generation = True

    def default(self, obj: networking_v1.IngressClass) -> None:
        parameters = obj.spec.parameters
        if parameters is not None and parameters.scope is None:
            parameters.scope = "Cluster"

    def validate(self, obj: networking_v1.IngressClass) -> list[FieldError]:
        errors: list[FieldError] = []
        controller = obj.spec.controller
        if formats.size(controller) > 250:
            errors.append(too_long("spec.controller", 250))
        check_domain_prefixed_path(errors, "spec.controller", controller)
        if obj.spec.parameters is not None:
            _check_parameters(errors, "spec.parameters", obj.spec.parameters)
        return errors

    def validate_update(self, obj: networking_v1.IngressClass, old: networking_v1.IngressClass) -> list[FieldError]:
        if obj.spec.controller != old.spec.controller:
            return [invalid("spec.controller", obj.spec.controller, "field is immutable")]
        return []


def _check_parameters(errors: Errors, path: str, parameters: networking_v1.IngressClassParametersReference) -> None:
    if parameters.api_group is not None:
        check_format(errors, f"{path}.apiGroup", parameters.api_group, formats.dns_subdomain)
    for field, value in (("kind", parameters.kind), ("name", parameters.name)):
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            check_format(errors, f"{path}.{field}", value, formats.path_segment)
    scope, namespace = parameters.scope, parameters.namespace
    if scope is None:
        errors.append(required(f"{path}.scope"))
        return
    if scope not in ("Cluster", "Namespace"):
        errors.append(unsupported_text(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif namespace is not None and scope == "Cluster":
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace":
        if namespace is None:
            errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            check_format(errors, f"{path}.namespace", namespace, formats.dns_label)


STRATEGY = IngressClassStrategy()
