"""Services with endpoints, which the DNS server and the service proxy are measured with."""

from __future__ import annotations

from typing import Final

from bayplan.api.types import core_v1, discovery_v1, meta_v1

SERVICES: Final = 1_000
ENDPOINTS: Final = 5
TITLE: Final = f"{SERVICES:,} services with {ENDPOINTS} endpoints each"


def service(index: int) -> core_v1.Service:
    """A service with one port."""
    address = f"10.96.{index // 250}.{index % 250 + 1}"
    return core_v1.Service(
        metadata=meta_v1.ObjectMeta(name=f"service-{index}", namespace="shop"),
        spec=core_v1.ServiceSpec(
            cluster_ip=address,
            cluster_ips=(address,),
            ports=(core_v1.ServicePort(name="http", protocol="TCP", port=80),),
        ),
    )


def endpoint_slice(index: int, generation: int = 0) -> discovery_v1.EndpointSlice:
    """Its endpoints. generation: from 1 to 127, another one has another first address."""
    numbers = range(index * ENDPOINTS, (index + 1) * ENDPOINTS)
    addresses = [f"10.128.{number // 250}.{number % 250 + 1}" for number in numbers]
    if generation:
        addresses[0] = f"10.{generation}.{index // 250}.{index % 250 + 1}"
    return discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(
            name=f"service-{index}-x", namespace="shop", labels={"kubernetes.io/service-name": f"service-{index}"}
        ),
        address_type="IPv4",
        endpoints=tuple(discovery_v1.Endpoint(addresses=(address,)) for address in addresses),
        ports=(discovery_v1.EndpointPort(name="http", protocol="TCP", port=8080),),
    )
