"""What is kept of Services and EndpointSlices."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.proxy.families import IPV4, IPV6, canonical, canonical_range, merged
from bayplan.proxy.objects import (
    ServicePort,
    endpoints_of,
    health_check_port,
    is_external_local,
    service_ports,
    slice_entry,
)
from tests.proxy.objects import NODE, endpoint, endpoint_slice, service


def only(found: tuple[ServicePort, ...]) -> ServicePort:
    (one,) = found
    return one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.000.0.01", "10.0.0.1"),
        ("10.0.0.256", None),
        ("10.0.0", None),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("FD00:0::1", "fd00::1"),
        ("None", None),
        ("", None),
        ("1.2.3.4.5", None),
        ("1.2.3.x", None),
    ],
)
def test_addresses_have_one_form(text: str, expected: str | None) -> None:
    assert canonical(text) == expected


def test_ranges_have_one_form_and_do_not_overlap() -> None:
    assert canonical_range(" 10.1.2.3/8 ") == "10.0.0.0/8"
    assert canonical_range("010.1.2.3/8") == "10.0.0.0/8"
    assert canonical_range("fd00::1/64") == "fd00::/64"
    assert [canonical_range(one) for one in ("10.0.0.0", "10.0.0.0/33", "x/8", "")] == [None] * 4
    assert merged(["10.1.0.0/16", "10.0.0.0/8", "192.0.2.1", "10.0.0.1"]) == ("10.0.0.0/8", "192.0.2.1")
    assert merged(["192.0.2.128/25", "192.0.2.0/25"]) == ("192.0.2.0/24",)


def test_each_family_has_its_own_addresses() -> None:
    web = service(
        "web",
        "10.96.0.1",
        "fd96::1",
        node_ports=(30080,),
        balancers=("203.0.113.1", "2001:db8::1"),
        external_ips=("203.0.113.2", "2001:db8::2", "", "nonsense"),
        load_balancer_source_ranges=(" 192.0.2.0/24", "2001:db8:2::/64", "nonsense", ""),
    )
    port4, port6 = only(service_ports(web, IPV4)), only(service_ports(web, IPV6))
    assert (port4.cluster_ip, port6.cluster_ip) == ("10.96.0.1", "fd96::1")
    assert (port4.load_balancer_ips, port6.load_balancer_ips) == (("203.0.113.1",), ("2001:db8::1",))
    assert (port4.external_ips, port6.external_ips) == (("203.0.113.2",), ("2001:db8::2",))
    assert (port4.source_ranges, port6.source_ranges) == (("192.0.2.0/24",), ("2001:db8:2::/64",))
    assert port4.node_port == port6.node_port == 30080


def test_a_range_that_is_everything_is_no_range() -> None:
    ranges = ("192.0.2.0/24", "0.0.0.0/0")
    web = service("web", "10.96.0.1", balancers=("203.0.113.1",), load_balancer_source_ranges=ranges)
    assert only(service_ports(web, IPV4)).source_ranges == ()


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (service("web", "10.96.0.1"), 1),
        (service("web", "None"), 0),
        (service("web"), 0),
        (service("web", "fd96::1"), 0),
        (service("web", "10.96.0.1", type="ExternalName"), 0),
        (service("web", "010.96.0.1", ports=(("a", "TCP", 1), ("b", "UDP", 2))), 2),
        (core_v1.Service(spec=core_v1.ServiceSpec(cluster_ip="10.96.0.1", ports=(core_v1.ServicePort(port=1),))), 1),
        (core_v1.Service(spec=core_v1.ServiceSpec(cluster_ip="fd96::1", ports=(core_v1.ServicePort(port=1),))), 0),
    ],
)
def test_only_services_with_an_address_of_the_family_have_ports(made: core_v1.Service, count: int) -> None:
    assert len(service_ports(made, IPV4)) == count


@pytest.mark.parametrize(
    ("mode", "is_used"), [(None, True), ("VIP", True), ("Proxy", False)], ids=["none", "VIP", "Proxy"]
)
def test_load_balancers_of_mode_proxy_have_no_addresses_here(mode: str | None, is_used: bool) -> None:
    ingress = core_v1.LoadBalancerIngress(ip="203.0.113.1", ip_mode=mode)
    found = only(service_ports(service("web", "10.96.0.1", balancers=(ingress,)), IPV4))
    assert found.load_balancer_ips == (("203.0.113.1",) if is_used else ())


def test_affinity_lasts_as_long_as_the_service_says() -> None:
    assert only(service_ports(service("web", "10.96.0.1"), IPV4)).affinity_seconds == 0
    assert only(service_ports(service("web", "10.96.0.1", affinity=7), IPV4)).affinity_seconds == 7
    unset = service("web", "10.96.0.1", session_affinity="ClientIP")
    assert only(service_ports(unset, IPV4)).affinity_seconds == 10_800


@pytest.mark.parametrize(
    ("spec", "is_local", "port"),
    [
        ({"type": "LoadBalancer"}, True, 30_000),
        ({"type": "LoadBalancer", "external_traffic_policy": "Cluster"}, False, 0),
        ({"type": "NodePort"}, True, 0),
        ({"type": "ClusterIP"}, False, 0),
        ({"type": "ClusterIP", "external_ips": ("203.0.113.2",)}, True, 0),
        ({"type": "ExternalName", "external_ips": ("203.0.113.2",)}, False, 0),
    ],
)
def test_the_external_policy_needs_a_way_in(spec: dict[str, Any], is_local: bool, port: int) -> None:
    made = service("web", "10.96.0.1", health_check_node_port=30_000, **{"external_traffic_policy": "Local", **spec})
    assert (is_external_local(made), health_check_port(made)) == (is_local, port)


def test_endpoints_have_conditions_with_defaults() -> None:
    unknown = endpoint("10.1.0.1", local=True, ready=None)
    entry = slice_entry(endpoint_slice("web", unknown), IPV4, NODE)
    assert entry is not None
    (one,) = entry.endpoints
    assert (one.local, one.ready, one.serving, one.terminating) == (True, True, True, False)
    elsewhere = slice_entry(endpoint_slice("web", unknown), IPV4, "third-node")
    assert elsewhere is not None
    assert not elsewhere.endpoints[0].local
    assert slice_entry(endpoint_slice("web", unknown), IPV6, NODE) is None


def test_endpoints_of_all_slices_are_found_by_the_ports_name_and_protocol() -> None:
    ports = (("p80", "TCP", 8080), ("p80", "UDP", 5353), ("other", "TCP", 9090), ("", "TCP", None))
    first = slice_entry(endpoint_slice("web", "10.1.0.9", "10.1.0.10", "nonsense", ports=ports), IPV4, NODE)
    second = slice_entry(endpoint_slice("web", "10.1.0.9", "10.1.0.2", ports=(("p80", "TCP", 80),)), IPV4, NODE)
    assert first is not None
    assert second is not None

    def found(port: str, protocol: str) -> list[str]:
        return [str(one) for one in endpoints_of([first, second], port, protocol)]

    assert found("p80", "tcp") == ["10.1.0.10:8080", "10.1.0.2:80", "10.1.0.9:80", "10.1.0.9:8080"]
    assert found("p80", "udp") == ["10.1.0.10:5353", "10.1.0.9:5353"]
    assert found("", "tcp") == []


def test_an_endpoint_that_terminates_is_kept_as_long_as_nothing_takes_its_place() -> None:
    old = endpoint("10.1.0.1", ready=False, serving=True, terminating=True)
    slices = [slice_entry(endpoint_slice("web", old), IPV4, NODE)] * 2
    (one,) = endpoints_of([part for part in slices if part is not None], "p80", "tcp")
    assert one.terminating


@pytest.mark.parametrize("order", [1, -1], ids=["old first", "new first"])
def test_an_address_that_was_taken_over_belongs_to_the_new_pod(order: int) -> None:
    old = endpoint("10.1.0.1", ready=False, serving=True, terminating=True)
    slices = [slice_entry(endpoint_slice("web", one), IPV4, NODE) for one in (old, endpoint("10.1.0.1"))]
    (one,) = endpoints_of([part for part in slices[::order] if part is not None], "p80", "tcp")
    assert one.ready
