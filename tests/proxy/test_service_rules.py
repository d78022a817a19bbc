"""What services add to the table: the facts of kube-proxy's own tests."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1, discovery_v1
from bayplan.proxy.families import IPV4, IPV6
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_items import Chain, Element, Item, ItemKind, Items, SetDefinition
from bayplan.proxy.rules.table_options import TableOptions, local_by_interface, local_by_range
from tests.proxy.objects import NODE, endpoint, endpoint_slice, service

LOCAL = local_by_range(IPV4, "10.0.0.0/8")
MARK = "mark set mark or 0x004000"


def table(*objects: core_v1.Service | discovery_v1.EndpointSlice, **options: Any) -> Items:
    """The whole table with these objects."""
    usual: dict[str, Any] = {"family": IPV4, "node_name": NODE, "local_traffic": LOCAL}
    made = DesiredTable(TableOptions(**{**usual, **options}))
    for one in objects:
        if isinstance(one, core_v1.Service):
            made.put_service(one)
        else:
            made.put_slice(one)
    made.changes()
    return made.items()


def shown(items: Items) -> set[str]:
    """What services add, as lines."""
    lines = set()
    for item, value in (items.items() - table().items()) if items else ():
        if isinstance(value, Chain):
            lines |= {f"{item.name}: {rule}" for rule in value.rules}
        elif isinstance(value, SetDefinition):
            lines.add(f"{item.name} = {value.definition}")
        else:
            comment = f' "{value.comment}"' if value.comment else ""
            lines.add(f"{item.name} {{ {item.key}{comment}{' : ' * bool(value.verdict)}{value.verdict} }}")
    return lines


def test_a_cluster_ip_has_a_chain_with_its_endpoints() -> None:
    found = table(
        service("svc1", "172.30.0.41", namespace="ns1"),
        endpoint_slice("svc1", endpoint("10.180.0.1", local=True), namespace="ns1"),
    )
    assert shown(found) == {
        "service-ULMVA6XW-ns1/svc1/tcp/p80: meta l4proto tcp dnat ip addr . port to numgen random mod 1 map { 0 : 10.180.0.1 . 80 }",
        "cluster-ips { 172.30.0.41 }",
        "service-ips { 172.30.0.41 . tcp . 80 : goto service-ULMVA6XW-ns1/svc1/tcp/p80 }",
        "hairpin-connections { 10.180.0.1 . 10.180.0.1 . tcp . 80 }",
    }


def test_a_load_balancer_of_policy_local_without_endpoints_here_drops_what_comes_from_outside() -> None:
    base = "42NFTM6N-ns2/svc2/tcp/p80"
    found = table(
        service(
            "svc2",
            "172.30.0.42",
            namespace="ns2",
            node_ports=(3001,),
            balancers=("1.2.3.4",),
            external_ips=("192.168.99.22",),
            external_traffic_policy="Local",
            health_check_node_port=30000,
        ),
        endpoint_slice("svc2", "10.180.0.2", namespace="ns2"),
    )
    assert shown(found) == {
        f"service-{base}: meta l4proto tcp dnat ip addr . port to numgen random mod 1 map {{ 0 : 10.180.0.2 . 80 }}",
        f'external-{base}: ip saddr 10.0.0.0/8 goto service-{base} comment "short-circuit pod traffic"',
        f'external-{base}: fib saddr type local {MARK} comment "masquerade local traffic"',
        f'external-{base}: fib saddr type local goto service-{base} comment "short-circuit local traffic"',
        "cluster-ips { 172.30.0.42 }",
        f"service-ips {{ 172.30.0.42 . tcp . 80 : goto service-{base} }}",
        f"service-ips {{ 192.168.99.22 . tcp . 80 : goto external-{base} }}",
        f"service-ips {{ 1.2.3.4 . tcp . 80 : goto external-{base} }}",
        f"service-nodeports {{ tcp . 3001 : goto external-{base} }}",
        'no-endpoint-nodeports { tcp . 3001 "ns2/svc2:p80" : drop }',
        'no-endpoint-services { 1.2.3.4 . tcp . 80 "ns2/svc2:p80" : drop }',
        'no-endpoint-services { 192.168.99.22 . tcp . 80 "ns2/svc2:p80" : drop }',
    }


def test_with_an_endpoint_here_it_ends_in_the_local_chain() -> None:
    found = table(
        service("web", "10.96.0.1", balancers=("1.2.3.4",), external_traffic_policy="Local"),
        endpoint_slice("web", endpoint("10.1.0.1", local=True), "10.2.0.1"),
        local_traffic=None,
    )
    chains = {item.name.partition("-")[0]: value for item, value in found.items() if "/" in item.name}
    base = next(item.name for item in found if item.name.startswith("local-")).removeprefix("local-")
    external = chains["external"]
    assert isinstance(external, Chain)
    assert external.rules == (
        f'fib saddr type local {MARK} comment "masquerade local traffic"',
        f'fib saddr type local goto service-{base} comment "short-circuit local traffic"',
        f"goto local-{base}",
    )
    assert chains["local"] == Chain(
        ("meta l4proto tcp dnat ip addr . port to numgen random mod 1 map { 0 : 10.1.0.1 . 80 }",)
    )
    assert not [item for item in found if item.name == "no-endpoint-services" and item.kind is ItemKind.ELEMENT]


def test_node_ports_and_external_ips_masquerade_first() -> None:
    base = "LAUZTJTB-ns4/svc4/tcp/p80"
    found = table(
        service("svc4", "172.30.0.44", namespace="ns4", type="NodePort", external_ips=("192.168.99.33",)),
        endpoint_slice("svc4", "10.180.0.4", endpoint("10.180.0.5", local=True), namespace="ns4"),
    )
    assert shown(found) == {
        f"service-{base}: meta l4proto tcp dnat ip addr . port to numgen random mod 2 map {{ 0 : 10.180.0.4 . 80, 1 : 10.180.0.5 . 80 }}",
        f'external-{base}: {MARK} comment "masquerade"',
        f"external-{base}: goto service-{base}",
        "cluster-ips { 172.30.0.44 }",
        f"service-ips {{ 172.30.0.44 . tcp . 80 : goto service-{base} }}",
        f"service-ips {{ 192.168.99.33 . tcp . 80 : goto external-{base} }}",
        "hairpin-connections { 10.180.0.5 . 10.180.0.5 . tcp . 80 }",
    }


def test_affinity_and_source_ranges_have_chains_and_sets_of_their_own() -> None:
    base, end = "HVFWP5L3-ns5/svc5/tcp/p80", "GTK6MW7G-ns5/svc5/tcp/p80__10.180.0.3/80"
    found = table(
        service(
            "svc5",
            "172.30.0.45",
            namespace="ns5",
            node_ports=(3002,),
            balancers=("5.6.7.8",),
            affinity=10800,
            load_balancer_source_ranges=(" 203.0.113.0/25",),
        ),
        endpoint_slice("svc5", endpoint("10.180.0.3", local=True), namespace="ns5"),
    )
    assert shown(found) == {
        f"affinity-{end} = type ipv4_addr ; flags dynamic, timeout ; timeout 10800s",
        f"service-{base}: ip saddr @affinity-{end} goto endpoint-{end}",
        f"service-{base}: numgen random mod 1 vmap {{ 0 : goto endpoint-{end} }}",
        f'external-{base}: {MARK} comment "masquerade"',
        f"external-{base}: goto service-{base}",
        f"endpoint-{end}: update @affinity-{end} {{ ip saddr }}",
        f"endpoint-{end}: meta l4proto tcp dnat to 10.180.0.3:80",
        f"firewall-{base}: ip saddr != {{ 203.0.113.0/25 }} drop",
        "cluster-ips { 172.30.0.45 }",
        f"service-ips {{ 172.30.0.45 . tcp . 80 : goto service-{base} }}",
        f"service-ips {{ 5.6.7.8 . tcp . 80 : goto external-{base} }}",
        f"service-nodeports {{ tcp . 3002 : goto external-{base} }}",
        f"firewall-ips {{ 5.6.7.8 . tcp . 80 : goto firewall-{base} }}",
        "hairpin-connections { 10.180.0.3 . 10.180.0.3 . tcp . 80 }",
    }


def test_services_without_endpoints_reject_at_every_address() -> None:
    found = table(
        service(
            "svc6",
            "172.30.0.46",
            node_ports=(3003,),
            balancers=("5.6.7.8",),
            external_ips=("192.168.99.33",),
            external_traffic_policy="Local",
        ),
        endpoint_slice("svc6", endpoint("10.1.0.1", local=True, ready=False)),
    )
    assert shown(found) == {
        "cluster-ips { 172.30.0.46 }",
        'no-endpoint-services { 172.30.0.46 . tcp . 80 "ns/svc6:p80" : goto reject-chain }',
        'no-endpoint-services { 5.6.7.8 . tcp . 80 "ns/svc6:p80" : goto reject-chain }',
        'no-endpoint-services { 192.168.99.33 . tcp . 80 "ns/svc6:p80" : goto reject-chain }',
        'no-endpoint-nodeports { tcp . 3003 "ns/svc6:p80" : goto reject-chain }',
    }


def test_the_internal_policy_local_drops_without_endpoints_here() -> None:
    found = table(service("web", "10.96.0.1", internal_traffic_policy="Local"), endpoint_slice("web", "10.2.0.1"))
    assert shown(found) == {
        "cluster-ips { 10.96.0.1 }",
        'no-endpoint-services { 10.96.0.1 . tcp . 80 "ns/web:p80" : drop }',
    }


def test_sctp_and_ipv6_differ_in_words_only() -> None:
    found = table(
        service("web", "fd96::1", ports=(("s", "SCTP", 80),), affinity=5),
        endpoint_slice("web", endpoint("fd00:0:0::2", local=True), ports=(("s", "SCTP", 8080),)),
        family=IPV6,
        local_traffic=local_by_range(IPV6, "fd00::/16"),
    )
    rules = [
        rule for item, value in found.items() if "/" in item.name and isinstance(value, Chain) for rule in value.rules
    ]
    assert "meta l4proto sctp dnat to [fd00::2]:8080" in rules
    assert any(rule.startswith("update @affinity-") and rule.endswith("{ ip6 saddr }") for rule in rules)
    assert Item(ItemKind.ELEMENT, "service-ips", "fd96::1 . sctp . 80") in found
    assert Item(ItemKind.ELEMENT, "hairpin-connections", "fd00::2 . fd00::2 . sctp . 8080") in found


@pytest.mark.parametrize(
    ("node_address", "ranges", "allowed"),
    [
        ("192.0.2.1", ("192.0.2.0/24",), "192.0.2.0/24, 203.0.113.1"),
        ("198.51.100.1", ("192.0.2.0/24",), "192.0.2.0/24"),
        ("", ("192.0.2.0/24", "192.0.0.0/16"), "192.0.0.0/16"),
    ],
    ids=["the node is allowed", "the node is not", "overlaps"],
)
def test_load_balancers_let_the_node_in_if_its_address_is_allowed(
    node_address: str, ranges: tuple[str, ...], allowed: str
) -> None:
    made = service("web", "10.96.0.1", balancers=("203.0.113.1",), load_balancer_source_ranges=ranges)
    found = table(made, endpoint_slice("web", "10.1.0.1"), node_address=node_address)
    (chain,) = (value for item, value in found.items() if item.name.startswith("firewall-") and "/" in item.name)
    assert chain == Chain((f"ip saddr != {{ {allowed} }} drop",))


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (
            {},
            f'ip daddr @cluster-ips ip saddr != 10.0.0.0/8 {MARK} comment "masquerade clusterIP traffic from outside cluster"',
        ),
        ({"masquerade_all": True}, f'ip daddr @cluster-ips {MARK} comment "masquerade all clusterIP traffic"'),
        (
            {"masquerade_bit": 5, "masquerade_all": True},
            'ip daddr @cluster-ips mark set mark or 0x000020 comment "masquerade all clusterIP traffic"',
        ),
        (
            {"local_traffic": local_by_interface("cni0")},
            f'ip daddr @cluster-ips iifname != "cni0" {MARK} comment "masquerade clusterIP traffic from outside cluster"',
        ),
        ({"local_traffic": None}, "ip daddr . meta l4proto . th dport vmap @service-ips"),
    ],
)
def test_what_is_masqueraded_follows_from_the_options(options: dict[str, Any], first: str) -> None:
    services = table(**options)[Item(ItemKind.CHAIN, "services")]
    assert isinstance(services, Chain)
    assert services.rules[0] == first


def test_node_ports_are_open_at_chosen_addresses_or_at_all() -> None:
    everywhere = table(node_port_addresses=None)
    chosen = table(node_port_addresses=("127.0.0.1", "192.0.2.1"))
    services = Item(ItemKind.CHAIN, "services")
    for items, match in (
        (everywhere, "fib daddr type local ip daddr != 127.0.0.0/8"),
        (chosen, "ip daddr @nodeport-ips"),
    ):
        chain = items[services]
        assert isinstance(chain, Chain)
        assert chain.rules[-1] == f"{match} meta l4proto . th dport vmap @service-nodeports"
    assert {item.key for item in chosen if item.name == "nodeport-ips" and item.key} == {"192.0.2.1"}
    assert not [item for item in everywhere if item.name == "nodeport-ips"]


def test_unused_addresses_of_services_are_dropped() -> None:
    check = Item(ItemKind.CHAIN, "cluster-ips-check")
    without, chain = table()[check], table(service_ranges=("10.96.0.0/16", "10.96.1.0/24", "10.97.0.0/16"))[check]
    assert isinstance(without, Chain)
    assert isinstance(chain, Chain)
    assert without.rules == ('ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"',)
    assert chain.rules[1] == 'ip daddr { 10.96.0.0/15 } drop comment "Drop traffic to unallocated ClusterIPs"'


def test_an_address_of_two_services_belongs_to_the_first_by_name() -> None:
    both = [
        service(name, address, external_ips=("192.0.2.9",))
        for name, address in (("b", "10.96.0.2"), ("a", "10.96.0.1"))
    ]
    slices = [endpoint_slice(name, "10.1.0.1") for name in ("a", "b")]
    key = Item(ItemKind.ELEMENT, "service-ips", "192.0.2.9 . tcp . 80")
    value = table(*both, *slices)[key]
    assert isinstance(value, Element)
    assert value.verdict.endswith("-ns/a/tcp/p80")


@pytest.mark.parametrize(
    ("endpoints", "spec", "unserved"),
    [
        (("10.2.0.1",), {}, (0, 0)),
        (("10.2.0.1",), {"internal_traffic_policy": "Local"}, (1, 0)),
        (("10.2.0.1",), {"external_traffic_policy": "Local", "node_ports": (30001,)}, (0, 1)),
        (("10.2.0.1",), {"internal_traffic_policy": "Local", "external_traffic_policy": "Local", "node_ports": (30001,)}, (1, 1)),
        ((), {"internal_traffic_policy": "Local", "external_traffic_policy": "Local", "node_ports": (30001,)}, (0, 0)),
    ],
)  # fmt: skip
def test_ports_that_only_the_policy_keeps_from_endpoints_are_counted(
    endpoints: tuple[str, ...], spec: dict[str, Any], unserved: tuple[int, int]
) -> None:
    made = DesiredTable(TableOptions(family=IPV4, node_name=NODE))
    made.put_service(service("web", "10.96.0.1", **spec))
    made.put_service(service("other", "10.96.0.2"))
    made.put_slice(endpoint_slice("web", *endpoints))
    made.put_slice(endpoint_slice("other", endpoint("10.1.0.1", local=True)))
    made.changes()
    assert made.unserved == unserved
    made.put_slice(endpoint_slice("web", endpoint("10.1.0.1", local=True)))
    made.changes()
    assert made.unserved == (0, 0)
