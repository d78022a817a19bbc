"""What the proxy keeps of Services and EndpointSlices: little, compared by value, so that changes of the rest cost nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bayplan.api.types import core_v1, discovery_v1
from bayplan.proxy.families import Family, canonical, canonical_range, family_of

SERVICE_NAME: Final = "kubernetes.io/service-name"
_AFFINITY_SECONDS: Final = 10_800
"""Of services whose `sessionAffinityConfig` is missing; the API server never leaves it out."""


class PortName(NamedTuple):
    """What identifies a port of a service."""

    namespace: str
    service: str
    port: str
    protocol: str
    """Lower case: tcp, udp or sctp."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.service}" + (f":{self.port}" if self.port else "")


class ServicePort(NamedTuple):
    """A port of a service in one family."""

    name: PortName
    cluster_ip: str
    port: int
    node_port: int
    """0: none."""
    external_ips: tuple[str, ...]
    load_balancer_ips: tuple[str, ...]
    """Addresses of load balancers that deliver packets with the address as destination (ipMode VIP)."""
    source_ranges: tuple[str, ...]
    """Who may use the load balancer; empty: everybody."""
    affinity_seconds: int
    """How long a client keeps its endpoint; 0: no affinity."""
    external_local: bool
    internal_local: bool

    @property
    def externally_accessible(self) -> bool:
        """Whether there is another way to it than the cluster IP."""
        return bool(self.node_port or self.external_ips or self.load_balancer_ips)

    @property
    def uses_cluster_endpoints(self) -> bool:
        """Whether some traffic goes to endpoints of all nodes: of pods and of this node to external addresses also if the policy is Local."""
        return not self.internal_local or self.externally_accessible

    @property
    def uses_local_endpoints(self) -> bool:
        """Whether some traffic stays on this node."""
        return self.internal_local or (self.external_local and self.externally_accessible)


class Endpoint(NamedTuple):
    """One address behind a service port."""

    address: str
    port: int
    local: bool
    """On the proxy's own node."""
    ready: bool
    serving: bool
    terminating: bool
    zones: frozenset[str]
    """Zones that hints name (`hints.forZones`)."""
    nodes: frozenset[str]
    """Nodes that hints name (`hints.forNodes`)."""

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class SliceEntry(NamedTuple):
    """An EndpointSlice of one family."""

    ports: tuple[tuple[str, str, int], ...]
    """(name, protocol in lower case, number)."""
    endpoints: tuple[Endpoint, ...]
    """With port 0: every port of the slice is one of each of them."""


def service_ports(service: core_v1.Service, family: Family) -> tuple[ServicePort, ...]:
    """The ports of a service in a family; none if it has no cluster IP of it, or is external."""
    spec = service.spec
    cluster_ip = _cluster_ip(spec, family)
    if cluster_ip is None or spec.type == "ExternalName":
        return ()
    affinity = _affinity_seconds(spec)
    external = _of_family(spec.external_ips, family)
    balancers = _of_family(
        (one.ip for one in service.status.load_balancer.ingress if one.ip_mode in (None, "", "VIP")), family
    )
    ranges = _source_ranges(spec.load_balancer_source_ranges, family)
    external_local = is_external_local(service)
    namespace, name = service.metadata.namespace, service.metadata.name
    return tuple(
        ServicePort(
            PortName(namespace, name, one.name, (one.protocol or "TCP").lower()),
            cluster_ip,
            one.port,
            one.node_port,
            external,
            balancers,
            ranges,
            affinity,
            external_local,
            spec.internal_traffic_policy == "Local",
        )
        for one in spec.ports
    )


def is_external_local(service: core_v1.Service) -> bool:
    """Whether external traffic stays on the node (`externalTrafficPolicy: Local`, where that means anything)."""
    spec = service.spec
    accessible = spec.type in ("LoadBalancer", "NodePort") or (
        spec.type in ("", "ClusterIP") and bool(spec.external_ips)
    )
    return accessible and spec.external_traffic_policy == "Local"


def health_check_port(service: core_v1.Service) -> int:
    """The port at which load balancers ask whether this node has endpoints; 0: none."""
    if service.spec.type != "LoadBalancer" or not is_external_local(service):
        return 0
    return service.spec.health_check_node_port


def slice_entry(part: discovery_v1.EndpointSlice, family: Family, node_name: str) -> SliceEntry | None:
    """What is kept of an EndpointSlice; None if it is of another family."""
    if part.address_type != family.name:
        return None
    endpoints = []
    for one in part.endpoints:
        address = canonical(one.addresses[0]) if one.addresses else None
        if address is None:
            continue
        conditions, hints = one.conditions, one.hints
        endpoints.append(
            Endpoint(
                address,
                0,
                bool(node_name) and one.node_name == node_name,
                conditions.ready is not False,
                conditions.serving is not False,
                conditions.terminating is True,
                frozenset(zone.name for zone in hints.for_zones) if hints else frozenset(),
                frozenset(node.name for node in hints.for_nodes) if hints else frozenset(),
            )
        )
    ports = tuple((one.name or "", (one.protocol or "TCP").lower(), one.port) for one in part.ports if one.port)
    return SliceEntry(ports, tuple(endpoints))


def endpoints_of(slices: Iterable[SliceEntry], port: str, protocol: str) -> tuple[Endpoint, ...]:
    """The endpoints of a service's port, each once. One that terminates gives way to another with the same address: that has taken it over."""
    found: dict[tuple[str, int], Endpoint] = {}
    for part in slices:
        for name, its_protocol, number in part.ports:
            if name != port or its_protocol != protocol:
                continue
            for one in part.endpoints:
                if not one.terminating or (one.address, number) not in found:
                    found[one.address, number] = one._replace(port=number)
    return tuple(sorted(found.values(), key=str))


def _cluster_ip(spec: core_v1.ServiceSpec, family: Family) -> str | None:
    if spec.ip_families:
        pairs = zip(spec.ip_families, spec.cluster_ips or (spec.cluster_ip,), strict=False)
        return next((canonical(text) for one, text in pairs if one == family.name), None)
    address = canonical(spec.cluster_ip or next(iter(spec.cluster_ips), ""))
    return address if address is not None and family_of(address) is family else None


def _affinity_seconds(spec: core_v1.ServiceSpec) -> int:
    if spec.session_affinity != "ClientIP":
        return 0
    config = spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return seconds or _AFFINITY_SECONDS


def _of_family(texts: Iterable[str], family: Family) -> tuple[str, ...]:
    found = (canonical(text) for text in texts)
    return tuple(dict.fromkeys(one for one in found if one is not None and family_of(one) is family))


def _source_ranges(texts: Iterable[str], family: Family) -> tuple[str, ...]:
    """Ranges of a family; none if one of them is everything."""
    found = (canonical_range(text) for text in texts)
    ranges = tuple(dict.fromkeys(one for one in found if one is not None and family_of(one) is family))
    return () if any(one.endswith("/0") for one in ranges) else ranges
