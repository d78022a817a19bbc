"""Network policies."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import networking_v1
from bayplan.api.validation.fields import (
    Errors,
    check_cidr,
    check_format,
    check_label_selector,
    check_port_number,
    parse_cidr,
)
from bayplan.api.validation.ip_warnings import MOST_WARNINGS, cidr_list_warnings, cidr_warnings
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.cidrs import Cidr, strict_cidr

_PROTOCOLS = ("TCP", "UDP", "SCTP")


class NetworkPolicyStrategy(Strategy):
    """Rules of network policies."""

    counts_generation = True

    def default(self, obj: networking_v1.NetworkPolicy) -> None:
        spec = obj.spec
        if not spec.policy_types:
            spec.policy_types = ("Ingress", "Egress") if spec.egress else ("Ingress",)
        for ports in (*(rule.ports for rule in spec.ingress), *(rule.ports for rule in spec.egress)):
            for port in ports:
                if port.protocol is None:
                    port.protocol = "TCP"

    def validate(self, obj: networking_v1.NetworkPolicy) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_label_selector(errors, "spec.podSelector", spec.pod_selector)
        for index, ingress in enumerate(spec.ingress):
            _check_ports(errors, f"spec.ingress[{index}].ports", ingress.ports)
            for position, peer in enumerate(ingress.from_):
                _check_peer(errors, f"spec.ingress[{index}].from[{position}]", peer)
        for index, egress in enumerate(spec.egress):
            _check_ports(errors, f"spec.egress[{index}].ports", egress.ports)
            for position, peer in enumerate(egress.to):
                _check_peer(errors, f"spec.egress[{index}].to[{position}]", peer)
        if len(spec.policy_types) > 2:
            errors.append(invalid("spec.policyTypes", spec.policy_types, "may not specify more than two policyTypes"))
            return errors
        for index, kind in enumerate(spec.policy_types):
            if kind not in ("Egress", "Ingress"):
                errors.append(unsupported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress")))
        return errors

    def warnings(self, obj: networking_v1.NetworkPolicy, old: networking_v1.NetworkPolicy | None) -> list[str]:
        found: list[str] = []
        groups = [(f"spec.ingress[{index}].from", one.from_) for index, one in enumerate(obj.spec.ingress)]
        groups += [(f"spec.egress[{index}].to", one.to) for index, one in enumerate(obj.spec.egress)]
        for path, peers in groups:
            for index, peer in enumerate(peers):
                if peer.ip_block is not None:
                    block = f"{path}[{index}].ipBlock"
                    found += cidr_warnings(f"{block}.cidr", peer.ip_block.cidr)
                    found += cidr_list_warnings(f"{block}.except", peer.ip_block.except_)
                    if len(found) >= MOST_WARNINGS:
                        return found
        return found


def _check_ports(errors: Errors, path: str, ports: tuple[networking_v1.NetworkPolicyPort, ...]) -> None:
    for index, port in enumerate(ports):
        where, end = f"{path}[{index}]", port.end_port
        if port.protocol is not None and port.protocol not in _PROTOCOLS:
            errors.append(unsupported(f"{where}.protocol", port.protocol, _PROTOCOLS))
        if port.port is None:
            if end is not None:
                errors.append(invalid(f"{where}.endPort", end, "may not be specified when `port` is not specified"))
        elif isinstance(port.port, int):
            check_port_number(errors, f"{where}.port", port.port)
            if end is not None:
                if end < port.port:
                    errors.append(invalid(f"{where}.endPort", port.port, "must be greater than or equal to `port`"))
                check_port_number(errors, f"{where}.endPort", end)
        else:
            if end is not None:
                errors.append(invalid(f"{where}.endPort", end, "may not be specified when `port` is non-numeric"))
            check_format(errors, f"{where}.port", port.port, formats.port_name)


def _check_peer(errors: Errors, path: str, peer: networking_v1.NetworkPolicyPeer) -> None:
    count = 0
    for name, selector in (("podSelector", peer.pod_selector), ("namespaceSelector", peer.namespace_selector)):
        if selector is not None:
            count += 1
            check_label_selector(errors, f"{path}.{name}", selector)
    if peer.ip_block is not None:
        count += 1
        _check_ip_block(errors, f"{path}.ipBlock", peer.ip_block)
    if not count:
        errors.append(required(path, "must specify a peer"))
    elif count > 1 and peer.ip_block is not None:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _check_ip_block(errors: Errors, path: str, block: networking_v1.IPBlock) -> None:
    if not block.cidr:
        errors.append(required(f"{path}.cidr"))
        return
    if not check_cidr(errors, f"{path}.cidr", block.cidr):
        return
    whole = _network(block.cidr)
    for index, value in enumerate(block.except_):
        where = f"{path}.except[{index}]"
        part = strict_cidr(value)
        if part is None:
            if not check_cidr(errors, where, value):
                continue
            part = _network(value)
        if part is None or whole is None or not part.is_strictly_inside(whole):
            errors.append(invalid(where, value, "must be a strict subset of `cidr`"))


def _network(value: str) -> Cidr | None:
    """The network of a CIDR in any spelling."""
    network = parse_cidr(value)
    return Cidr(network.version, int(network.network_address), network.prefixlen) if network else None


STRATEGY = NetworkPolicyStrategy()
