"""Rules for services."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required, unsupported, unsupported_text
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import (
    Errors,
    check_cidr,
    check_format,
    check_ip,
    check_labels,
    check_port_number,
    check_port_number_or_name,
    parse_ip,
    repeats,
)
from bayplan.api.validation.ip_warnings import cidr_list_warnings, ip_warnings
from bayplan.api.validation.values import formats

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"


def validate_service(service: core_v1.Service) -> list[FieldError]:
    """What is wrong with a service by itself."""
    errors: list[FieldError] = []
    spec, annotations = service.spec, service.metadata.annotations
    if annotations and annotations.get(_TOPOLOGY_MODE, annotations.get(_TOPOLOGY_HINTS)) != annotations.get(
        _TOPOLOGY_HINTS, annotations.get(_TOPOLOGY_MODE)
    ):
        text = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
        errors.append(invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", annotations[_TOPOLOGY_MODE], text))
    headless = spec.cluster_ips[:1] == ("None",)
    if not spec.ports and not headless and spec.type != "ExternalName":
        errors.append(required("spec.ports"))
    if headless and spec.type in ("LoadBalancer", "NodePort"):
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {spec.type} services"))
    if spec.type == "ExternalName":
        _check_external_name(errors, spec)
    names: set[str] = set()
    for index, port in enumerate(spec.ports):
        _check_port(errors, f"spec.ports[{index}]", port, names, needs_name=len(spec.ports) > 1)
    if spec.selector:
        check_labels(errors, "spec.selector", spec.selector)
    _check_session_affinity(errors, spec)
    if spec.type != "ExternalName":
        check_cluster_ips(errors, spec)
    for index, address in enumerate(spec.external_ips):
        where = f"spec.externalIPs[{index}]"
        before = len(errors)
        if check_ip(errors, where, address) and len(errors) == before:
            check_ordinary_ip(errors, where, address)
    if spec.type not in _TYPES:
        errors.append(unsupported("spec.type", spec.type, _TYPES))
    _check_duplicate_ports(errors, spec)
    _check_load_balancer(errors, spec, annotations)
    _check_policies(errors, spec)
    return errors


def _check_external_name(errors: Errors, spec: core_v1.ServiceSpec) -> None:
    text = "may not be set for ExternalName services"
    if spec.cluster_ips:
        errors.append(forbidden("spec.clusterIPs", text))
    if spec.ip_families:
        errors.append(forbidden("spec.ipFamilies", text))
    if spec.ip_family_policy is not None:
        errors.append(forbidden("spec.ipFamilyPolicy", text))
    name = spec.external_name.removesuffix(".")
    if name:
        check_format(errors, "spec.externalName", name, formats.dns_subdomain)
    else:
        errors.append(required("spec.externalName"))


def _check_port(errors: Errors, path: str, port: core_v1.ServicePort, names: set[str], *, needs_name: bool) -> None:
    if port.name:
        check_format(errors, f"{path}.name", port.name, formats.dns_label)
        if port.name in names:
            errors.append(duplicate(f"{path}.name", port.name))
        names.add(port.name)
    elif needs_name:
        errors.append(required(f"{path}.name"))
    check_port_number(errors, f"{path}.port", port.port)
    if port.protocol not in _PROTOCOLS:
        errors.append(unsupported(f"{path}.protocol", port.protocol, _PROTOCOLS))
    check_port_number_or_name(errors, f"{path}.targetPort", port.target_port)
    if port.app_protocol is not None:
        check_format(errors, f"{path}.appProtocol", port.app_protocol, formats.label_key)


def _check_session_affinity(errors: Errors, spec: core_v1.ServiceSpec) -> None:
    path = "spec.sessionAffinityConfig"
    if spec.session_affinity not in ("ClientIP", "None"):
        errors.append(unsupported("spec.sessionAffinity", spec.session_affinity, ("ClientIP", "None")))
    config = spec.session_affinity_config
    if spec.session_affinity != "ClientIP":
        if config is not None and spec.session_affinity == "None":
            errors.append(forbidden(path, "must not be set when session affinity is None"))
        return
    if config is None:
        errors.append(required(path, "when session affinity type is ClientIP"))
    elif config.client_ip is None:
        errors.append(required(f"{path}.clientIP", "when session affinity type is ClientIP"))
    elif config.client_ip.timeout_seconds is None:
        errors.append(required(f"{path}.clientIP.timeoutSeconds", "when session affinity type is ClientIP"))
    elif not 0 < config.client_ip.timeout_seconds <= 86400:
        text = "must be greater than 0 and less than 86400"
        errors.append(invalid(f"{path}.clientIP.timeoutSeconds", config.client_ip.timeout_seconds, text))


def check_cluster_ips(errors: Errors, spec: core_v1.ServiceSpec) -> None:
    """What is wrong with addresses, families and policy by themselves, whatever the cluster has."""
    addresses = spec.cluster_ips
    if spec.cluster_ip:
        if not addresses:
            errors.append(required("spec.clusterIPs"))
        elif addresses[0] != spec.cluster_ip:
            errors.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif addresses:
        errors.append(invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified"))
    again = repeats(spec.ip_families)
    for index, family in enumerate(spec.ip_families):
        if family not in _FAMILIES:
            errors.append(unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if index in again:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if spec.ip_family_policy is not None and spec.ip_family_policy not in _POLICIES:
        errors.append(unsupported("spec.ipFamilyPolicy", spec.ip_family_policy, _POLICIES))
    valid = True
    for index, address in enumerate(addresses):
        where = f"spec.clusterIPs[{index}]"
        if index == 0 and address == "None":
            if len(addresses) > 1:
                valid = False
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
        elif not check_ip(errors, where, address):
            valid = False
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    if not valid:
        return
    if len(addresses) == 2 and len({_family(address) for address in addresses}) != 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family"))
    for index, (address, family) in enumerate(zip(addresses, spec.ip_families, strict=False)):
        if address != "None" and family in _FAMILIES and _family(address) != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, text))


def _family(address: str) -> str:
    parsed = parse_ip(address)
    return f"IPv{parsed.version}" if parsed is not None else ""


def check_ordinary_ip(errors: Errors, path: str, value: str) -> None:
    """An address that is neither unspecified nor of the loop, the link or a group."""
    address = parse_ip(value)
    if address is None:
        errors.append(invalid(path, value, "must be a valid IP address"))
        return
    if address.is_unspecified:
        errors.append(invalid(path, value, f"may not be unspecified ({value})"))
    if address.is_loopback:
        errors.append(invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if str(address).startswith("224.0.0.") or (address.version == 6 and str(address).startswith("ff02:")):
        errors.append(invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))


def _check_duplicate_ports(errors: Errors, spec: core_v1.ServiceSpec) -> None:
    if spec.type == "ClusterIP":
        for index, port in enumerate(spec.ports):
            if port.node_port:
                errors.append(forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'"))
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        if port.node_port:
            if (port.protocol, port.node_port) in node_ports:
                errors.append(duplicate(f"spec.ports[{index}].nodePort", port.node_port))
            node_ports.add((port.protocol, port.node_port))
    ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        if (port.protocol, port.port) in ports:
            shown = {
                "Name": "",
                "Protocol": port.protocol,
                "AppProtocol": None,
                "Port": port.port,
                "TargetPort": 0,
                "NodePort": 0,
            }
            errors.append(duplicate(f"spec.ports[{index}]", msgspec.Raw(msgspec.json.encode(shown))))
        ports.add((port.protocol, port.port))


def _check_load_balancer(errors: Errors, spec: core_v1.ServiceSpec, annotations: dict[str, str]) -> None:
    is_load_balancer = spec.type == "LoadBalancer"
    if spec.load_balancer_source_ranges:
        if not is_load_balancer:
            errors.append(forbidden("spec.LoadBalancerSourceRanges", _LOAD_BALANCER_ONLY))
        for index, value in enumerate(spec.load_balancer_source_ranges):
            check_cidr(errors, f"spec.LoadBalancerSourceRanges[{index}]", value.strip())
    elif _SOURCE_RANGES in annotations:
        where, value = f"metadata.annotations[{_SOURCE_RANGES}]", annotations[_SOURCE_RANGES].strip()
        if not is_load_balancer:
            errors.append(forbidden(where, _LOAD_BALANCER_ONLY))
        for part in value.split(",") if value else ():
            check_cidr(errors, where, part.strip())
    if spec.allocate_load_balancer_node_ports is not None and not is_load_balancer:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCER_ONLY))
    if is_load_balancer and spec.allocate_load_balancer_node_ports is None:
        errors.append(required("allocateLoadBalancerNodePorts"))
    _check_load_balancer_class(errors, spec)


def _check_load_balancer_class(errors: Errors, spec: core_v1.ServiceSpec) -> None:
    if spec.load_balancer_class is None:
        return
    if spec.type == "LoadBalancer":
        check_format(errors, "spec.loadBalancerClass", spec.load_balancer_class, formats.label_key)
    else:
        errors.append(forbidden("spec.loadBalancerClass", _LOAD_BALANCER_ONLY))


def _check_policies(errors: Errors, spec: core_v1.ServiceSpec) -> None:
    external = spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and bool(spec.external_ips))
    policy = spec.external_traffic_policy
    if not external:
        if policy:
            errors.append(
                invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
            )
    elif not policy:
        errors.append(required("spec.externalTrafficPolicy"))
    elif policy not in ("Cluster", "Local"):
        errors.append(unsupported("spec.externalTrafficPolicy", policy, ("Cluster", "Local")))
    checks_health = spec.type == "LoadBalancer" and policy == "Local"
    if spec.health_check_node_port and not checks_health:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", spec.health_check_node_port, text))
    elif spec.health_check_node_port:
        check_port_number(errors, "spec.healthCheckNodePort", spec.health_check_node_port)
    inside = spec.internal_traffic_policy
    if inside is None and spec.type in ("NodePort", "LoadBalancer", "ClusterIP"):
        errors.append(required("spec.internalTrafficPolicy"))
    elif inside is not None and inside not in ("Cluster", "Local"):
        errors.append(unsupported("spec.internalTrafficPolicy", inside, ("Cluster", "Local")))
    if spec.traffic_distribution is not None and spec.traffic_distribution not in _DISTRIBUTIONS:
        errors.append(unsupported_text("spec.trafficDistribution", spec.traffic_distribution, _DISTRIBUTIONS))


def validate_service_update(new: core_v1.Service, old: core_v1.Service) -> list[FieldError]:
    """Addresses and families stay once set, unless the type changes from or to ExternalName."""
    errors: list[FieldError] = []
    spec, before = new.spec, old.spec
    if spec.type != "ExternalName" and before.type != "ExternalName":
        _check_primary(errors, "spec.clusterIPs", spec.cluster_ips, before.cluster_ips)
        if "None" not in before.cluster_ips:
            _check_primary(errors, "spec.ipFamilies", spec.ip_families, before.ip_families)
    if before.type == spec.type == "LoadBalancer" and before.load_balancer_class != spec.load_balancer_class:
        errors.append(invalid("spec.loadBalancerClass", spec.load_balancer_class, "may not change once set"))
    _check_load_balancer_class(errors, spec)
    checks_health = all(one.type == "LoadBalancer" and one.external_traffic_policy == "Local" for one in (spec, before))
    if checks_health and spec.health_check_node_port != before.health_check_node_port:
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _check_primary(errors: Errors, path: str, new: tuple[str, ...], old: tuple[str, ...]) -> None:
    for index, value in enumerate(old[:2]):
        if len(new) <= index:
            if index == 0:
                errors.append(invalid(f"{path}[0]", new or None, "primary clusterIP can not be unset"))
        elif new[index] != value:
            errors.append(invalid(f"{path}[{index}]", new, "may not change once set"))


def check_load_balancer_status(
    errors: Errors, path: str, status: core_v1.LoadBalancerStatus, service_type: str
) -> None:
    """`status.loadBalancer` of a service."""
    if service_type != "LoadBalancer" and status.ingress:
        errors.append(forbidden(f"{path}.ingress", "may only be used when `spec.type` is 'LoadBalancer'"))
        return
    for index, ingress in enumerate(status.ingress):
        where = f"{path}.ingress[{index}]"
        if ingress.ip:
            check_ip(errors, f"{where}.ip", ingress.ip)
        if ingress.ip_mode is None:
            if ingress.ip:
                errors.append(required(f"{where}.ipMode", "must be specified when `ip` is set"))
        elif not ingress.ip:
            errors.append(forbidden(f"{where}.ipMode", "may not be specified when `ip` is not set"))
        elif ingress.ip_mode not in ("Proxy", "VIP"):
            errors.append(unsupported(f"{where}.ipMode", ingress.ip_mode, ("Proxy", "VIP")))
        check_ingress_hostname(errors, where, ingress.hostname)


def check_ingress_hostname(errors: Errors, path: str, hostname: str) -> None:
    """The host name of an entry of a load balancer's status."""
    if hostname:
        check_format(errors, f"{path}.hostname", hostname, formats.dns_subdomain)
        if parse_ip(hostname) is not None:
            errors.append(invalid(f"{path}.hostname", hostname, "must be a DNS name, not an IP address"))


def _headless_warnings(spec: core_v1.ServiceSpec) -> Iterator[str]:
    """What means nothing where there is no address."""
    if spec.load_balancer_ip:
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.external_ips:
        yield "spec.externalIPs is ignored for headless services"
    if spec.session_affinity != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def service_warnings(service: core_v1.Service, old: core_v1.Service | None) -> list[str]:
    """Warnings about an accepted service."""
    found: list[str] = []
    spec = service.spec
    if _TOPOLOGY_HINTS in service.metadata.annotations:
        found.append(f"annotation {_TOPOLOGY_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead")
    if spec.cluster_ip not in ("", "None"):
        for index, address in enumerate(spec.cluster_ips):
            found.extend(ip_warnings(f"spec.clusterIPs[{index}]", address))
    is_headless = spec.type == "ClusterIP" and spec.cluster_ip == "None"
    if is_headless:
        found.extend(_headless_warnings(spec))
    for index, address in enumerate(spec.external_ips):
        found.extend(ip_warnings(f"spec.externalIPs[{index}]", address))
    if spec.external_ips and not is_headless and spec.type != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.load_balancer_ip:
        found.extend(ip_warnings("spec.loadBalancerIP", spec.load_balancer_ip))
    found.extend(
        cidr_list_warnings("spec.loadBalancerSourceRanges", [one.strip() for one in spec.load_balancer_source_ranges])
    )
    if spec.type == "ExternalName" and spec.external_ips:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.type != "ExternalName" and spec.external_name:
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.traffic_distribution == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found
