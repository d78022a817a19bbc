"""Rules for device requests, in claims, claim templates and device classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from bayplan.api.errors import duplicate, invalid, required, too_long, too_many, unsupported
from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.device_expressions import LONGEST, expression_problem
from bayplan.api.validation.fields import Errors, check_format, check_key_format
from bayplan.api.validation.values import formats

_MODES = ("All", "ExactCount")
_MAX_ENTRIES = 32
_MAX_ALTERNATIVES = 8
_MAX_TOLERATIONS = 16
_MAX_IDENTIFIER = 32
_MAX_POOL_NAME = 253
_MAX_PARAMETERS = 10 * 1024
_NO_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"

Entry = TypeVar("Entry")
AnyRequest = resource_v1.ExactDeviceRequest | resource_v1.DeviceSubRequest


def default_device_claim(claim: resource_v1.DeviceClaim) -> None:
    """A request without a mode is for a number of devices, one unless it says otherwise."""
    for request in claim.requests:
        for part in (*((request.exactly,) if request.exactly is not None else ()), *request.first_available):
            if not part.allocation_mode:
                part.allocation_mode = "ExactCount"
            if part.allocation_mode == "ExactCount" and not part.count:
                part.count = 1
            for toleration in part.tolerations:
                toleration.operator = toleration.operator or "Equal"


def request_names(claim: resource_v1.DeviceClaim) -> set[str]:
    """The names by which requests of a claim, and their alternatives, are meant."""
    known: set[str] = set()
    for request in claim.requests:
        known.add(request.name)
        known |= {f"{request.name}/{one.name}" for one in request.first_available}
    return known


def check_device_claim(errors: Errors, path: str, claim: resource_v1.DeviceClaim) -> None:
    """`devices` of a claim."""
    known = request_names(claim)
    for index, request in enumerate(within(errors, f"{path}.requests", claim.requests)):
        _check_request(errors, f"{path}.requests[{index}]", request)
    check_distinct(errors, f"{path}.requests", [request.name for request in claim.requests])
    for index, constraint in enumerate(within(errors, f"{path}.constraints", claim.constraints)):
        where = f"{path}.constraints[{index}]"
        check_request_names(errors, f"{where}.requests", constraint.requests, known)
        if constraint.match_attribute is not None:
            check_qualified_attribute(errors, f"{where}.matchAttribute", constraint.match_attribute)
        elif constraint.distinct_attribute is not None:
            check_qualified_attribute(errors, f"{where}.distinctAttribute", constraint.distinct_attribute)
        else:
            errors.append(required(where, _NO_ATTRIBUTE))
    for index, config in enumerate(within(errors, f"{path}.config", claim.config)):
        where = f"{path}.config[{index}]"
        check_request_names(errors, f"{where}.requests", config.requests, known)
        check_opaque(errors, where, config.opaque)


def _check_request(errors: Errors, path: str, request: resource_v1.DeviceRequest) -> None:
    check_format(errors, f"{path}.name", request.name, formats.dns_label)
    if request.exactly is not None and request.first_available:
        errors.append(invalid(path, None, f"{_ONE_OF}, but multiple fields are set"))
        return
    if request.exactly is None and not request.first_available:
        errors.append(required(path, _ONE_OF))
    if request.exactly is not None:
        _check_part(errors, f"{path}.exactly", request.exactly)
    alternatives = f"{path}.firstAvailable"
    for index, part in enumerate(within(errors, alternatives, request.first_available, _MAX_ALTERNATIVES)):
        check_format(errors, f"{alternatives}[{index}].name", part.name, formats.dns_label)
        _check_part(errors, f"{alternatives}[{index}]", part)
    check_distinct(errors, alternatives, [part.name for part in request.first_available], _MAX_ALTERNATIVES)


def _check_part(errors: Errors, path: str, part: AnyRequest) -> None:
    if not part.device_class_name:
        errors.append(required(f"{path}.deviceClassName"))
    else:
        check_format(errors, f"{path}.deviceClassName", part.device_class_name, formats.dns_subdomain)
    check_selectors(errors, f"{path}.selectors", part.selectors)
    if part.allocation_mode not in _MODES:
        errors.append(unsupported(f"{path}.allocationMode", part.allocation_mode, _MODES))
    elif part.allocation_mode == "All":
        if part.count:
            text = "must not be specified when allocationMode is 'All'"
            errors.append(invalid(f"{path}.count", part.count, text))
    elif part.count <= 0:
        errors.append(invalid(f"{path}.count", part.count, "must be greater than zero"))
    for index, toleration in enumerate(within(errors, f"{path}.tolerations", part.tolerations, _MAX_TOLERATIONS)):
        _check_toleration(errors, f"{path}.tolerations[{index}]", toleration)


def _check_toleration(errors: Errors, path: str, toleration: resource_v1.DeviceToleration) -> None:
    if toleration.key:
        check_key_format(errors, f"{path}.key", toleration.key)
    operator = toleration.operator
    if operator not in ("Equal", "Exists"):
        errors.append(
            unsupported(f"{path}.operator", operator, ("Equal", "Exists")) if operator else required(f"{path}.operator")
        )
    elif operator == "Exists":
        if toleration.value:
            errors.append(invalid(f"{path}.value", toleration.value, "must be empty for operator `Exists`"))
    else:
        check_format(errors, f"{path}.value", toleration.value, formats.label_value)
    if toleration.effect not in ("", "NoExecute", "NoSchedule", "None"):
        errors.append(unsupported(f"{path}.effect", toleration.effect, ("NoExecute", "NoSchedule", "None")))


def check_selectors(errors: Errors, path: str, selectors: Sequence[resource_v1.DeviceSelector]) -> None:
    """Selectors by expression."""
    for index, selector in enumerate(within(errors, path, selectors)):
        if selector.cel is None:
            errors.append(required(f"{path}[{index}].cel"))
        elif len(selector.cel.expression.encode()) > LONGEST:
            errors.append(too_long(f"{path}[{index}].cel.expression", LONGEST))
        elif problem := expression_problem(selector.cel.expression):
            errors.append(invalid(f"{path}[{index}].cel.expression", selector.cel.expression, problem))


def check_request_names(
    errors: Errors, path: str, names: tuple[str, ...], known: set[str], *, indexed: bool = True
) -> None:
    """Names of requests, or of their alternatives; the only one of a field that is no list is not `indexed`."""
    text = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    for index, name in enumerate(within(errors, path, names)):
        parts = name.split("/")
        where = f"{path}[{index}]" if indexed else path
        for part in parts if len(parts) <= 2 else ():
            check_format(errors, where, part, formats.dns_label)
        if len(parts) > 2 or name not in known:
            errors.append(invalid(where, name, text))
    check_distinct(errors, path, names)


def within(errors: Errors, path: str, entries: Sequence[Entry], limit: int = _MAX_ENTRIES) -> Sequence[Entry]:
    """The entries of a list that are looked into: none, but for one error, of a list over its limit."""
    if len(entries) > limit:
        errors.append(too_many(path, len(entries), limit))
        return ()
    return entries


def check_distinct(errors: Errors, path: str, names: Sequence[str], limit: int = _MAX_ENTRIES) -> None:
    """The names of the entries of a list within its limit; it comes after the entries' own checks."""
    seen: set[str] = set()
    for index, name in enumerate(names if len(names) <= limit else ()):
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def check_opaque(errors: Errors, path: str, opaque: resource_v1.OpaqueDeviceConfiguration | None) -> None:
    """Parameters for a driver."""
    if opaque is None:
        errors.append(required(f"{path}.opaque"))
        return
    check_driver_name(errors, f"{path}.opaque.driver", opaque.driver)
    if opaque.parameters is None:
        errors.append(required(f"{path}.opaque.parameters"))
    elif len(msgspec.json.encode(opaque.parameters)) > _MAX_PARAMETERS:
        errors.append(too_long(f"{path}.opaque.parameters", _MAX_PARAMETERS))
    elif not isinstance(opaque.parameters, dict):
        errors.append(invalid(f"{path}.opaque.parameters", "<value omitted>", "must be a valid JSON object"))


def check_pool_name(errors: Errors, path: str, name: str) -> None:
    """Subdomains with slashes between them."""
    if not name:
        errors.append(required(path))
        return
    if len(name) > _MAX_POOL_NAME:
        errors.append(too_long(path, _MAX_POOL_NAME))
    for part in name.split("/"):
        check_format(errors, path, part, formats.dns_subdomain)


def check_driver_name(errors: Errors, path: str, name: str) -> None:
    """The name of a driver: a domain name of up to 63 characters."""
    if not name:
        errors.append(required(path))
    else:
        if len(name) > 63:
            errors.append(too_long(path, 63))
        errors.extend(invalid(path, name, message) for message in formats.dns_subdomain(name.lower()))


def check_qualified_attribute(errors: Errors, path: str, name: str, *, needs_domain: bool = True) -> None:
    """`domain/identifier`, or an identifier alone where the driver's domain is meant. Names of more parts pass, as they do in Kubernetes."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        _check_identifier(errors, path, name)
        if needs_domain:
            text = "a fully qualified name must be a domain and a name separated by a slash"
            errors.append(invalid(path, name, text))
    elif "/" not in identifier:
        if domain:
            check_driver_name(errors, path, domain)
        else:
            errors.append(invalid(path, "", "the domain must not be empty"))
        if identifier:
            _check_identifier(errors, path, identifier)
        else:
            errors.append(invalid(path, "", "the name must not be empty"))


def _check_identifier(errors: Errors, path: str, name: str) -> None:
    if len(name) > _MAX_IDENTIFIER:
        errors.append(too_long(path, _MAX_IDENTIFIER))
    check_format(errors, path, name, formats.c_identifier)
