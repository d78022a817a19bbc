"""KubeProxyConfiguration: defaults, what is refused, and what follows from it for a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.proxy.configuration import KubeProxyConfiguration, from_tree, read_tree
from bayplan.proxy.errors import ConfigurationError
from bayplan.proxy.families import IPV4, IPV6
from bayplan.proxy.node import (
    NO_NODE,
    NodeFacts,
    local_traffic,
    node_addresses,
    node_facts,
    node_port_ranges,
    wanted_sysctls,
)
from bayplan.support.configuration import to_tree

NFTABLES = {"masqueradeBit": 14, "masqueradeAll": False, "syncPeriod": "30s", "minSyncPeriod": "1s"}
HEAD = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}


def configured(**fields: Any) -> KubeProxyConfiguration:
    return from_tree({**HEAD, **fields}, "FILE")


def test_an_empty_file_has_kube_proxys_defaults() -> None:
    found = configured()
    assert (found.mode, found.bind_address, found.detect_local_mode) == ("nftables", "0.0.0.0", "ClusterCIDR")
    assert (found.healthz_bind_address, found.metrics_bind_address) == ("0.0.0.0:10256", "127.0.0.1:10249")
    tree = to_tree(found)
    assert tree["nftables"] == NFTABLES
    assert tree["conntrack"] == {
        "maxPerCore": 32768,
        "min": 131072,
        "tcpEstablishedTimeout": "24h0m0s",
        "tcpCloseWaitTimeout": "1h0m0s",
        "tcpBeLiberal": False,
        "udpTimeout": "0s",
        "udpStreamTimeout": "0s",
    }
    assert (found.oom_score_adj, tree["configSyncPeriod"]) == (-999, "15m0s")
    assert found.node_port_addresses == ["primary"]
    assert from_tree(to_tree(found), "again") == found


@pytest.mark.parametrize(
    ("fields", "healthz", "metrics"),
    [
        ({"bindAddress": "::"}, "[::]:10256", "[::1]:10249"),
        ({"healthzBindAddress": "10.0.0.1"}, "10.0.0.1:10256", "127.0.0.1:10249"),
        ({"healthzBindAddress": "10.0.0.1:1"}, "10.0.0.1:1", "127.0.0.1:10249"),
        ({"metricsBindAddress": "fd00::1"}, "0.0.0.0:10256", "[fd00::1]:10249"),
        ({"metricsBindAddress": "[fd00::1]"}, "0.0.0.0:10256", "[fd00::1]:10249"),
        ({"metricsBindAddress": "[fd00::1]:1"}, "0.0.0.0:10256", "[fd00::1]:1"),
    ],
)
def test_addresses_get_the_ports_that_they_lack(fields: dict[str, Any], healthz: str, metrics: str) -> None:
    found = configured(**fields)
    assert (found.healthz_bind_address, found.metrics_bind_address) == (healthz, metrics)


def test_zero_and_null_stand_for_no_value() -> None:
    nftables = {"syncPeriod": "0s", "minSyncPeriod": "0", "masqueradeBit": None}
    found = configured(nftables=nftables, nodePortAddresses=None, conntrack=None, mode="", configSyncPeriod="0s")
    tree = to_tree(found)
    assert tree["nftables"] == NFTABLES
    assert (found.conntrack.min, found.mode, tree["configSyncPeriod"]) == (131072, "nftables", "15m0s")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "iptables"}, "mode: 'iptables': bayplan proxy has the mode nftables only"),
        ({"mode": "ipvs"}, "mode: 'ipvs': bayplan proxy has the mode nftables only"),
        ({"mode": "x"}, "mode: 'x': must be nftables or blank"),
        ({"mod": "x"}, "unknown field `mod`"),
        ({"nftables": {"x": 1}}, "unknown field `x` - at `$.nftables`"),
        ({"nftables": {"masqueradeBit": 32}}, "nftables.masqueradeBit: 32: must be within the range [0, 31]"),
        ({"iptables": {"masqueradeBit": -1}}, "iptables.masqueradeBit: -1: must be within the range [0, 31]"),
        ({"nftables": {"syncPeriod": "1s", "minSyncPeriod": "2s"}}, "nftables.syncPeriod: must be greater than or"),
        ({"nftables": {"syncPeriod": "-1s"}}, "'-1s' is no duration"),
        ({"nftables": {"syncPeriod": 5}}, "Expected a duration such as `1m0s`"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: -1: must be greater than or equal to 0"),
        ({"bindAddress": "x"}, "bindAddress: 'x': not a valid textual representation"),
        ({"healthzBindAddress": "x:1"}, "healthzBindAddress: 'x': must be a valid IP"),
        ({"healthzBindAddress": "1.2.3.4:x"}, "healthzBindAddress: 'x': must be a valid port"),
        ({"metricsBindAddress": "1.2.3.4:65536"}, "metricsBindAddress: '65536': must be a valid port"),
        ({"metricsBindAddress": "[::1"}, "metricsBindAddress: '[::1:10249': must be IP:port"),
        ({"nodePortAddresses": ["10.0.0.1"]}, "nodePortAddresses[0]: '10.0.0.1': must be a valid CIDR"),
        ({"nodePortAddresses": ["10.0.0.0/8", "primary"]}, "nodePortAddresses[1]: 'primary': can't use both"),
        ({"detectLocalMode": "x"}, "detectLocalMode: 'x': must be one of ClusterCIDR, NodeCIDR"),
        ({"detectLocalMode": "BridgeInterface"}, "detectLocal.bridgeInterface: must not be empty"),
        ({"detectLocalMode": "InterfaceNamePrefix"}, "detectLocal.interfaceNamePrefix: must not be empty"),
        (
            {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": 'a" accept'}},
            "must be the name of an interface",
        ),
        ({"clusterCIDR": "10.0.0.0"}, "clusterCIDR: '10.0.0.0': must be a valid CIDR block"),
        ({"clusterCIDR": "10.0.0.0/8,10.1.0.0/16"}, "clusterCIDR: must be a single CIDR or a dual-stack pair"),
        ({"conntrack": {"min": -1}}, "conntrack.min: -1: must be greater than or equal to 0"),
        ({"conntrack": {"maxPerCore": -1}}, "conntrack.maxPerCore: -1: must be greater than or equal to 0"),
        ({"oomScoreAdj": -1001}, "oomScoreAdj: -1001: must be within the range [-1000, 1000]"),
        ({"kind": "x"}, "FILE: expected kind KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1"),
        ({"apiVersion": "v1"}, "FILE: expected kind KubeProxyConfiguration"),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(**fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"nftables": {"masqueradeBit": 31}},
        {"nftables": {"masqueradeBit": 0}},
        {"nftables": {"syncPeriod": "2s", "minSyncPeriod": "2s"}},
        {"oomScoreAdj": -1000},
        {"oomScoreAdj": 1000},
        {"clusterCIDR": "10.0.0.0/8, fd00::/16"},
        {"healthzBindAddress": "0.0.0.0:65535"},
        {"conntrack": {"maxPerCore": 0, "min": 0, "udpTimeout": "10s"}, "winkernel": {"enableDSR": False}},
    ],
)
def test_values_at_the_limits_are_taken(fields: dict[str, Any]) -> None:
    assert configured(**fields).mode == "nftables"


def test_files_are_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("kind: KubeProxyConfiguration\n")
    assert read_tree(path) == {"kind": "KubeProxyConfiguration"}
    for text in ("[]", "a: b: c", ""):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=str(path)):
            read_tree(path)
    with pytest.raises(ConfigurationError, match="missing"):
        read_tree(tmp_path / "missing")


def node(*addresses: tuple[str, str], **spec: Any) -> core_v1.Node:
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name="n", labels={"topology.kubernetes.io/zone": "west"}),
        spec=core_v1.NodeSpec(**spec),
        status=core_v1.NodeStatus(
            addresses=tuple(core_v1.NodeAddress(type=kind, address=address) for kind, address in addresses)
        ),
    )


def test_a_node_has_one_address_of_each_family_internal_ones_first() -> None:
    found = node_facts(
        node(
            ("ExternalIP", "198.51.100.1"),
            ("Hostname", "n"),
            ("InternalIP", "192.0.2.1"),
            ("InternalIP", "192.0.2.2"),
            ("ExternalIP", "2001:db8::1"),
            pod_cidrs=("10.1.0.5/24", "fd00::/64"),
        )
    )
    assert found == NodeFacts("west", ("192.0.2.1", "2001:db8::1"), ("10.1.0.0/24", "fd00::/64"))
    assert node_facts(None) == NO_NODE
    assert node_facts(node(pod_cidr="10.2.0.0/24")).pod_ranges == ("10.2.0.0/24",)
    assert node_addresses(found, "0.0.0.0") == {IPV4: "192.0.2.1", IPV6: "2001:db8::1"}
    assert node_addresses(found, "192.0.2.9") == {IPV4: "192.0.2.9", IPV6: "2001:db8::1"}
    assert node_addresses(NO_NODE, "::") == {}


def test_primary_stands_for_the_nodes_addresses() -> None:
    addresses = {IPV4: "192.0.2.1", IPV6: "::1"}
    assert node_port_ranges(configured(), addresses) == ["192.0.2.1/32"]
    chosen = configured(nodePortAddresses=["192.0.2.9/24", "2001:db8::/32"])
    assert node_port_ranges(chosen, addresses) == ["192.0.2.0/24", "2001:db8::/32"]


@pytest.mark.parametrize(
    ("fields", "four", "six"),
    [
        ({}, None, None),
        ({"clusterCIDR": "10.0.0.0/8"}, "ip saddr 10.0.0.0/8", None),
        ({"clusterCIDR": "10.0.0.0/8,fd00::/16"}, "ip saddr 10.0.0.0/8", "ip6 saddr fd00::/16"),
        ({"detectLocalMode": "NodeCIDR", "clusterCIDR": "10.0.0.0/8"}, "ip saddr 10.1.0.0/24", "ip6 saddr fd00:1::/64"),
        (
            {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}},
            'iifname "cni0"',
            'iifname "cni0"',
        ),
        (
            {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "cali"}},
            'iifname "cali*"',
            'iifname "cali*"',
        ),
    ],
)
def test_local_traffic_is_told_as_configured(fields: dict[str, Any], four: str | None, six: str | None) -> None:
    facts = NodeFacts("", (), ("10.1.0.0/24", "fd00:1::/64"))
    for family, expected in ((IPV4, four), (IPV6, six)):
        found = local_traffic(configured(**fields), family, facts)
        assert (found.is_local if found else None) == expected
        assert found is None or found.is_not_local.replace("!= ", "") == expected


@pytest.mark.parametrize(
    ("conntrack", "cpus", "maximum"),
    [
        ({}, 2, 131072),
        ({}, 5, 163840),
        ({}, 33, 1048576),
        ({"maxPerCore": 0}, 8, None),
        ({"maxPerCore": 1, "min": 0}, 8, 8),
    ],
)
def test_the_limit_of_connections_grows_with_the_machine(
    conntrack: dict[str, Any], cpus: int, maximum: int | None
) -> None:
    assert wanted_sysctls(configured(conntrack=conntrack), cpus).get("nf_conntrack_max") == maximum


def test_connections_are_kept_for_kube_proxys_times() -> None:
    assert wanted_sysctls(configured(), 2) == {
        "nf_conntrack_max": 131072,
        "nf_conntrack_tcp_timeout_established": 86400,
        "nf_conntrack_tcp_timeout_close_wait": 3600,
    }


def test_only_what_is_configured_is_set() -> None:
    nothing = {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    assert wanted_sysctls(configured(conntrack=nothing), 2) == {}
    more = {**nothing, "tcpBeLiberal": True, "udpTimeout": "10s", "udpStreamTimeout": "1m"}
    assert wanted_sysctls(configured(conntrack=more), 2) == {
        "nf_conntrack_tcp_be_liberal": 1,
        "nf_conntrack_udp_timeout": 10,
        "nf_conntrack_udp_timeout_stream": 60,
    }
