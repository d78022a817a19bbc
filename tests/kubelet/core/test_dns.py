"""How pods find names: resolv.conf, host names, /etc/hosts."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.dns import NodeDns, parse_resolv_conf, pod_dns
from bayplan.kubelet.core.containers.hosts import (
    HostnameError,
    host_network_hosts_file,
    hostname_and_domain,
    hosts_file,
    kernel_hostname,
)
from bayplan.kubelet.runtime.types import DnsConfig
from bayplan.testing.builders import pod

OWN = DnsConfig(("192.0.2.53",), ("corp.example", "cluster.local"), ("timeout:1",))
NODE = NodeDns(("10.0.0.10",), "cluster.local", OWN, ("192.0.2.1",))
CLUSTER = DnsConfig(
    ("10.0.0.10",), ("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"), ("ndots:5",)
)


def dns(node: NodeDns = NODE, **spec: Any) -> DnsConfig:
    found = pod_dns(pod("p", **spec), node, "p_default(u)")
    assert found.warnings == ()
    return found.config


@pytest.mark.parametrize(
    ("policy", "host_network", "expected"),
    [
        ("ClusterFirst", False, CLUSTER),
        ("", False, CLUSTER),
        ("ClusterFirst", True, OWN),
        ("ClusterFirstWithHostNet", True, CLUSTER),
        ("ClusterFirstWithHostNet", False, CLUSTER),
        ("Default", False, OWN),
        ("None", False, DnsConfig()),
    ],
)
def test_the_policy_says_whose_dns_a_pod_has(policy: str, host_network: bool, expected: DnsConfig) -> None:
    assert dns(dns_policy=policy, host_network=host_network) == expected


def test_without_a_domain_of_the_cluster_the_search_is_the_nodes() -> None:
    node = NodeDns(("10.0.0.10",), "", OWN)
    assert dns(node) == DnsConfig(("10.0.0.10",), OWN.searches, ("ndots:5",))


def test_without_a_dns_of_the_cluster_the_nodes_is_used_and_that_is_said() -> None:
    found = pod_dns(pod("p", dns_policy="ClusterFirst"), NodeDns((), "cluster.local", OWN), "p_default(u)")
    assert found.config == OWN
    [(reason, message)] = found.warnings
    assert reason == "MissingClusterDNS"
    assert message == (
        'pod: "p_default(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" '
        'policy. Falling back to "Default" policy.'
    )


@pytest.mark.parametrize(
    ("ips", "servers"),
    [
        (("192.0.2.1",), ("127.0.0.1",)),
        (("fd00::1",), ("::1",)),
        (("192.0.2.1", "fd00::1"), ("127.0.0.1", "::1")),
        ((), ("127.0.0.1",)),
    ],
)
def test_a_node_without_resolv_conf_is_its_own_server(ips: tuple[str, ...], servers: tuple[str, ...]) -> None:
    assert dns(NodeDns(own=None, node_ips=ips), dns_policy="Default") == DnsConfig(servers, (".",))


def test_a_pod_adds_to_what_its_policy_gives() -> None:
    wanted = core_v1.PodDNSConfig(
        nameservers=("10.0.0.10", "192.0.2.99"),
        searches=("cluster.local", "more.example"),
        options=(core_v1.PodDNSConfigOption(name="ndots", value="2"), core_v1.PodDNSConfigOption(name="edns0")),
    )
    assert dns(dns_config=wanted) == DnsConfig(
        ("10.0.0.10", "192.0.2.99"), (*CLUSTER.searches, "more.example"), ("ndots:2", "edns0")
    )
    assert dns(dns_policy="None", dns_config=wanted) == DnsConfig(
        ("10.0.0.10", "192.0.2.99"), ("cluster.local", "more.example"), ("ndots:2", "edns0")
    )


def config(servers: int = 0, searches: tuple[str, ...] = ()) -> core_v1.PodDNSConfig:
    return core_v1.PodDNSConfig(nameservers=tuple(f"192.0.2.{number}" for number in range(servers)), searches=searches)


def _long(count: int) -> tuple[str, ...]:
    """Domains of 204 characters: ten of them and the blanks between are one more than fit into a line."""
    return tuple(f"{number:0204d}" for number in range(count))


@pytest.mark.parametrize(
    ("wanted", "servers", "searches", "message"),
    [
        (
            config(servers=4),
            3,
            0,
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
            "192.0.2.0 192.0.2.1 192.0.2.2",
        ),
        (config(servers=3), 3, 0, ""),
        (config(searches=tuple(f"s{number}" for number in range(33))), 0, 32, "Search Line limits were exceeded"),
        (config(searches=tuple(f"s{number}" for number in range(32))), 0, 32, ""),
        (config(searches=("a" * 254, "b")), 0, 1, "the applied search line is: b"),
        (config(searches=("a" * 253, "b")), 0, 2, ""),
        (config(searches=(*_long(9), "x" * 203)), 0, 10, ""),
        (config(searches=(*_long(9), "x" * 204)), 0, 9, "Search Line limits were exceeded"),
    ],
)
def test_what_resolvers_cannot_take_is_left_out_and_said(
    wanted: core_v1.PodDNSConfig, servers: int, searches: int, message: str
) -> None:
    found = pod_dns(pod("p", dns_policy="None", dns_config=wanted), NODE, "p")
    assert (len(found.config.servers), len(found.config.searches)) == (servers, searches)
    assert [reason for reason, _ in found.warnings] == (["DNSConfigForming"] if message else [])
    assert all(message in text for _, text in found.warnings)


def test_resolv_conf_is_read_as_resolvers_read_it() -> None:
    text = """# a comment
nameserver 192.0.2.1
  nameserver   192.0.2.2  # trailing
nameserver
search old.example
search one.example. . two.example
options ndots:1 edns0
options ndots:3
domain ignored.example
"""
    assert parse_resolv_conf(text) == DnsConfig(
        ("192.0.2.1", "192.0.2.2"), ("one.example", "two.example"), ("ndots:3", "edns0")
    )
    assert parse_resolv_conf("") == DnsConfig()


@pytest.mark.parametrize(
    ("spec", "name", "domain"),
    [
        ({}, "web-0", ""),
        ({"hostname": "h"}, "h", ""),
        ({"subdomain": "sub"}, "web-0", "sub.default.svc.cluster.local"),
        ({"hostname": "h", "subdomain": "sub"}, "h", "sub.default.svc.cluster.local"),
        ({"hostname_override": "over.example", "hostname": "h", "subdomain": "sub"}, "over.example", ""),
    ],
)
def test_a_pods_name_on_the_network(spec: dict[str, str], name: str, domain: str) -> None:
    assert hostname_and_domain(pod("web-0", **spec), "cluster.local") == (name, domain)  # type: ignore[arg-type]


def test_names_are_cut_to_what_the_kernel_takes() -> None:
    assert hostname_and_domain(pod("a" * 64), "")[0] == "a" * 63
    assert hostname_and_domain(pod("a" * 61 + "--b"), "")[0] == "a" * 61
    assert hostname_and_domain(pod("a" * 62 + ".b"), "")[0] == "a" * 62


def test_the_full_name_is_the_host_name_on_request() -> None:
    asked = {"hostname": "h", "subdomain": "s"}
    assert kernel_hostname(pod("p", **asked), "c") == "h"  # type: ignore[arg-type]
    full = pod("p", set_hostname_as_fqdn=True, **asked)  # type: ignore[arg-type]
    assert kernel_hostname(full, "c") == "h.s.default.svc.c"
    assert kernel_hostname(pod("p", set_hostname_as_fqdn=True), "c") == "p"
    domain = "x" * (64 - len("h.s.default.svc."))
    assert len(kernel_hostname(full, domain)) == 64
    with pytest.raises(HostnameError) as error:
        kernel_hostname(full, domain + "x")
    assert str(error.value).endswith("is too long (64 is the max characters, 65 characters requested)")


HEAD = (
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
)
ALIASES = (
    core_v1.HostAlias(ip="192.0.2.7", hostnames=("a", "b.example")),
    core_v1.HostAlias(ip="fd00::7", hostnames=("c",)),
)


def test_etc_hosts_names_the_pod() -> None:
    assert hosts_file(pod("p"), ("10.1.0.5",), "c") == f"{HEAD}10.1.0.5\tp\n"
    named = pod("p", subdomain="s")
    assert hosts_file(named, ("10.1.0.5", "fd01::5"), "c") == (
        f"{HEAD}10.1.0.5\tp.s.default.svc.c\tp\nfd01::5\tp.s.default.svc.c\tp\n"
    )


def test_etc_hosts_has_the_pods_aliases() -> None:
    added = "\n# Entries added by HostAliases.\n192.0.2.7\ta\tb.example\nfd00::7\tc\n"
    assert hosts_file(pod("p", host_aliases=ALIASES), ("10.1.0.5",), "") == f"{HEAD}10.1.0.5\tp\n{added}"
    of_node = host_network_hosts_file(pod("p", host_network=True, host_aliases=ALIASES), "127.0.0.1 localhost\n")
    assert of_node == f"# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n{added}"
