"""Builders of what the zone is made from, and the objects of CoreDNS' own tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.dns.lookups import Lookups
from bayplan.dns.records import Lookup, Record, RecordType
from bayplan.dns.zone import Zone

DOMAIN = "cluster.local"
HTTP = ("http", "TCP", 80)


def service(
    name: str,
    *addresses: str,
    ports: Sequence[tuple[str, str, int]] = (HTTP,),
    namespace: str = "testns",
    **spec: Any,
) -> core_v1.Service:
    """A Service with these cluster IPs ("None": headless)."""
    return core_v1.Service(
        metadata=meta_v1.ObjectMeta(name=name, namespace=namespace),
        spec=core_v1.ServiceSpec(
            cluster_ip=addresses[0] if addresses else "",
            cluster_ips=addresses,
            ports=tuple(core_v1.ServicePort(name=one, protocol=protocol, port=port) for one, protocol, port in ports),
            **spec,
        ),
    )


def external(name: str, target: str) -> core_v1.Service:
    return service(name, ports=(), type="ExternalName", external_name=target)


def endpoint(address: str, hostname: str | None = None, *, ready: bool | None = True) -> discovery_v1.Endpoint:
    return discovery_v1.Endpoint(
        addresses=(address,), hostname=hostname, conditions=discovery_v1.EndpointConditions(ready=ready)
    )


def endpoint_slice(
    name: str,
    service_name: str,
    *endpoints: discovery_v1.Endpoint,
    ports: Sequence[tuple[str, str, int | None]] = (HTTP,),
    namespace: str = "testns",
    labels: Mapping[str, str] | None = None,
    address_type: str = "IPv4",
) -> discovery_v1.EndpointSlice:
    return discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(
            name=name, namespace=namespace, labels={"kubernetes.io/service-name": service_name, **(labels or {})}
        ),
        address_type=address_type,
        endpoints=endpoints,
        ports=tuple(discovery_v1.EndpointPort(name=one, protocol=protocol, port=port) for one, protocol, port in ports),
    )


def zone() -> Zone:
    """The objects of CoreDNS' plugin/kubernetes/handler_test.go, and a few more."""
    made = Zone()
    made.add_namespace("testns")
    made.add_namespace("empty")
    for one in (
        service("svc1", "10.0.0.1"),
        service("svc6", "1234:abcd::1"),
        service("svc-dual-stack", "10.0.0.3", "10::3"),
        service("two-ports", "10.0.0.9", ports=(HTTP, ("metrics", "UDP", 9090))),
        service("portless", "10.0.0.10", ports=()),
        service("pending"),
        service("hdls1", "None"),
        service("hdlsprtls", "None", ports=()),
        service("hdls-empty", "None"),
        service("starting", "None"),
        service("published", "None", publish_not_ready_addresses=True),
        external("external", "ext.interwebs.test"),
        external("to-service", "svc1.testns.svc.Cluster.Local."),
        external("to-nothing", "nothing.testns.svc.cluster.local"),
        external("to-itself", "to-itself.testns.svc.cluster.local"),
        external("to-address", "1.2.3.4"),
        external("chain", "to-service.testns.svc.cluster.local"),
    ):
        made.put_service(one)
    for part in (
        endpoint_slice("svc1-a", "svc1", endpoint("172.0.0.1", "ep1a"), endpoint("172.0.0.9", ready=False)),
        endpoint_slice(
            "hdls1-a",
            "hdls1",
            endpoint("172.0.0.2"),
            endpoint("172.0.0.3", ready=None),
            endpoint("172.0.0.4", "dup-name"),
            endpoint("172.0.0.5", "dup-name"),
        ),
        endpoint_slice("hdls1-b", "hdls1", endpoint("5678:abcd::1"), endpoint("5678:abcd::"), address_type="IPv6"),
        endpoint_slice("hdlsprtls-a", "hdlsprtls", endpoint("172.0.0.20"), ports=()),
        endpoint_slice("starting-a", "starting", endpoint("172.0.0.30", "db-0", ready=False)),
        endpoint_slice("published-a", "published", endpoint("172.0.0.31", "db-0", ready=False)),
        endpoint_slice("orphan-a", "orphan", endpoint("172.0.0.40")),
    ):
        made.put_slice(part)
    return made


def lookups(made: Zone | None = None) -> Lookups:
    return Lookups(made or zone(), DOMAIN, ttl=5, addresses=("192.0.2.53",))


def find(made: Lookups, name: str, kind: str) -> Lookup:
    """What a name below the domain has."""
    return made.find(tuple(name.split(".")) if name else (), RecordType[kind])


def shown(record: Record) -> str:
    """`NAME TYPE DATA`, with SRV's weight and port before the target, and the domain left out."""
    data = f"{record.weight} {record.port} {record.data}" if record.type == RecordType.SRV else record.data
    return f"{record.name or '@'} {record.type.name} {data}".replace(f".{DOMAIN}", "")
