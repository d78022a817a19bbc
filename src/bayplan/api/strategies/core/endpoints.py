"""Endpoints."""

from __future__ import annotations

from bayplan.api.errors import FieldError, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_format, check_ip, check_port_number
from bayplan.api.validation.ip_warnings import ip_warnings
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.services import check_ordinary_ip
from bayplan.api.validation.values import formats

_PROTOCOLS = ("SCTP", "TCP", "UDP")


class EndpointsStrategy(Strategy):
    """Rules of endpoints."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    allow_create_on_update = True

    def default(self, obj: core_v1.Endpoints) -> None:
        for subset in obj.subsets:
            for port in subset.ports:
                port.protocol = port.protocol or "TCP"

    def validate(self, obj: core_v1.Endpoints) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, subset in enumerate(obj.subsets):
            path = f"subsets[{index}]"
            if not subset.addresses and not subset.not_ready_addresses:
                errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
            for name, addresses in (("addresses", subset.addresses), ("notReadyAddresses", subset.not_ready_addresses)):
                for position, address in enumerate(addresses):
                    _check_address(errors, f"{path}.{name}[{position}]", address)
            for position, port in enumerate(subset.ports):
                _check_port(errors, f"{path}.ports[{position}]", port, needs_name=len(subset.ports) > 1)
        return errors

    def warnings(self, obj: core_v1.Endpoints, old: core_v1.Endpoints | None) -> list[str]:
        found = []
        for index, subset in enumerate(obj.subsets):
            for name, addresses in (("addresses", subset.addresses), ("notReadyAddresses", subset.not_ready_addresses)):
                for position, address in enumerate(addresses):
                    found.extend(ip_warnings(f"subsets[{index}].{name}[{position}].ip", address.ip))
        return found


def _check_address(errors: Errors, path: str, address: core_v1.EndpointAddress) -> None:
    check_ip(errors, f"{path}.ip", address.ip)
    if address.hostname:
        check_format(errors, f"{path}.hostname", address.hostname, formats.dns_label)
    if address.node_name is not None:
        check_format(errors, f"{path}.nodeName", address.node_name, formats.dns_subdomain)
    check_ordinary_ip(errors, f"{path}.ip", address.ip)


def _check_port(errors: Errors, path: str, port: core_v1.EndpointPort, *, needs_name: bool) -> None:
    if port.name:
        check_format(errors, f"{path}.name", port.name, formats.dns_label)
    elif needs_name:
        errors.append(required(f"{path}.name"))
    check_port_number(errors, f"{path}.port", port.port)
    if port.protocol not in _PROTOCOLS:
        errors.append(unsupported(f"{path}.protocol", port.protocol, _PROTOCOLS))
    if port.app_protocol is not None:
        check_format(errors, f"{path}.appProtocol", port.app_protocol, formats.label_key)


STRATEGY = EndpointsStrategy()
