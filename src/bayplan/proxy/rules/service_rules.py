"""Chains, sets and elements of one service port. Pure.

Traffic reaches `service-*` (policy Cluster) or `local-*` (policy Local) from `service-ips` at the cluster IP. All other ways lead to `external-*` first, which
masquerades or, where the policy is Local, sends what comes from this node and its pods on to all endpoints. With affinity each endpoint has a chain and a set of
the clients that it serves; without, destinations are a map in one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.proxy.families import contains, merged
from bayplan.proxy.objects import Endpoint, ServicePort
from bayplan.proxy.rules import base_rules
from bayplan.proxy.rules.names import AFFINITY, endpoint_base, port_base
from bayplan.proxy.rules.table_items import Chain, Element, Items, SetDefinition, chain, element, named_set
from bayplan.proxy.rules.table_options import TableOptions
from bayplan.proxy.topology import UsableEndpoints, usable_endpoints


class PortRules(NamedTuple):
    """What one service port adds to the table."""

    items: Items
    no_internal_endpoints: bool
    """There are endpoints, but the internal policy allows none of them on this node."""
    no_external_endpoints: bool
    """Likewise the external policy."""


def port_rules(port: ServicePort, endpoints: Sequence[Endpoint], options: TableOptions) -> PortRules:
    """The rules of a service port with these endpoints."""
    usable = usable_endpoints(port, endpoints, options.node_name, options.zone)
    return _Rules(port, usable, options).made()


class _Rules:
    """Collects the items of one port."""

    def __init__(self, port: ServicePort, usable: UsableEndpoints, options: TableOptions) -> None:
        self._port = port
        self._usable = usable
        self._options = options
        self._items: Items = {}
        base = port_base(port.name)
        self._cluster, self._local = f"service-{base}", f"local-{base}"
        self._external, self._firewall = f"external-{base}", f"firewall-{base}"
        self._has_internal = bool(usable.local) if port.internal_local else usable.anywhere
        self._has_external = bool(usable.local) if port.external_local else usable.anywhere

    def made(self) -> PortRules:
        port, usable = self._port, self._usable
        if port.uses_cluster_endpoints and usable.cluster:
            self._policy_chain(self._cluster, usable.cluster)
        if port.uses_local_endpoints and usable.local:
            self._policy_chain(self._local, usable.local)
        if port.affinity_seconds:
            for one in usable.reachable:
                self._affinity(one)
        for one in usable.reachable:
            if one.local:
                key = f"{one.address} . {one.address} . {port.name.protocol} . {one.port}"
                self._items[element(base_rules.HAIRPIN_CONNECTIONS, key)] = Element()
        if usable.anywhere and port.externally_accessible:
            self._items[chain(self._external)] = Chain(self._external_rules())
        self._addresses()
        missing_external = usable.anywhere and not self._has_external
        return PortRules(self._items, usable.anywhere and not self._has_internal, missing_external)

    def _policy_chain(self, name: str, endpoints: Sequence[Endpoint]) -> None:
        port, ip = self._port, self._options.family.nft
        if not port.affinity_seconds:
            targets = ", ".join(f"{index} : {one.address} . {one.port}" for index, one in enumerate(endpoints))
            choice = f"numgen random mod {len(endpoints)} map {{ {targets} }}"
            self._items[chain(name)] = Chain((f"meta l4proto {port.name.protocol} dnat {ip} addr . port to {choice}",))
            return
        bases = [endpoint_base(port.name, one) for one in endpoints]
        known = [f"{ip} saddr @{AFFINITY}{base} goto endpoint-{base}" for base in bases]
        targets = ", ".join(f"{index} : goto endpoint-{base}" for index, base in enumerate(bases))
        self._items[chain(name)] = Chain((*known, f"numgen random mod {len(bases)} vmap {{ {targets} }}"))

    def _affinity(self, endpoint: Endpoint) -> None:
        port, family = self._port, self._options.family
        base = endpoint_base(port.name, endpoint)
        # The kernel adds the flag "dynamic" to sets that rules update; where it was not asked for, the set could not be added again.
        definition = f"type {family.address_type} ; flags dynamic, timeout ; timeout {port.affinity_seconds}s"
        self._items[named_set(f"{AFFINITY}{base}")] = SetDefinition(definition)
        self._items[chain(f"endpoint-{base}")] = Chain(
            (
                f"update @{AFFINITY}{base} {{ {family.nft} saddr }}",
                f"meta l4proto {port.name.protocol} dnat to {endpoint}",
            )
        )

    def _external_rules(self) -> tuple[str, ...]:
        options = self._options
        rules = []
        if not self._port.external_local:
            rules.append(f'{options.masquerade} comment "masquerade"')
        else:
            # What starts on this node has no client address to keep, and would go out to the load balancer and come back anywhere.
            onwards = f"goto {self._cluster}"
            if options.local_traffic is not None:
                rules.append(f'{options.local_traffic.is_local} {onwards} comment "short-circuit pod traffic"')
            rules.append(f'fib saddr type local {options.masquerade} comment "masquerade local traffic"')
            rules.append(f'fib saddr type local {onwards} comment "short-circuit local traffic"')
        if self._has_external:
            rules.append(f"goto {self._local if self._port.external_local else self._cluster}")
        return tuple(rules)

    def _addresses(self) -> None:
        """Where the port is reached, and what becomes of packets that nobody serves: rejected if there are no endpoints at all, else dropped."""
        port, items = self._port, self._items
        items[element(base_rules.CLUSTER_IPS, port.cluster_ip)] = Element()
        internal = self._local if port.internal_local else self._cluster
        at_cluster_ip = f"{port.cluster_ip} . {port.name.protocol} . {port.port}"
        if self._has_internal:
            items[element(base_rules.SERVICE_IPS, at_cluster_ip)] = Element(f"goto {internal}")
        else:
            items[element(base_rules.NO_ENDPOINT_SERVICES, at_cluster_ip)] = self._unserved()
        for address in dict.fromkeys((*port.external_ips, *port.load_balancer_ips)):
            key = f"{address} . {port.name.protocol} . {port.port}"
            self._way_in(base_rules.SERVICE_IPS, base_rules.NO_ENDPOINT_SERVICES, key)
        if port.node_port:
            key = f"{port.name.protocol} . {port.node_port}"
            self._way_in(base_rules.SERVICE_NODE_PORTS, base_rules.NO_ENDPOINT_NODE_PORTS, key)
        if port.load_balancer_ips and port.source_ranges:
            self._source_ranges()

    def _way_in(self, served: str, unserved: str, key: str) -> None:
        if self._usable.anywhere:
            self._items[element(served, key)] = Element(f"goto {self._external}")
        if not self._has_external:
            self._items[element(unserved, key)] = self._unserved()

    def _unserved(self) -> Element:
        verdict = "drop" if self._usable.anywhere else f"goto {base_rules.REJECT}"
        return Element(verdict, str(self._port.name))

    def _source_ranges(self) -> None:
        port, options = self._port, self._options
        sources = list(port.source_ranges)
        node = options.node_address
        if node and any(contains(one, node) for one in port.source_ranges):
            # The address is often local to the node, which then is the source of the node's own packets to it.
            sources += port.load_balancer_ips
        allowed = ", ".join(merged(sources))
        self._items[chain(self._firewall)] = Chain((f"{options.family.nft} saddr != {{ {allowed} }} drop",))
        for address in port.load_balancer_ips:
            key = f"{address} . {port.name.protocol} . {port.port}"
            self._items[element(base_rules.FIREWALL_IPS, key)] = Element(f"goto {self._firewall}")
