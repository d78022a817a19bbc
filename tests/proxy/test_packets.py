"""Where packets go: the rules in a kernel, between namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bayplan.api.types import core_v1
from bayplan.proxy.families import IPV4, IPV6
from bayplan.proxy.rules.table_options import local_by_interface
from tests.namespaces import needs_namespaces
from tests.proxy.network import CLIENT_ADDRESSES, NODE_ADDRESSES, A, B, C, Network, exchange, network
from tests.proxy.node_rules import NodeRules, node_rules
from tests.proxy.objects import endpoint, endpoint_slice, service

pytestmark = [needs_namespaces, pytest.mark.xdist_group("proxy-namespaces")]

WEB, NOBODY = "10.96.0.1", "10.96.0.99"
WEB6 = "fd96::1"
NODE, NODE6 = NODE_ADDRESSES
CLIENT, CLIENT6 = CLIENT_ADDRESSES
BALANCER = "203.0.113.1"
EXTERNAL = "203.0.113.2"
PORTS = (("p80", "TCP", 8080),)
UDP = (("dns", "UDP", 80),)
UDP_PORTS = (("dns", "UDP", 8080),)
NODE_PORT = 30080


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network() as made:
        for address in (BALANCER, EXTERNAL):
            made.client.command("ip", "route", "add", address, "via", NODE)
        yield made


@pytest.fixture
def rules(net: Network) -> Iterator[NodeRules]:
    with node_rules(net) as made:
        yield made


def test_a_cluster_ip_leads_to_an_endpoint_and_clients_outside_are_masqueraded(net: Network, rules: NodeRules) -> None:
    rules.put(service("web", WEB), endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS))
    assert net.ask(net.b, WEB) == "a 10.1.0.3"
    assert net.ask(net.node, WEB) == "a 10.1.0.1"
    assert net.ask(net.client, WEB) == "a 10.1.0.1"


def test_all_endpoints_are_used(net: Network, rules: NodeRules) -> None:
    endpoints = (endpoint(A[0], local=True), endpoint(B[0], local=True), endpoint(C[0]))
    rules.put(service("web", WEB), endpoint_slice("web", *endpoints, ports=PORTS))
    found = Counter(net.ask(net.node, WEB)[0] for _ in range(60))
    assert set(found) == {"a", "b", "c"}
    assert min(found.values()) > 4


def test_a_pod_reaches_itself_through_its_service(net: Network, rules: NodeRules) -> None:
    rules.put(service("web", WEB), endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS))
    assert net.ask(net.a, WEB) == "a 10.1.0.1"


def test_ipv6_works_like_ipv4(net: Network, rules: NodeRules) -> None:
    rules.put(
        service("web", WEB, WEB6, node_ports=(NODE_PORT,)),
        endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS),
        endpoint_slice("web", endpoint(B[1], local=True), ports=PORTS),
    )
    assert net.ask(net.a, WEB6) == "b fd00:1::2"
    assert net.ask(net.b, WEB6) == "b fd00:1::1"
    assert net.ask(net.client, WEB6) == "b fd00:1::1"
    assert net.ask(net.client, NODE6, NODE_PORT) == "b fd00:1::1"
    assert net.ask(net.client, NODE, NODE_PORT) == "a 10.1.0.1"


def test_services_without_endpoints_are_rejected(net: Network, rules: NodeRules) -> None:
    rules.put(service("web", WEB, WEB6, node_ports=(NODE_PORT,), external_ips=(EXTERNAL,)))
    for address, port in ((WEB, 80), (NODE, NODE_PORT), (EXTERNAL, 80)):
        assert net.ask(net.client, address, port) == "refused", address
    assert net.ask(net.a, WEB) == "refused"
    assert net.ask(net.node, WEB) == "refused"
    rules.put(service("dns", "10.96.0.2", "fd96::2", ports=UDP))
    for address in ("10.96.0.2", "fd96::2"):  # not all kernels tell TCP sockets of ICMPv6
        assert net.datagram(net.client, address) == net.datagram(net.a, address) == "refused"


def test_other_ports_of_cluster_ips_are_rejected_and_unused_cluster_ips_stay_inside(
    net: Network, rules: NodeRules
) -> None:
    rules.put(service("web", WEB), endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS))
    assert net.ask(net.a, WEB, 81) == "refused"
    net.c.command("ip", "address", "add", NOBODY, "dev", "lo")  # whoever is outside would answer: refused
    try:
        assert net.ask(net.a, NOBODY) == "nothing"
        assert net.ask(net.node, NOBODY) == "nothing"
        rules.families[0].table.set_options(type(rules.families[0].table.options)(family=IPV4, node_name="this-node"))
        rules.sync()
        assert net.ask(net.node, NOBODY) == "refused"
    finally:
        net.c.command("ip", "address", "del", f"{NOBODY}/32", "dev", "lo")


def test_node_ports_are_open_at_the_nodes_address_only(net: Network, rules: NodeRules) -> None:
    rules.put(service("web", WEB, node_ports=(NODE_PORT,)), endpoint_slice("web", endpoint(C[0]), ports=PORTS))
    assert net.ask(net.client, NODE, NODE_PORT) == "c 192.0.3.1"
    assert net.ask(net.node, NODE, NODE_PORT) == "c 192.0.3.1"
    assert net.ask(net.client, "192.0.3.1", NODE_PORT) == "refused"
    assert net.ask(net.node, "127.0.0.1", NODE_PORT) == "refused"


def test_node_ports_may_be_open_at_all_addresses(net: Network) -> None:
    with node_rules(net, node_port_addresses=None) as rules:
        rules.put(service("web", WEB, node_ports=(NODE_PORT,)))
        assert net.ask(net.client, "192.0.3.1", NODE_PORT) == "refused"
        rules.put(endpoint_slice("web", endpoint(C[0]), ports=PORTS))
        assert net.ask(net.client, "192.0.3.1", NODE_PORT) == "c 192.0.3.1"
        assert net.ask(net.node, "127.0.0.1", NODE_PORT) == "refused"


def test_the_external_policy_local_keeps_client_addresses_and_drops_what_it_cannot_serve(
    net: Network, rules: NodeRules
) -> None:
    web = service("web", WEB, node_ports=(NODE_PORT,), balancers=(BALANCER,), external_traffic_policy="Local")
    rules.put(web, endpoint_slice("web", endpoint(A[0], local=True), endpoint(C[0]), ports=PORTS))
    for address, port in ((NODE, NODE_PORT), (BALANCER, 80)):
        assert {net.ask(net.client, address, port) for _ in range(8)} == {f"a {CLIENT}"}
    assert {net.ask(net.b, BALANCER)[0] for _ in range(30)} == {"a", "c"}  # as if it went out and came back
    rules.put(web, endpoint_slice("web", endpoint(C[0]), ports=PORTS))
    assert net.ask(net.client, BALANCER) == "nothing"
    assert net.ask(net.client, NODE, NODE_PORT) == "nothing"
    assert net.ask(net.b, BALANCER)[0] == "c"
    assert net.ask(net.node, NODE, NODE_PORT)[0] == "c"


def test_endpoints_that_end_serve_until_there_are_others(net: Network, rules: NodeRules) -> None:
    ending = endpoint(A[0], local=True, ready=False, serving=True, terminating=True)
    web = service("web", WEB, balancers=(BALANCER,), external_traffic_policy="Local")
    rules.put(web, endpoint_slice("web", ending, endpoint(C[0]), ports=PORTS))
    assert net.ask(net.client, BALANCER) == f"a {CLIENT}"
    assert net.ask(net.b, WEB)[0] == "c"
    rules.put(endpoint_slice("web", ending, ports=PORTS))
    assert net.ask(net.b, WEB)[0] == "a"
    rules.put(endpoint_slice("web", ending, endpoint(B[0], local=True), ports=PORTS))
    assert {net.ask(net.client, BALANCER)[0] for _ in range(8)} == {"b"}


def test_the_internal_policy_local_stays_on_the_node(net: Network, rules: NodeRules) -> None:
    web = service("web", WEB, internal_traffic_policy="Local")
    rules.put(web, endpoint_slice("web", endpoint(A[0], local=True), endpoint(C[0]), ports=PORTS))
    assert {net.ask(net.b, WEB)[0] for _ in range(8)} == {"a"}
    rules.put(endpoint_slice("web", endpoint(C[0]), ports=PORTS))
    assert net.ask(net.b, WEB) == "nothing"


def test_hints_keep_traffic_in_the_zone(net: Network) -> None:
    with node_rules(net, zone="west") as rules:
        near, far = endpoint(A[0], local=True, zones=("west",)), endpoint(C[0], zones=("east",))
        rules.put(service("web", WEB), endpoint_slice("web", near, far, ports=PORTS))
        assert {net.ask(net.b, WEB)[0] for _ in range(12)} == {"a"}


def test_load_balancers_take_packets_of_their_source_ranges_only(net: Network, rules: NodeRules) -> None:
    slices = endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS)

    def web(*ranges: str) -> core_v1.Service:
        return service("web", WEB, balancers=(BALANCER,), node_ports=(NODE_PORT,), load_balancer_source_ranges=ranges)

    rules.put(web("198.51.100.0/24"), slices)
    assert net.ask(net.client, BALANCER) == "nothing"
    assert net.ask(net.client, NODE, NODE_PORT) == "a 10.1.0.1"
    assert net.ask(net.node, BALANCER) == "nothing"
    rules.put(web("198.51.100.0/24", " 192.0.2.0/24", "192.0.2.128/25"))
    assert net.ask(net.client, BALANCER) == "a 10.1.0.1"
    assert net.ask(net.b, BALANCER) == "nothing"
    rules.put(web("198.51.100.0/24", "0.0.0.0/0"))
    assert net.ask(net.b, BALANCER)[0] == "a"


def test_load_balancers_of_mode_proxy_are_left_alone(net: Network, rules: NodeRules) -> None:
    ingress = core_v1.LoadBalancerIngress(ip=BALANCER, ip_mode="Proxy")
    rules.put(
        service("web", WEB, balancers=(ingress,)),
        endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS),
    )
    assert net.ask(net.b, WEB)[0] == "a"
    net.c.command("ip", "address", "add", BALANCER, "dev", "lo")
    try:
        assert net.ask(net.b, BALANCER) == "refused"  # by the machine that has the address
    finally:
        net.c.command("ip", "address", "del", f"{BALANCER}/32", "dev", "lo")


def test_external_ips_lead_to_endpoints(net: Network, rules: NodeRules) -> None:
    rules.put(
        service("web", WEB, external_ips=(EXTERNAL,)),
        endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS),
    )
    assert net.ask(net.client, EXTERNAL) == "a 10.1.0.1"


def test_a_client_keeps_its_endpoint_for_as_long_as_it_is_there(net: Network, rules: NodeRules) -> None:
    endpoints = (endpoint(A[0], local=True), endpoint(B[0], local=True), endpoint(C[0]))
    rules.put(service("web", WEB, affinity=100), endpoint_slice("web", *endpoints, ports=PORTS))
    first = net.ask(net.client, WEB)[0]
    assert {net.ask(net.client, WEB)[0] for _ in range(12)} == {first}
    rules.put(service("other", "10.96.0.2"), service("web", WEB, affinity=200))
    rest = tuple(one for one, name in zip(endpoints, "abc", strict=True) if name != first)
    rules.put(endpoint_slice("web", *rest, ports=PORTS))
    second = net.ask(net.client, WEB)[0]
    assert second != first
    for family in rules.families:
        family.needs_whole = True
    rules.sync()
    assert {net.ask(net.client, WEB)[0] for _ in range(12)} == {second}


def test_udp_clients_find_new_endpoints_when_theirs_is_gone(net: Network, rules: NodeRules) -> None:
    rules.put(
        service("dns", WEB, ports=UDP, node_ports=(NODE_PORT,)),
        endpoint_slice("dns", endpoint(A[0], local=True), ports=UDP_PORTS),
    )
    with net.datagrams(net.b, WEB) as client, net.datagrams(net.client, NODE, NODE_PORT) as outside:
        assert exchange(client) == "a 10.1.0.3"
        assert exchange(outside) == "a 10.1.0.1"
        rules.put(endpoint_slice("dns", endpoint(A[0], local=True), endpoint(C[0]), ports=UDP_PORTS))
        assert exchange(client) == "a 10.1.0.3"  # it stays while its endpoint serves
        rules.put(endpoint_slice("dns", endpoint(C[0]), ports=UDP_PORTS))
        assert exchange(client)[0] == "c"
        assert exchange(outside)[0] == "c"


def test_udp_clients_that_came_before_the_endpoints_are_served(net: Network, rules: NodeRules) -> None:
    with net.datagrams(net.b, WEB) as client, net.datagrams(net.b, WEB6) as client6:
        rules.put(service("dns", WEB, WEB6, ports=UDP))
        assert exchange(client) == exchange(client6) == "refused"
        rules.put(
            endpoint_slice("dns", endpoint(A[0], local=True), ports=UDP_PORTS),
            endpoint_slice("dns", endpoint(C[1]), ports=UDP_PORTS),
        )
        assert exchange(client) == "a 10.1.0.3"
        assert exchange(client6)[0] == "c"


def test_masquerade_all_hides_pods_as_well(net: Network) -> None:
    with node_rules(net, masquerade_all=True) as rules:
        rules.put(service("web", WEB), endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS))
        assert net.ask(net.b, WEB) == "a 10.1.0.1"


def test_pods_may_be_told_by_their_interfaces(net: Network) -> None:
    with node_rules(net, local_traffic=local_by_interface("veth-*")) as rules:
        rules.put(service("web", WEB), endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS))
        assert net.ask(net.b, WEB) == "a 10.1.0.3"
        assert net.ask(net.client, WEB) == "a 10.1.0.1"


def test_removed_services_leave_nothing(net: Network, rules: NodeRules) -> None:
    before = rules.kernel.names(IPV4), rules.kernel.names(IPV6)
    web = service("web", WEB, node_ports=(NODE_PORT,), balancers=(BALANCER,), affinity=10)
    slices = endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS)
    rules.put(web, slices)
    assert net.ask(net.b, WEB)[0] == "a"
    rules.remove(web, slices)
    assert net.ask(net.b, WEB) == "nothing"
    rules.delete_stale()
    assert (rules.kernel.names(IPV4), rules.kernel.names(IPV6)) == before


def test_rules_that_others_change_are_written_anew(net: Network, rules: NodeRules) -> None:
    rules.put(service("web", WEB), endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS))
    rules.check()
    net.node.command("nft", "add table ip somebody; delete table ip somebody")
    rules.check()
    assert not any(one.needs_whole for one in rules.families)
    net.node.command("nft", f"delete element ip kube-proxy cluster-ips {{ {WEB} }}")
    rules.check()
    assert [one.needs_whole for one in rules.families] == [True, False]
    rules.sync()
    assert WEB in net.node.command("nft", "list", "set", "ip", "kube-proxy", "cluster-ips")
    rules.check()
    assert not any(one.needs_whole for one in rules.families)
