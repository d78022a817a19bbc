"""The addresses behind a service."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.controllers.networking.endpoints import subsets_of, truncated
from bayplan.controllers.networking.service_pods import target_port
from bayplan.testing.builders import CREATED, container, pod, pod_status, service

Shape = list[tuple[list[str], list[str], list[tuple[str, int, str]]]]


def member(name: str, ip: str, *, ready: bool = True, deleted: bool = False, **spec: Any) -> core_v1.Pod:
    meta = {"uid": f"{name}-uid", "deleted": CREATED if deleted else None}
    return pod(name, meta=meta, status=pod_status(ready=ready, ip=ip), node_name="n", **spec)


def shape(subsets: tuple[core_v1.EndpointSubset, ...]) -> Shape:
    """(ready addresses, other addresses, (name, port, protocol) of ports) of each subset."""
    return [
        (
            [one.ip for one in subset.addresses],
            [one.ip for one in subset.not_ready_addresses],
            [(port.name, port.port, port.protocol) for port in subset.ports],
        )
        for subset in subsets
    ]


NAMED = (container(ports=(core_v1.ContainerPort(name="http", container_port=8080),)),)
OTHER = (container(ports=(core_v1.ContainerPort(name="http", container_port=9090),)),)
UDP = (container(ports=(core_v1.ContainerPort(name="http", container_port=53, protocol="UDP"),)),)
BY_NAME = (core_v1.ServicePort(name="web", port=80, target_port="http"),)


@pytest.mark.parametrize(
    ("one", "pods", "expected"),
    [
        pytest.param(service("web"), [], [], id="no pods, no subset"),
        pytest.param(
            service("web"),
            [member("a", "10.0.0.1"), member("b", "10.0.0.2", ready=False)],
            [(["10.0.0.1"], ["10.0.0.2"], [("", 80, "TCP")])],
            id="ready and other pods are told apart",
        ),
        pytest.param(
            service("web", publish_not_ready_addresses=True),
            [member("a", "10.0.0.1", ready=False), member("b", "10.0.0.2", deleted=True)],
            [(["10.0.0.1", "10.0.0.2"], [], [("", 80, "TCP")])],
            id="a service that publishes all addresses takes all as ready",
        ),
        pytest.param(
            service("web"), [member("a", "10.0.0.1", deleted=True)], [], id="a pod on its way out is left out"
        ),
        pytest.param(
            service("web", ports=BY_NAME),
            [member("a", "10.0.0.1", containers=NAMED), member("b", "10.0.0.2", containers=OTHER)],
            [(["10.0.0.1"], [], [("web", 8080, "TCP")]), (["10.0.0.2"], [], [("web", 9090, "TCP")])],
            id="pods with different numbers for a name are in different subsets",
        ),
        pytest.param(
            service("web", ports=BY_NAME), [member("a", "10.0.0.1")], [], id="a pod without the port is left out"
        ),
        pytest.param(
            service("web", ports=BY_NAME),
            [member("a", "10.0.0.1", containers=UDP)],
            [],
            id="the protocol has to be the same",
        ),
        pytest.param(
            service("web", ports=(), cluster_ip="None"),
            [member("a", "10.0.0.1")],
            [(["10.0.0.1"], [], [])],
            id="a headless service needs no port",
        ),
    ],
)
def test_subsets(one: core_v1.Service, pods: list[core_v1.Pod], expected: Shape) -> None:
    assert shape(subsets_of(one, pods)) == expected


def test_an_address_names_its_pod_and_node() -> None:
    (subset,) = subsets_of(service("web"), [member("a", "10.0.0.1")])
    (address,) = subset.addresses
    assert address.node_name == "n"
    assert address.target_ref == core_v1.ObjectReference(kind="Pod", namespace="default", name="a", uid="a-uid")
    assert address.hostname == ""


@pytest.mark.parametrize(("subdomain", "expected"), [("web", "a-0"), ("other", ""), ("", "")])
def test_an_address_has_the_host_name_of_its_subdomain(subdomain: str, expected: str) -> None:
    (subset,) = subsets_of(service("web"), [member("a", "10.0.0.1", hostname="a-0", subdomain=subdomain)])
    assert subset.addresses[0].hostname == expected


def test_without_target_the_port_leads_to_the_same_number() -> None:
    assert target_port(pod("a"), core_v1.ServicePort(port=443)) == 443
    assert target_port(pod("a"), core_v1.ServicePort(port=443, target_port=8443)) == 8443


def subset(ready: int, not_ready: int) -> core_v1.EndpointSubset:
    def some(count: int) -> tuple[core_v1.EndpointAddress, ...]:
        return tuple(core_v1.EndpointAddress(ip=f"10.0.0.{number}") for number in range(count))

    return core_v1.EndpointSubset(addresses=some(ready), not_ready_addresses=some(not_ready))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([(4, 6)], [(4, 6)], id="what fits stays"),
        pytest.param([(12, 6)], [(10, 0)], id="ready addresses come first"),
        pytest.param([(4, 12)], [(4, 6)], id="others fill the rest"),
        pytest.param([(12, 0), (8, 3)], [(6, 0), (4, 0)], id="subsets are cut in proportion"),
    ],
)
def test_too_many_addresses_are_cut_off(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    cut = truncated(tuple(subset(*counts) for counts in before), 10)
    assert [(len(one.addresses), len(one.not_ready_addresses)) for one in cut] == after
