"""The part of the table that is there without any service: base chains, dispatch by maps, masquerading, checks. Pure.

A packet to a service meets, in this order: `firewall-check` (source ranges of load balancers), `services` (destination NAT by `service-ips` and
`service-nodeports`), after routing `service-endpoints-check` and `nodeport-endpoints-check` (nobody serves), `cluster-ips-check` (nobody has that address),
and `masquerading`.
"""

from __future__ import annotations

from typing import Final

from bayplan.proxy.families import is_loopback, merged
from bayplan.proxy.rules.table_items import Chain, Element, Items, SetDefinition, chain, element, named_set
from bayplan.proxy.rules.table_options import TableOptions

SERVICES: Final = "services"
SERVICE_IPS: Final = "service-ips"
SERVICE_NODE_PORTS: Final = "service-nodeports"
NODE_PORT_IPS: Final = "nodeport-ips"
CLUSTER_IPS: Final = "cluster-ips"
NO_ENDPOINT_SERVICES: Final = "no-endpoint-services"
NO_ENDPOINT_NODE_PORTS: Final = "no-endpoint-nodeports"
FIREWALL_IPS: Final = "firewall-ips"
HAIRPIN_CONNECTIONS: Final = "hairpin-connections"
REJECT: Final = "reject-chain"
_SERVICE_ENDPOINTS_CHECK: Final = "service-endpoints-check"
_NODE_PORT_ENDPOINTS_CHECK: Final = "nodeport-endpoints-check"
_FIREWALL_CHECK: Final = "firewall-check"
_CLUSTER_IPS_CHECK: Final = "cluster-ips-check"
_MASQUERADING: Final = "masquerading"
_NEW: Final = "ct state new jump"

BASE_CHAINS: Final = {
    # Source ranges are compared while the destination is still that of the load balancer. The kernel can reject in these hooks only since 5.9.
    "filter-prerouting-pre-dnat": Chain((f"{_NEW} {_FIREWALL_CHECK}",), "type filter hook prerouting priority -110"),
    "filter-output-pre-dnat": Chain((f"{_NEW} {_FIREWALL_CHECK}",), "type filter hook output priority -110"),
    "filter-input": Chain(
        (f"{_NEW} {_NODE_PORT_ENDPOINTS_CHECK}", f"{_NEW} {_SERVICE_ENDPOINTS_CHECK}"),
        "type filter hook input priority 0",
    ),
    "filter-forward": Chain(
        (f"{_NEW} {_SERVICE_ENDPOINTS_CHECK}", f"{_NEW} {_CLUSTER_IPS_CHECK}"), "type filter hook forward priority 0"
    ),
    "filter-output": Chain(
        (f"{_NEW} {_SERVICE_ENDPOINTS_CHECK}", f"{_NEW} {_CLUSTER_IPS_CHECK}"), "type filter hook output priority 0"
    ),
    "nat-prerouting": Chain((f"jump {SERVICES}",), "type nat hook prerouting priority -100"),
    "nat-output": Chain((f"jump {SERVICES}",), "type nat hook output priority -100"),
    "nat-postrouting": Chain((f"jump {_MASQUERADING}",), "type nat hook postrouting priority 100"),
}
"""Chains that the kernel calls: name -> content."""


def base_items(options: TableOptions) -> Items:
    """Everything but services."""
    found: Items = {chain(name): content for name, content in BASE_CHAINS.items()}
    found.update(_sets(options))
    found.update({chain(name): Chain(rules) for name, rules in _rules(options).items()})
    for address in options.node_port_addresses or ():
        if not is_loopback(address):
            found[element(NODE_PORT_IPS, address)] = Element()
    return found


def _sets(options: TableOptions) -> Items:
    address = options.family.address_type
    by_address = f"type {address} . inet_proto . inet_service : verdict"
    by_port = "type inet_proto . inet_service : verdict"
    found: Items = {
        named_set(HAIRPIN_CONNECTIONS): SetDefinition(
            f"type {address} . {address} . inet_proto . inet_service", comment="service hairpin connections"
        ),
        named_set(CLUSTER_IPS): SetDefinition(f"type {address}", comment="Active ClusterIPs"),
        named_set(NO_ENDPOINT_SERVICES): SetDefinition(
            by_address, True, "vmap to drop or reject packets to services with no endpoints"
        ),
        named_set(NO_ENDPOINT_NODE_PORTS): SetDefinition(
            by_port, True, "vmap to drop or reject packets to service nodeports with no endpoints"
        ),
        named_set(FIREWALL_IPS): SetDefinition(
            by_address, True, "destinations that are subject to LoadBalancerSourceRanges"
        ),
        named_set(SERVICE_IPS): SetDefinition(by_address, True, "ClusterIP, ExternalIP and LoadBalancer IP traffic"),
        named_set(SERVICE_NODE_PORTS): SetDefinition(by_port, True, "NodePort traffic"),
    }
    if options.node_port_addresses is not None:
        found[named_set(NODE_PORT_IPS)] = SetDefinition(f"type {address}", comment="IPs that accept NodePort traffic")
    return found


def _rules(options: TableOptions) -> dict[str, tuple[str, ...]]:
    ip = options.family.nft
    by_address = f"{ip} daddr . meta l4proto . th dport vmap"
    by_port = "meta l4proto . th dport vmap"
    if options.node_port_addresses is None:
        to_node, to_local = options.family.not_loopback, f"fib daddr type local {options.family.not_loopback}"
    else:
        to_node = to_local = f"{ip} daddr @{NODE_PORT_IPS}"
    mark = options.masquerade_mark
    return {
        _FIREWALL_CHECK: (f"{by_address} @{FIREWALL_IPS}",),
        SERVICES: (
            *_masquerade_cluster_ips(options),
            f"{by_address} @{SERVICE_IPS}",
            f"{to_local} {by_port} @{SERVICE_NODE_PORTS}",
        ),
        _SERVICE_ENDPOINTS_CHECK: (f"{by_address} @{NO_ENDPOINT_SERVICES}",),
        _NODE_PORT_ENDPOINTS_CHECK: (f"{to_node} {by_port} @{NO_ENDPOINT_NODE_PORTS}",),
        _CLUSTER_IPS_CHECK: _cluster_ips_check(options),
        REJECT: ("reject",),
        _MASQUERADING: (
            f"mark and {mark} != 0 mark set mark xor {mark} masquerade fully-random",
            f"ct status dnat {ip} saddr . {ip} daddr . meta l4proto . th dport @{HAIRPIN_CONNECTIONS} masquerade fully-random",
        ),
    }


def _masquerade_cluster_ips(options: TableOptions) -> tuple[str, ...]:
    """Traffic from outside may leave for another node, whose answer has to come back this way."""
    to_cluster_ips = f"{options.family.nft} daddr @{CLUSTER_IPS}"
    if options.masquerade_all:
        return (f'{to_cluster_ips} {options.masquerade} comment "masquerade all clusterIP traffic"',)
    if options.local_traffic is not None:
        outside = options.local_traffic.is_not_local
        text = "masquerade clusterIP traffic from outside cluster"
        return (f'{to_cluster_ips} {outside} {options.masquerade} comment "{text}"',)
    return ()


def _cluster_ips_check(options: TableOptions) -> tuple[str, ...]:
    ip = options.family.nft
    rules = [f'{ip} daddr @{CLUSTER_IPS} reject comment "Reject traffic to invalid ports of ClusterIPs"']
    if options.service_ranges:
        ranges = ", ".join(merged(options.service_ranges))
        rules.append(f'{ip} daddr {{ {ranges} }} drop comment "Drop traffic to unallocated ClusterIPs"')
    return tuple(rules)
