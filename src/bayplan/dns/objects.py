"""What the zone keeps of Services and EndpointSlices: little, compared by value, so that changes of the rest cost nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

from bayplan.api.types import core_v1, discovery_v1
from bayplan.dns.records import address_label, is_name

SERVICE_NAME: Final = "kubernetes.io/service-name"
NO_PORT: Final = -1
"""The port of services and endpoints that declare none: they have addresses but no SRV records."""


class Port(NamedTuple):
    """A port by which SRV records are named."""

    name: str
    protocol: str
    """Lower case, as in `_tcp`."""
    number: int


class Endpoint(NamedTuple):
    """One address behind a service."""

    host: str
    """Its label below the service's name, in lower case."""
    address: str
    ready: bool


class EndpointSet(NamedTuple):
    """An EndpointSlice."""

    service: str
    """Key of its service, see `service_key`."""
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...]


class ServiceEntry(NamedTuple):
    """A Service."""

    namespace: str
    name: str
    addresses: tuple[str, ...]
    """Cluster IPs; none for headless and external services."""
    headless: bool
    external: bool
    external_name: str
    """Target of an external service, without the final dot; "" if it has none that a CNAME could name."""
    ports: tuple[Port, ...]
    publish_not_ready: bool


def service_key(namespace: str, name: str) -> str:
    """The key under which changes of a service and of its endpoints are reported."""
    return f"service {namespace}/{name}"


def service_entry(service: core_v1.Service) -> ServiceEntry:
    """What the zone keeps of a Service."""
    spec = service.spec
    addresses = tuple(spec.cluster_ips) or ((spec.cluster_ip,) if spec.cluster_ip else ())
    external = spec.type == "ExternalName"
    headless = not external and addresses[:1] == ("None",)
    return ServiceEntry(
        service.metadata.namespace,
        service.metadata.name,
        () if external or headless else addresses,
        headless,
        external,
        _external_name(spec.external_name) if external else "",
        tuple(Port(one.name.lower(), (one.protocol or "TCP").lower(), one.port) for one in spec.ports)
        or (Port("", "", NO_PORT),),
        spec.publish_not_ready_addresses,
    )


def endpoint_set(part: discovery_v1.EndpointSlice) -> EndpointSet | None:
    """What the zone keeps of an EndpointSlice; None if it belongs to no service or has no IP addresses."""
    service = part.metadata.labels.get(SERVICE_NAME, "")
    if not service or part.address_type not in ("IPv4", "IPv6"):
        return None
    return EndpointSet(
        service_key(part.metadata.namespace, service),
        tuple(_endpoint_port(one) for one in part.ports) or (Port("", "", NO_PORT),),
        tuple(
            Endpoint((one.hostname or address_label(address)).lower(), address, one.conditions.ready is not False)
            for one in part.endpoints
            for address in one.addresses
        ),
    )


def _endpoint_port(port: discovery_v1.EndpointPort) -> Port:
    number = port.port if port.port is not None else NO_PORT
    return Port((port.name or "").lower(), (port.protocol or "TCP").lower(), number)


def _external_name(text: str) -> str:
    """The target of an ExternalName; "" if it is an address or no name, of which CoreDNS makes no record either."""
    name = text.removesuffix(".")
    is_address = ":" in name or name.replace(".", "").isdigit()
    return "" if is_address or not is_name(name) else name
