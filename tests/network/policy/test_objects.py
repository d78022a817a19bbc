"""What is kept of pods and policies."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.selectors.labels import from_map
from bayplan.api.types import core_v1, networking_v1
from bayplan.network.policy.addresses import Family
from bayplan.network.policy.objects import (
    ContainerPort,
    PodSelection,
    PolicyEntry,
    PortMatch,
    Rule,
    pod_entry,
    policy_entry,
)
from tests.network.policy import objects as make
from tests.network.policy.objects import block, from_pods, port, selector


def entry(policy: networking_v1.NetworkPolicy) -> PolicyEntry:
    found = policy_entry(policy)
    assert found is not None
    return found


def test_a_pod_is_its_labels_addresses_and_named_ports() -> None:
    found = pod_entry(
        make.pod(
            "web",
            "10.1.0.1",
            "fd00:0::1",
            node="there",
            ports=[("http", "TCP", 80), ("", "TCP", 81), ("dns", "UDP", 53)],
        ),
        "here",
    )
    assert found is not None
    assert found.addresses == ("10.1.0.1", "fd00::1")
    assert (found.is_local, found.labels) == (False, {"app": "web"})
    assert found.ports == (ContainerPort("http", "TCP", 80), ContainerPort("dns", "UDP", 53))


def test_a_pod_with_one_address_only_has_that_one() -> None:
    pod = core_v1.Pod(status=core_v1.PodStatus(pod_ip="10.1.0.1"))
    found = pod_entry(pod, "here")
    assert found is not None
    assert found.addresses == ("10.1.0.1",)


@pytest.mark.parametrize(
    ("pod", "is_kept"),
    [
        (make.pod("a"), True),
        (make.pod("a", node="there"), False),
        (make.pod("a", "10.1.0.1", node="there"), True),
        (make.pod("a", "no address", node="there"), False),
        (make.pod("a", "10.1.0.1", phase="Pending"), True),
        (make.pod("a", "10.1.0.1", phase="Failed"), False),
        (make.pod("a", "10.1.0.1", phase="Succeeded"), False),
        (make.pod("a", "10.1.0.1", host_network=True), False),
    ],
)
def test_pods_matter_with_an_address_or_on_this_node_where_they_will_have_one(pod: core_v1.Pod, is_kept: bool) -> None:
    assert (pod_entry(pod, "here") is not None) is is_kept


def container(name: str, *ports: int, restart: str | None = None) -> core_v1.Container:
    made = tuple(core_v1.ContainerPort(name="http", container_port=one, protocol="TCP") for one in ports)
    return core_v1.Container(name=name, image="app:1", ports=made, restart_policy=restart)


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([container("a", 80), container("b", 81)], [], [80]),
        ([container("a", 80)], [container("i", 82, restart="Always")], [80]),
        ([container("a")], [container("i", 82, restart="Always")], [82]),
        ([container("a")], [container("i", 82)], []),
    ],
    ids=["first container", "container before sidecar", "sidecar", "init container"],
)
def test_a_named_port_is_the_first_of_containers_and_sidecars(
    containers: list[core_v1.Container], init: list[core_v1.Container], expected: list[int]
) -> None:
    spec = core_v1.PodSpec(node_name="here", containers=tuple(containers), init_containers=tuple(init))
    found = pod_entry(core_v1.Pod(spec=spec), "here")
    assert found is not None
    assert [one.number for one in found.ports] == expected


def test_equal_rules_are_written_once_in_few_ranges() -> None:
    ports = [port(80), port(81), port(90, end=99), port("b"), port("a"), port(None, "UDP"), port(53, "UDP")]
    peers = [from_pods("web"), from_pods("web"), block("10.0.0.0/9"), block("10.128.0.0/9"), block("fd00::/127")]
    found = entry(make.policy("p", ingress=[(peers, ports)]))
    assert found.egress is None
    assert found.ingress is not None
    (rule,) = found.ingress
    assert rule.ports == (PortMatch("TCP", ((80, 81), (90, 99)), ("a", "b")), PortMatch("UDP", (), ()))
    assert rule.peers is not None
    assert rule.peers.selections == (PodSelection("shop", None, from_map({"app": "web"})),)
    assert rule.peers.blocks[Family.IPV4] == ((10 << 24, (11 << 24) - 1),)
    assert [last - first for first, last in rule.peers.blocks[Family.IPV6]] == [1]


@pytest.mark.parametrize(
    ("peers", "ports", "problem"),
    [
        ([block("10.0.0.0/33")], [], "'10.0.0.0/33' does not appear to be an IPv4 or IPv6 network"),
        ([block("10.0.0.0/8", "x")], [], "'x' does not appear to be an IPv4 or IPv6 network"),
        ([make.from_namespaces(selector({}, ("a", "Near", ())))], [], '"Near" is not a valid label selector operator'),
        ([networking_v1.NetworkPolicyPeer()], [], "a peer has none of podSelector, namespaceSelector and ipBlock"),
        ([], [port(80, "ICMP")], "protocol 'ICMP' is none of TCP, UDP, SCTP"),
    ],
)
def test_what_makes_no_sense_allows_nothing_and_is_named(peers: Any, ports: Any, problem: str) -> None:
    found = entry(make.policy("p", ingress=[(peers, ports), make.EVERYTHING], egress=[]))
    assert found.problems == (problem,)
    assert found.ingress is not None
    broken, everything = found.ingress
    assert everything == Rule(None, None)
    if ports:
        assert broken.ports == ()
    else:
        assert broken.peers is not None
        assert (broken.peers.selections, any(broken.peers.blocks.values())) == ((), False)


def test_a_policy_whose_pods_nobody_can_tell_is_not_kept() -> None:
    assert policy_entry(make.policy("p", selector({}, ("a", "Near", ())), ingress=[])) is None
