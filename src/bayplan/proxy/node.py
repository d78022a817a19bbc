"""What rules depend on of the proxy's own node and of the configuration. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bayplan.api.types import core_v1
from bayplan.proxy.configuration import PRIMARY, KubeProxyConfiguration
from bayplan.proxy.families import Family, canonical, canonical_range, family_of, is_loopback
from bayplan.proxy.rules.table_options import LocalTraffic, local_by_interface, local_by_range

ZONE: Final = "topology.kubernetes.io/zone"
_UNSPECIFIED: Final = ("0.0.0.0", "::")


class NodeFacts(NamedTuple):
    """What is taken from a Node object."""

    zone: str
    addresses: tuple[str, ...]
    """The primary address, then that of the other family, if there is one."""
    pod_ranges: tuple[str, ...]


NO_NODE: Final = NodeFacts("", (), ())


def node_facts(node: core_v1.Node | None) -> NodeFacts:
    """The facts of a node that may not be there."""
    if node is None:
        return NO_NODE
    found = [
        address
        for kind in ("InternalIP", "ExternalIP")
        for one in node.status.addresses
        if one.type == kind and (address := canonical(one.address)) is not None
    ]
    first = found[:1]
    other = [one for one in found if family_of(one) is not family_of(found[0])][:1]
    ranges = node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
    canonical_ranges = (canonical_range(one) for one in ranges)
    return NodeFacts(
        node.metadata.labels.get(ZONE, ""), (*first, *other), tuple(one for one in canonical_ranges if one is not None)
    )


def node_addresses(facts: NodeFacts, bind_address: str) -> dict[Family, str]:
    """The node's address of each family; `bindAddress` overrides its own family's, unless it stands for all."""
    found = {family_of(one): one for one in facts.addresses}
    bound = canonical(bind_address)
    if bound is not None and bound not in _UNSPECIFIED:
        found[family_of(bound)] = bound
    return found


def node_port_ranges(configuration: KubeProxyConfiguration, addresses: dict[Family, str]) -> list[str]:
    """The ranges of addresses at which node ports are open; without one of a family all are."""
    if configuration.node_port_addresses == [PRIMARY]:
        return [f"{one}/{family.bits}" for family, one in addresses.items() if not is_loopback(one)]
    ranges = (canonical_range(one) for one in configuration.node_port_addresses)
    return [one for one in ranges if one is not None]


def local_traffic(configuration: KubeProxyConfiguration, family: Family, facts: NodeFacts) -> LocalTraffic | None:
    """How packets of the node's own pods are recognized, by `detectLocalMode`."""
    mode, local = configuration.detect_local_mode, configuration.detect_local
    if mode == "BridgeInterface":
        return local_by_interface(local.bridge_interface)
    if mode == "InterfaceNamePrefix":
        return local_by_interface(f"{local.interface_name_prefix}*")
    ranges: Sequence[str | None] = facts.pod_ranges
    if mode == "ClusterCIDR":
        ranges = [canonical_range(one) for one in configuration.cluster_cidrs]
    own = [one for one in ranges if one is not None and family_of(one) is family]
    return local_by_range(family, own[0]) if own else None


def wanted_sysctls(configuration: KubeProxyConfiguration, cpus: int) -> dict[str, int]:
    """Names below net.netfilter, and their values; what is left as it is does not appear."""
    conntrack = configuration.conntrack
    maximum = 0
    if conntrack.max_per_core:
        scaled = conntrack.max_per_core * cpus
        # At most a million: machines with many cores would spend gigabytes.
        maximum = 1 << 20 if scaled > 1 << 20 else max(scaled, conntrack.min or 0)
    wanted = {
        "nf_conntrack_max": maximum,
        "nf_conntrack_tcp_timeout_established": int(conntrack.tcp_established_timeout or 0),
        "nf_conntrack_tcp_timeout_close_wait": int(conntrack.tcp_close_wait_timeout or 0),
        "nf_conntrack_tcp_be_liberal": int(conntrack.tcp_be_liberal),
        "nf_conntrack_udp_timeout": int(conntrack.udp_timeout),
        "nf_conntrack_udp_timeout_stream": int(conntrack.udp_stream_timeout),
    }
    return {name: value for name, value in wanted.items() if value > 0}
