"""Builders of Services and EndpointSlices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.api.types import core_v1, discovery_v1, meta_v1

P80 = ("p80", "TCP", 80)
NODE = "this-node"


def service(
    name: str,
    *addresses: str,
    ports: Sequence[tuple[str, str, int]] = (P80,),
    node_ports: Sequence[int] = (),
    namespace: str = "ns",
    balancers: Sequence[str | core_v1.LoadBalancerIngress] = (),
    affinity: int = 0,
    **spec: Any,
) -> core_v1.Service:
    """A Service with these cluster IPs, one for each family. balancers: ingress IPs of mode VIP, or whole entries."""
    if affinity:
        client_ip = core_v1.ClientIPConfig(timeout_seconds=affinity)
        spec["session_affinity"] = "ClientIP"
        spec["session_affinity_config"] = core_v1.SessionAffinityConfig(client_ip=client_ip)
    spec.setdefault("type", "LoadBalancer" if balancers else "NodePort" if node_ports else "ClusterIP")
    numbers = [*node_ports, *[0] * len(ports)]
    return core_v1.Service(
        metadata=meta_v1.ObjectMeta(name=name, namespace=namespace),
        spec=core_v1.ServiceSpec(
            cluster_ip=addresses[0] if addresses else "",
            cluster_ips=addresses,
            ip_families=tuple("IPv6" if ":" in one else "IPv4" for one in addresses),
            ports=tuple(
                core_v1.ServicePort(name=one, protocol=protocol, port=port, node_port=node_port)
                for (one, protocol, port), node_port in zip(ports, numbers, strict=False)
            ),
            **spec,
        ),
        status=core_v1.ServiceStatus(
            load_balancer=core_v1.LoadBalancerStatus(
                ingress=tuple(
                    one if isinstance(one, core_v1.LoadBalancerIngress) else core_v1.LoadBalancerIngress(ip=one)
                    for one in balancers
                )
            )
        ),
    )


def endpoint(
    address: str,
    *,
    local: bool = False,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    zones: Sequence[str] = (),
    nodes: Sequence[str] = (),
) -> discovery_v1.Endpoint:
    """An endpoint on this node or on another one."""
    hints = discovery_v1.EndpointHints(
        for_zones=tuple(discovery_v1.ForZone(name=one) for one in zones),
        for_nodes=tuple(discovery_v1.ForNode(name=one) for one in nodes),
    )
    return discovery_v1.Endpoint(
        addresses=(address,),
        node_name=NODE if local else "another-node",
        conditions=discovery_v1.EndpointConditions(
            ready=ready, serving=ready if serving is None else serving, terminating=terminating
        ),
        hints=hints if zones or nodes else None,
    )


def endpoint_slice(
    service_name: str,
    *endpoints: discovery_v1.Endpoint | str,
    name: str = "",
    ports: Sequence[tuple[str, str, int | None]] = (P80,),
    namespace: str = "ns",
) -> discovery_v1.EndpointSlice:
    """A slice of a service, of the family of its first endpoint. Endpoints that are texts are ready ones on other nodes."""
    made = tuple(endpoint(one) if isinstance(one, str) else one for one in endpoints)
    is_ipv6 = bool(made) and ":" in made[0].addresses[0]
    family = "IPv6" if is_ipv6 else "IPv4"
    return discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(
            name=name or f"{service_name}-{family.lower()}",
            namespace=namespace,
            labels={"kubernetes.io/service-name": service_name},
        ),
        address_type=family,
        endpoints=made,
        ports=tuple(discovery_v1.EndpointPort(name=one, protocol=protocol, port=port) for one, protocol, port in ports),
    )
