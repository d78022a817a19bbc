"""What an update of a service keeps, carries over and drops, as kube-apiserver 1.36.2 does before it allocates."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.strategies.core.services import STRATEGY, needs_health_check, needs_node_port
from bayplan.api.types import core_v1

Tree = dict[str, Any]
BALANCED = {"type": "LoadBalancer", "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"]}
LOCAL = {**BALANCED, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30090}
DUAL = {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5", "fd00::5"]}
FAMILIES = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
X, Y = {"name": "x", "port": 80, "nodePort": 30080}, {"name": "y", "port": 81, "nodePort": 30081}


def service(spec: Tree) -> core_v1.Service:
    found: core_v1.Service = codec.from_tree(core_v1.Service, {"metadata": {"name": "s"}, "spec": spec})
    return found


def updated(old: Tree, new: Tree) -> core_v1.ServiceSpec:
    before, after = service(old), service(new)
    STRATEGY.default(after)
    STRATEGY.prepare_update(after, before)
    return after.spec


def ports(*given: Tree, **more: Any) -> Tree:
    return {"ports": given, **more}


@pytest.mark.parametrize(
    ("old", "new", "node_ports"),
    [
        pytest.param([X, Y], [{"name": "x", "port": 90}, {"name": "y", "port": 80}], [30080, 30081], id="by name"),
        pytest.param([X], [{"name": "z", "port": 80}], [0], id="a port of another name is new"),
        pytest.param([X], [{"name": "z", "port": 90, "nodePort": 30080}, {"name": "x", "port": 80}], [30080, 0], id="taken by another"),
        pytest.param([X, Y], [{"name": "x", "port": 80, "nodePort": 30090}], [30090], id="its own stays"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_ports_keep_their_node_ports(kind: str, old: list[Tree], new: list[Tree], node_ports: list[int]) -> None:
    spec = updated(ports(*old, type=kind), ports(*new, type=kind))
    assert [port.node_port for port in spec.ports] == node_ports


@pytest.mark.parametrize(
    ("old", "new", "node_ports"),
    [
        pytest.param({"type": "NodePort"}, {"type": "ClusterIP"}, [0, 0], id="they go with the type"),
        pytest.param({"type": "LoadBalancer"}, {"type": "ClusterIP"}, [0, 0], id="they go with a load balancer"),
        pytest.param({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, {"type": "ClusterIP"}, [0, 0], id="also if none were allocated"),
        pytest.param({"type": "NodePort"}, {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, [30080, 30081], id="load balancers may have them"),
        pytest.param({"type": "ClusterIP"}, {"type": "ClusterIP"}, [30080, 30081], id="there were none to go"),
        pytest.param({"type": "NodePort"}, {"type": "NodePort"}, [30080, 30081], id="they stay"),
    ],
)  # fmt: skip
def test_node_ports_that_are_not_new_go_with_the_type(old: Tree, new: Tree, node_ports: list[int]) -> None:
    spec = updated(ports(X, Y, **old), ports({**X, "name": "z", "port": 99}, Y, **new))
    assert [port.node_port for port in spec.ports] == node_ports
    changed = updated(ports(X, **old), ports(X, {**Y, "nodePort": 30099}, **new))
    assert changed.ports[1].node_port == 30099


@pytest.mark.parametrize(
    ("old", "new", "address", "addresses"),
    [
        pytest.param(DUAL, {}, "10.0.0.5", ["10.0.0.5", "fd00::5"], id="what is left out stays"),
        pytest.param(DUAL, {"clusterIP": "10.0.0.5"}, "10.0.0.5", ["10.0.0.5", "fd00::5"], id="the rest stays"),
        pytest.param(DUAL, {**DUAL, "clusterIP": ""}, "10.0.0.5", ["10.0.0.5", "fd00::5"], id="clearing one does nothing"),
        pytest.param(DUAL, {**DUAL, "clusterIP": "10.0.0.6"}, "10.0.0.6", ["10.0.0.6"], id="another one"),
        pytest.param(DUAL, {"clusterIP": "10.0.0.6"}, "10.0.0.6", ["10.0.0.6"], id="another one alone"),
        pytest.param(DUAL, {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.7"]}, "10.0.0.5", ["10.0.0.7"], id="another list"),
        pytest.param({"type": "ExternalName"}, {"clusterIP": "10.0.0.6"}, "10.0.0.6", ["10.0.0.6"], id="the first one"),
        pytest.param({"type": "ExternalName"}, {}, "", [], id="none yet"),
        pytest.param(DUAL, {**DUAL, "type": "ExternalName"}, "", [], id="they go with the type"),
        pytest.param(DUAL, {"clusterIP": "10.0.0.5", "type": "ExternalName"}, "", [], id="the first goes with the type"),
        pytest.param(DUAL, {"type": "ExternalName", **DUAL, "clusterIP": ""}, "", [], id="clearing one clears them"),
        pytest.param(DUAL, {"type": "ExternalName", "clusterIP": "10.0.0.6", "clusterIPs": ["10.0.0.6"]}, "10.0.0.6", ["10.0.0.6"], id="others are refused later"),
        pytest.param(DUAL, {"type": "ExternalName", "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.7"]}, "10.0.0.5", ["10.0.0.7"], id="another list is refused"),
        pytest.param({"type": "ExternalName", **DUAL}, {"type": "ExternalName", **DUAL}, *DUAL.values(), id="no change of type"),
    ],
)  # fmt: skip
def test_addresses(old: Tree, new: Tree, address: str, addresses: list[str]) -> None:
    spec = updated(old, new)
    assert (spec.cluster_ip, list(spec.cluster_ips)) == (address, addresses)


@pytest.mark.parametrize(
    ("old", "new", "field", "left"),
    [
        ({**DUAL, **FAMILIES}, {**FAMILIES, "type": "ExternalName"}, "ip_families", ()),
        ({**DUAL, **FAMILIES}, {**FAMILIES, "ipFamilies": ["IPv6"], "type": "ExternalName"}, "ip_families", ("IPv6",)),
        ({**DUAL, **FAMILIES}, FAMILIES, "ip_families", ("IPv4",)),
        ({**DUAL, **FAMILIES}, {**FAMILIES, "type": "ExternalName"}, "ip_family_policy", None),
        (
            {**DUAL, **FAMILIES},
            {"ipFamilyPolicy": "PreferDualStack", "type": "ExternalName"},
            "ip_family_policy",
            "PreferDualStack",
        ),
        (LOCAL, {**LOCAL, "healthCheckNodePort": 0}, "health_check_node_port", 30090),
        (LOCAL, {**LOCAL, "healthCheckNodePort": 30091}, "health_check_node_port", 30091),
        (LOCAL, {**LOCAL, "type": "NodePort"}, "health_check_node_port", 0),
        (LOCAL, {**LOCAL, "type": "NodePort", "healthCheckNodePort": 30091}, "health_check_node_port", 30091),
        (LOCAL, {**LOCAL, "externalTrafficPolicy": "Cluster"}, "health_check_node_port", 0),
        ({**LOCAL, "type": "NodePort"}, {**LOCAL, "type": "ClusterIP"}, "health_check_node_port", 30090),
        ({**LOCAL, "type": "NodePort"}, {**LOCAL, "healthCheckNodePort": 0}, "health_check_node_port", 0),
        (LOCAL, {**LOCAL, "type": "ClusterIP"}, "external_traffic_policy", ""),
        (LOCAL, {**LOCAL, "type": "ClusterIP", "externalIPs": ["1.2.3.4"]}, "external_traffic_policy", "Local"),
        (LOCAL, {"type": "ClusterIP", "externalTrafficPolicy": "Cluster"}, "external_traffic_policy", "Cluster"),
        ({"type": "ClusterIP"}, {"externalTrafficPolicy": ""}, "external_traffic_policy", ""),
        (
            {**BALANCED, "allocateLoadBalancerNodePorts": True},
            {"allocateLoadBalancerNodePorts": True},
            "allocate_load_balancer_node_ports",
            None,
        ),
        (
            {**BALANCED, "allocateLoadBalancerNodePorts": True},
            {"allocateLoadBalancerNodePorts": False},
            "allocate_load_balancer_node_ports",
            False,
        ),
        ({}, {"allocateLoadBalancerNodePorts": True}, "allocate_load_balancer_node_ports", True),
        ({**BALANCED, "loadBalancerClass": "a/b"}, {"loadBalancerClass": "a/b"}, "load_balancer_class", None),
        ({**BALANCED, "loadBalancerClass": "a/b"}, {"loadBalancerClass": "c/d"}, "load_balancer_class", "c/d"),
        ({**BALANCED, "loadBalancerClass": "a/b"}, {**BALANCED, "loadBalancerClass": "a/b"}, "load_balancer_class", "a/b"),
        ({"loadBalancerClass": "a/b"}, {"loadBalancerClass": "a/b"}, "load_balancer_class", "a/b"),
        (DUAL, {"type": "ExternalName", "internalTrafficPolicy": "Local"}, "internal_traffic_policy", None),
        (DUAL, {"type": "ExternalName", "internalTrafficPolicy": "Bad"}, "internal_traffic_policy", "Bad"),
        (DUAL, {"internalTrafficPolicy": "Local"}, "internal_traffic_policy", "Local"),
    ],
)  # fmt: skip
def test_fields_of_one_type(old: Tree, new: Tree, field: str, left: Any) -> None:
    assert getattr(updated(old, new), field) == left


@pytest.mark.parametrize(("kind", "stays"), [("LoadBalancer", True), ("NodePort", False), ("ClusterIP", False)])
def test_addresses_of_load_balancers_go_with_the_type(kind: str, stays: bool) -> None:
    old, new = service(BALANCED), service({**BALANCED, "type": kind})
    old.status.load_balancer.ingress = (core_v1.LoadBalancerIngress(ip="1.2.3.4"),)
    STRATEGY.prepare_update(new, old)
    assert bool(new.status.load_balancer.ingress) is stays
    assert old.status.load_balancer.ingress


@pytest.mark.parametrize(
    ("spec", "node_ports", "health_check"),
    [
        ({"type": "ClusterIP"}, False, False),
        ({"type": "ClusterIP", "externalTrafficPolicy": "Local"}, False, False),
        ({"type": "NodePort", "externalTrafficPolicy": "Local"}, True, False),
        ({"type": "NodePort", "allocateLoadBalancerNodePorts": False}, True, False),
        ({"type": "LoadBalancer"}, True, False),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}, True, False),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, False, False),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, True, True),
    ],
)
def test_which_services_need_node_ports(spec: Tree, node_ports: bool, health_check: bool) -> None:
    made = service(spec).spec
    assert (needs_node_port(made), needs_health_check(made)) == (node_ports, health_check)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, 10800), ({}, 10800), ({"clientIP": {}}, 10800), ({"clientIP": {"timeoutSeconds": 5}}, 5)],
)
def test_sessions_last_three_hours_unless_they_say_otherwise(given: Tree | None, seconds: int) -> None:
    made = service({"sessionAffinity": "ClientIP", "sessionAffinityConfig": given})
    STRATEGY.default(made)
    config = made.spec.session_affinity_config
    assert config is not None
    assert config.client_ip is not None
    assert config.client_ip.timeout_seconds == seconds


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("ExternalName", "Cluster", None),
        ("ExternalName", "Bad", "Bad"),
        ("ExternalName", None, None),
        ("ClusterIP", "Local", "Local"),
        ("ClusterIP", None, "Cluster"),
    ],
)
def test_external_names_have_no_policy_for_traffic(kind: str, given: str | None, expected: str | None) -> None:
    made = service({"type": kind, "internalTrafficPolicy": given, "clusterIP": "10.0.0.5"})
    STRATEGY.default(made)
    STRATEGY.prepare_create(made)
    assert made.spec.internal_traffic_policy == expected
    assert made.spec.cluster_ips == ("10.0.0.5",)
