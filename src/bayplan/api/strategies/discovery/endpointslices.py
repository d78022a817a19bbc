"""Endpoint slices."""

from __future__ import annotations

from bayplan.api.errors import FieldError, duplicate, invalid, required, too_many, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import discovery_v1
from bayplan.api.validation.fields import (
    Errors,
    check_format,
    check_ip,
    check_labels,
    check_unchanged,
    parse_ip,
    repeats,
)
from bayplan.api.validation.ip_warnings import ip_warnings
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.services import check_ordinary_ip
from bayplan.api.validation.values import formats

_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_ADDRESSES = 100
_MAX_ENDPOINTS = 1000
_MAX_PORTS = 20000
_MAX_TOPOLOGY = 16
_MAX_HINTS = 8


class EndpointSliceStrategy(Strategy):
    """Rules of endpoint slices. Changes of metadata count for the generation too."""

    update_checks = UpdateChecks(whole=1, change=0)
    counts_generation = True

    def default(self, obj: discovery_v1.EndpointSlice) -> None:
        for port in obj.ports:
            if port.name is None:
                port.name = ""
            if port.protocol is None:
                port.protocol = "TCP"

    def prepare_create(self, obj: discovery_v1.EndpointSlice) -> None:
        _drop_topology(obj)

    def prepare_update(self, obj: discovery_v1.EndpointSlice, old: discovery_v1.EndpointSlice) -> None:
        if not any(endpoint.deprecated_topology for endpoint in old.endpoints):
            _drop_topology(obj)

    def spec_changed(self, obj: discovery_v1.EndpointSlice, old: discovery_v1.EndpointSlice) -> bool:
        return obj.metadata.labels != old.metadata.labels or super().spec_changed(obj, old)

    def validate(self, obj: discovery_v1.EndpointSlice) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.address_type not in _TYPES:
            errors.append(
                unsupported("addressType", obj.address_type, _TYPES) if obj.address_type else required("addressType")
            )
        if len(obj.ports) > _MAX_PORTS:
            errors.append(too_many("ports", len(obj.ports), _MAX_PORTS))
        else:
            names: set[str] = set()
            for index, port in enumerate(obj.ports):
                _check_port(errors, f"ports[{index}]", port, names)
        return errors

    def validate_create(self, obj: discovery_v1.EndpointSlice) -> list[FieldError]:
        return _endpoint_errors(obj)

    def validate_update(self, obj: discovery_v1.EndpointSlice, old: discovery_v1.EndpointSlice) -> list[FieldError]:
        errors = _endpoint_errors(obj) if obj.endpoints != old.endpoints else []
        check_unchanged(errors, "addressType", obj.address_type, old.address_type)
        return errors

    def warnings(self, obj: discovery_v1.EndpointSlice, old: discovery_v1.EndpointSlice | None) -> list[str]:
        if obj.address_type == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"] if old is None else []
        found = []
        for index, endpoint in enumerate(obj.endpoints):
            for position, address in enumerate(endpoint.addresses):
                found.extend(ip_warnings(f"spec.endpoints[{index}].addresses[{position}]", address))
        return found


def _endpoint_errors(obj: discovery_v1.EndpointSlice) -> list[FieldError]:
    """Not of endpoints that an update leaves as they are: older releases may have taken them."""
    if len(obj.endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(obj.endpoints), _MAX_ENDPOINTS)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(obj.endpoints):
        _check_endpoint(errors, f"endpoints[{index}]", endpoint, obj.address_type)
    return errors


def _drop_topology(obj: discovery_v1.EndpointSlice) -> None:
    for endpoint in obj.endpoints:
        endpoint.deprecated_topology = {}


def _check_endpoint(errors: Errors, path: str, endpoint: discovery_v1.Endpoint, address_type: str) -> None:
    if not endpoint.addresses:
        errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(endpoint.addresses) > _MAX_ADDRESSES:
        errors.append(too_many(f"{path}.addresses", len(endpoint.addresses), _MAX_ADDRESSES))
    for index, address in enumerate(endpoint.addresses):
        _check_address(errors, f"{path}.addresses", index, address, address_type)
    if endpoint.node_name is not None:
        check_format(errors, f"{path}.nodeName", endpoint.node_name, formats.dns_subdomain)
    topology = endpoint.deprecated_topology
    if topology:
        if len(topology) > _MAX_TOPOLOGY:
            errors.append(too_many(f"{path}.deprecatedTopology", len(topology), _MAX_TOPOLOGY))
        check_labels(errors, f"{path}.deprecatedTopology", topology)
    if endpoint.hostname is not None:
        check_format(errors, f"{path}.hostname", endpoint.hostname, formats.dns_label)
    if endpoint.hints is not None:
        _check_hints(errors, f"{path}.hints", endpoint.hints)


def _check_address(errors: Errors, path: str, index: int, address: str, address_type: str) -> None:
    where = f"{path}[{index}]"
    if address_type == "FQDN":
        _check_domain_name(errors, where, address)
    elif address_type in ("IPv4", "IPv6"):
        parsed = parse_ip(address)
        if parsed is None:
            check_ip(errors, where, address)
            return
        check_ip(errors, where, address)
        if f"IPv{parsed.version}" != address_type:
            errors.append(invalid(path, address, f"must be an {address_type} address"))
        check_ordinary_ip(errors, where, address)


def _check_domain_name(errors: Errors, path: str, name: str) -> None:
    """A fully qualified domain name, perhaps with a dot at the end."""
    if not name:
        errors.append(required(path))
        return
    name = name.removesuffix(".")
    messages = formats.dns_subdomain(name)
    if messages:
        errors.append(invalid(path, name, ",".join(messages)))
    elif "." not in name:
        errors.append(invalid(path, name, "should be a domain with at least two segments separated by dots"))
    else:
        bad = next((label for label in name.split(".") if formats.dns_label(label)), None)
        if bad is not None:
            errors.append(invalid(path, bad, ",".join(formats.dns_label(bad))))


def _check_hints(errors: Errors, path: str, hints: discovery_v1.EndpointHints) -> None:
    zones, nodes = [entry.name for entry in hints.for_zones], [entry.name for entry in hints.for_nodes]
    for field, names, rule in (("forZones", zones, formats.label_value), ("forNodes", nodes, formats.dns_subdomain)):
        if len(names) > _MAX_HINTS:
            errors.append(too_many(f"{path}.{field}", len(names), _MAX_HINTS))
            continue
        again = repeats(names)
        for index, name in enumerate(names):
            where = f"{path}.{field}[{index}].name"
            if index in again:
                errors.append(duplicate(where, name))
            check_format(errors, where, name, rule)


def _check_port(errors: Errors, path: str, port: discovery_v1.EndpointPort, names: set[str]) -> None:
    name = port.name or ""
    if name:
        check_format(errors, f"{path}.name", name, formats.dns_label)
    if name in names:
        errors.append(duplicate(f"{path}.name", name))
    names.add(name)
    if port.protocol is None:
        errors.append(required(f"{path}.protocol"))
    elif port.protocol not in _PROTOCOLS:
        errors.append(unsupported(f"{path}.protocol", port.protocol, _PROTOCOLS))
    if port.app_protocol is not None:
        check_format(errors, f"{path}.appProtocol", port.app_protocol, formats.label_key)


STRATEGY = EndpointSliceStrategy()
