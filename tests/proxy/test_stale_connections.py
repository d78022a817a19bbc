"""Which tracked UDP connections are forgotten: the cases of kube-proxy's own tests, and some more."""

from __future__ import annotations

import pytest

from bayplan.proxy.objects import Endpoint, PortName, ServicePort
from bayplan.proxy.rules.stale_connections import Connection, stale_connections

CLUSTER, BALANCER, EXTERNAL = "10.96.0.1", "203.0.113.1", "203.0.113.2"
SERVING, GONE = "10.1.0.1", "10.1.0.9"


def port(protocol: str = "udp", name: str = "dns") -> ServicePort:
    return ServicePort(
        name=PortName("ns", name, "", protocol),
        cluster_ip=CLUSTER,
        port=53,
        node_port=30053,
        external_ips=(EXTERNAL,),
        load_balancer_ips=(BALANCER,),
        source_ranges=(),
        affinity_seconds=0,
        external_local=False,
        internal_local=False,
    )


def endpoint(address: str, *, serving: bool = True, terminating: bool = False) -> Endpoint:
    return Endpoint(address, 5353, False, serving and not terminating, serving, terminating, frozenset(), frozenset())


def is_stale(destination: str, to: int, source: str, of: int, *endpoints: Endpoint, protocol: str = "udp") -> bool:
    connection = Connection(destination, to, source, of, b"")
    return list(stale_connections([connection], [(port(protocol), endpoints)])) == [connection]


@pytest.mark.parametrize(("address", "to"), [(CLUSTER, 53), (BALANCER, 53), (EXTERNAL, 53), ("192.0.2.1", 30053)])
def test_connections_to_endpoints_that_are_gone_are_stale(address: str, to: int) -> None:
    assert is_stale(address, to, GONE, 5353, endpoint(SERVING))
    assert not is_stale(address, to, SERVING, 5353, endpoint(SERVING), endpoint("10.1.0.2"))


def test_the_port_counts_as_well() -> None:
    assert is_stale(CLUSTER, 53, SERVING, 5354, endpoint(SERVING))


def test_connections_to_something_else_are_left_alone() -> None:
    assert not is_stale(CLUSTER, 54, GONE, 5353, endpoint(SERVING))
    assert not is_stale("192.0.2.1", 53, GONE, 5353, endpoint(SERVING))
    assert not is_stale(CLUSTER, 53, GONE, 5353, endpoint(SERVING), protocol="tcp")


def test_endpoints_that_end_keep_their_clients_while_they_serve() -> None:
    assert not is_stale(CLUSTER, 53, SERVING, 5353, endpoint(SERVING, terminating=True), endpoint("10.1.0.2"))
    assert is_stale(CLUSTER, 53, SERVING, 5353, endpoint(SERVING, serving=False), endpoint("10.1.0.2"))


def test_without_endpoints_nothing_is_forgotten() -> None:
    assert not is_stale(CLUSTER, 53, GONE, 5353)
    assert not is_stale(CLUSTER, 53, GONE, 5353, endpoint(SERVING, serving=False))
