"""Ingresses."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import networking_v1
from bayplan.api.validation.fields import Errors, check_format, check_ip, check_port_number, null_if_empty, parse_ip
from bayplan.api.validation.ip_warnings import ingress_ip_warnings
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.services import check_ingress_hostname
from bayplan.api.validation.values import formats

_CLASS = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")


class IngressStrategy(Strategy):
    """Rules of ingresses."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    counts_generation = True
    has_status = True

    def validate(self, obj: networking_v1.Ingress) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if not spec.rules and spec.default_backend is None:
            errors.append(
                invalid("spec", null_if_empty(spec.rules), "either `defaultBackend` or `rules` must be specified")
            )
        if spec.default_backend is not None:
            _check_backend(errors, "spec.defaultBackend", spec.default_backend)
        for index, rule in enumerate(spec.rules):
            _check_rule(errors, f"spec.rules[{index}]", rule)
        for index, tls in enumerate(spec.tls):
            for position, host in enumerate(tls.hosts):
                where = f"spec.tls[{index}].hosts[{position}]"
                check_format(errors, where, host, formats.wildcard_subdomain if "*" in host else formats.dns_subdomain)
            if tls.secret_name:
                check_format(errors, f"spec.tls[{index}].secretName", tls.secret_name, formats.dns_subdomain)
        if spec.ingress_class_name is not None:
            check_format(errors, "spec.ingressClassName", spec.ingress_class_name, formats.dns_subdomain)
        return errors

    def validate_create(self, obj: networking_v1.Ingress) -> list[FieldError]:
        annotation, name = obj.metadata.annotations.get(_CLASS), obj.spec.ingress_class_name
        if annotation is not None and name is not None and annotation != name:
            return [
                invalid(f"annotations.{_CLASS}", annotation, "must match `ingressClassName` when both are specified")
            ]
        return []

    def validate_status_update(self, obj: networking_v1.Ingress, old: networking_v1.Ingress) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, ingress in enumerate(obj.status.load_balancer.ingress):
            path = f"status.loadBalancer.ingress[{index}]"
            if ingress.ip:
                check_ip(errors, f"{path}.ip", ingress.ip)
            check_ingress_hostname(errors, path, ingress.hostname)
        return errors

    def status_warnings(self, obj: networking_v1.Ingress) -> list[str]:
        return ingress_ip_warnings([one.ip for one in obj.status.load_balancer.ingress])

    def warnings(self, obj: networking_v1.Ingress, old: networking_v1.Ingress | None) -> list[str]:
        if old is None and _CLASS in obj.metadata.annotations and obj.spec.ingress_class_name is None:
            return [f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]
        return []


def _check_rule(errors: Errors, path: str, rule: networking_v1.IngressRule) -> None:
    if rule.host:
        if parse_ip(rule.host) is not None:
            errors.append(invalid(f"{path}.host", rule.host, "must be a DNS name, not an IP address"))
        check_format(
            errors, f"{path}.host", rule.host, formats.wildcard_subdomain if "*" in rule.host else formats.dns_subdomain
        )
    if rule.http is None:
        return
    if not rule.http.paths:
        errors.append(required(f"{path}.http.paths"))
    for index, entry in enumerate(rule.http.paths):
        _check_path(errors, f"{path}.http.paths[{index}]", entry)


def _check_path(errors: Errors, path: str, entry: networking_v1.HTTPIngressPath) -> None:
    text = entry.path
    if entry.path_type is None:
        errors.append(required(f"{path}.pathType", "pathType must be specified"))
        return
    if entry.path_type in ("Exact", "Prefix"):
        if not text.startswith("/"):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
        if text:
            for sequence in _BAD_SEQUENCES:
                if sequence in text:
                    errors.append(invalid(f"{path}.path", text, f"must not contain '{sequence}'"))
            for ending in _BAD_ENDINGS:
                if text.endswith(ending):
                    errors.append(invalid(f"{path}.path", text, f"cannot end with '{ending}'"))
    elif entry.path_type == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
    else:
        errors.append(unsupported(f"{path}.pathType", entry.path_type, _PATH_TYPES))
    _check_backend(errors, f"{path}.backend", entry.backend)


def _check_backend(errors: Errors, path: str, backend: networking_v1.IngressBackend) -> None:
    service, resource = backend.service, backend.resource
    if resource is not None and service is not None:
        errors.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        if resource.api_group is not None:
            check_format(errors, f"{path}.resource.apiGroup", resource.api_group, formats.dns_subdomain)
        for field, value in (("kind", resource.kind), ("name", resource.name)):
            if not value:
                errors.append(required(f"{path}.resource.{field}"))
            else:
                check_format(errors, f"{path}.resource.{field}", value, formats.path_segment)
    elif service is None:
        errors.append(invalid(path, "", "resource or service backend is required"))
    else:
        if not service.name:
            errors.append(required(f"{path}.service.name"))
        else:
            check_format(errors, f"{path}.service.name", service.name, formats.dns_label)
        if service.port.name and service.port.number:
            errors.append(invalid(path, "", "cannot set both port name & port number"))
        elif service.port.name:
            check_format(errors, f"{path}.service.port.name", service.port.name, formats.port_name)
        elif service.port.number:
            check_port_number(errors, f"{path}.service.port.number", service.port.number)
        else:
            errors.append(required(path, "port name or number is required"))


STRATEGY = IngressStrategy()
