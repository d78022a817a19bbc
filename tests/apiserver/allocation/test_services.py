"""Cluster IPs, address families and node ports of services, through the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, networking_v1
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import client_of, opened

V4, V6 = "10.0.0.0/24", "fd00:10::/112"
SETTINGS = ApiServerSettings(service_cluster_ip_range=V4)


def run(case: Callable[[Client], Awaitable[None]], cidrs: str = V4, ports: tuple[int, int] = (30000, 30100)) -> None:
    """Run a case against a fresh server with these ranges."""

    async def inner() -> None:
        settings = ApiServerSettings(service_cluster_ip_range=cidrs, service_node_port_range=ports)
        async with opened(settings=settings) as api:
            await case(client_of(api))

    asyncio.run(inner())


def service(name: str = "s", **spec: Any) -> core_v1.Service:
    spec.setdefault("ports", (core_v1.ServicePort(port=80),))
    metadata = meta_v1.ObjectMeta(name=name, namespace="default")
    return core_v1.Service(metadata=metadata, spec=core_v1.ServiceSpec(**spec))


async def changed(client: Client, name: str = "s", **spec: Any) -> core_v1.Service:
    """Change a service by a merge patch, as kubectl does."""
    found = await client.get(core_v1.Service, name, "default")
    return await client.update(msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, **spec)))


async def addresses(client: Client) -> dict[str, str]:
    """Address objects: address -> service."""
    found = (await client.list(networking_v1.IPAddress)).items
    return {one.metadata.name: one.spec.parent_ref.name for one in found if one.spec.parent_ref is not None}


def test_a_cluster_ip_has_an_object_until_the_service_is_gone() -> None:
    async def case(client: Client) -> None:
        made = await client.create(service())
        held = await client.get(networking_v1.IPAddress, made.spec.cluster_ip)
        assert held.spec.parent_ref == networking_v1.ParentReference(resource="services", namespace="default", name="s")
        assert held.metadata.labels == {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
        await client.delete(core_v1.Service, "s", "default")
        assert await addresses(client) == {}

    run(case)


def test_creates_at_once_never_share_an_address_or_a_port() -> None:
    async def case(client: Client) -> None:
        made = await asyncio.gather(*(client.create(service(f"s{index}", type="NodePort")) for index in range(60)))
        assert len({one.spec.cluster_ip for one in made}) == len({one.spec.ports[0].node_port for one in made}) == 60

    run(case)


def test_creates_for_one_address_at_once_succeed_once() -> None:
    async def case(client: Client) -> None:
        wanted = (client.create(service(f"s{index}", cluster_ip="10.0.0.50")) for index in range(20))
        answers = await asyncio.gather(*wanted, return_exceptions=True)
        made = [one for one in answers if isinstance(one, core_v1.Service)]
        refused = [one for one in answers if isinstance(one, ApiError)]
        assert len(made) == 1
        assert {one.message.partition("failed")[2] for one in refused} == {
            " to allocate IP 10.0.0.50: provided IP is already allocated"
        }
        assert await addresses(client) == {"10.0.0.50": made[0].metadata.name}

    run(case)


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"cluster_ip": "192.168.0.1"}, 422, "the provided network does not match the current range"),
        ({"cluster_ip": "10.0.0.255"}, 422, r"the provided IP \(10.0.0.255\) is not in the valid range"),
        ({"ip_families": ("IPv6",)}, 422, r"spec.ipFamilies\[0\]: Invalid value: \"IPv6\": not configured on this"),
        ({"ip_family_policy": "RequireDualStack"}, 422, "this cluster is not configured for dual-stack services"),
    ],
)
def test_what_the_cluster_does_not_have_is_refused(spec: dict[str, Any], code: int, message: str) -> None:
    async def case(client: Client) -> None:
        with pytest.raises(ApiError, match=message) as caught:
            await client.create(service(**spec))
        assert caught.value.code == code
        assert await addresses(client) == {}

    run(case)


def test_a_full_range_is_an_error_of_the_server() -> None:
    async def case(client: Client) -> None:
        for index in range(6):
            await client.create(service(f"s{index}"))
        with pytest.raises(ApiError, match="failed to allocate a serviceIP: range is full") as caught:
            await client.create(service("more"))
        assert caught.value.code == 500

    run(case, "10.0.0.0/29")


def test_a_dual_stack_service_gets_an_address_of_each_family() -> None:
    async def case(client: Client) -> None:
        made = await client.create(service(ip_family_policy="PreferDualStack"))
        assert made.spec.ip_families == ("IPv4", "IPv6")
        assert made.spec.cluster_ip == made.spec.cluster_ips[0]
        assert (":" in made.spec.cluster_ips[0], ":" in made.spec.cluster_ips[1]) == (False, True)
        assert set(await addresses(client)) == set(made.spec.cluster_ips)

    run(case, f"{V4},{V6}")


def test_a_service_becomes_dual_stack_and_back() -> None:
    async def case(client: Client) -> None:
        made = await client.create(service())
        both = await changed(client, ip_family_policy="RequireDualStack")
        assert both.spec.cluster_ips[0] == made.spec.cluster_ip
        assert both.spec.ip_families == ("IPv4", "IPv6")
        one = await changed(client, ip_family_policy="SingleStack")
        assert (one.spec.cluster_ips, one.spec.ip_families) == (made.spec.cluster_ips, ("IPv4",))
        assert set(await addresses(client)) == set(made.spec.cluster_ips)

    run(case, f"{V4},{V6}")


def test_the_second_address_goes_only_with_the_policy() -> None:
    async def case(client: Client) -> None:
        made = await client.create(service(ip_family_policy="RequireDualStack"))
        with pytest.raises(ApiError, match="must be 'SingleStack' to release the secondary cluster IP"):
            await changed(client, cluster_ips=made.spec.cluster_ips[:1])

    run(case, f"{V4},{V6}")


def test_a_headless_service_without_selector_has_both_families_even_here() -> None:
    async def case(client: Client) -> None:
        made = await client.create(service(cluster_ip="None"))
        assert (made.spec.ip_family_policy, made.spec.ip_families) == ("RequireDualStack", ("IPv4", "IPv6"))
        selecting = await client.create(service("t", cluster_ip="None", selector={"a": "b"}))
        assert (selecting.spec.ip_family_policy, selecting.spec.ip_families) == ("SingleStack", ("IPv4",))
        assert await addresses(client) == {}

    run(case)


def test_an_external_name_has_no_address() -> None:
    async def case(client: Client) -> None:
        await client.create(service(type="NodePort"))
        gone = await changed(client, type="ExternalName", external_name="a.example")
        assert (gone.spec.cluster_ip, gone.spec.cluster_ips, gone.spec.ip_families) == ("", (), ())
        assert await addresses(client) == {}
        back = await changed(client, type="ClusterIP", external_name="")
        assert set(await addresses(client)) == {back.spec.cluster_ip}

    run(case)


def test_node_ports_are_free_again_when_the_service_no_longer_has_them() -> None:
    async def case(client: Client) -> None:
        port = (core_v1.ServicePort(port=80, node_port=30000),)
        await client.create(service("a", type="NodePort", ports=port))
        with pytest.raises(ApiError, match="provided port is already allocated"):
            await client.create(service("b", type="NodePort", ports=port))
        await changed(client, "a", type="ClusterIP")
        await client.create(service("b", type="NodePort", ports=port))
        await client.delete(core_v1.Service, "b", "default")
        await client.create(service("c", type="NodePort", ports=port))

    run(case)


def test_ports_of_one_number_share_a_node_port() -> None:
    async def case(client: Client) -> None:
        ports = (
            core_v1.ServicePort(name="u", protocol="UDP", port=53),
            core_v1.ServicePort(name="t", protocol="TCP", port=53),
        )
        made = await client.create(service(type="NodePort", ports=ports))
        assert made.spec.ports[0].node_port == made.spec.ports[1].node_port != 0

    run(case)


def test_a_local_load_balancer_gets_a_port_for_health_checks() -> None:
    async def case(client: Client) -> None:
        made = await client.create(service(type="LoadBalancer", external_traffic_policy="Local"))
        assert made.spec.health_check_node_port
        other = 30099 if made.spec.health_check_node_port != 30099 else 30098
        with pytest.raises(ApiError, match=r"spec\.healthCheckNodePort: Forbidden: field is immutable"):
            await changed(client, health_check_node_port=other)
        after = await changed(client, external_traffic_policy="Cluster", health_check_node_port=0)
        assert after.spec.health_check_node_port == 0

    run(case)


def test_a_dry_run_takes_nothing() -> None:
    async def case(client: Client) -> None:
        port = (core_v1.ServicePort(port=80, node_port=30000),)
        shown = await client.create(service(type="NodePort", ports=port, cluster_ip="10.0.0.9"), dry_run=True)
        assert shown.spec.cluster_ips == ("10.0.0.9",)
        assert await addresses(client) == {}
        await client.create(service(type="NodePort", ports=port, cluster_ip="10.0.0.9"))

    run(case)


def test_a_refused_service_leaves_nothing_behind() -> None:
    async def case(client: Client) -> None:
        with pytest.raises(ApiError, match="sessionAffinity"):
            await client.create(service(session_affinity="X", type="NodePort"))
        assert await addresses(client) == {}

    run(case)


def test_a_ready_range_of_its_own_object_is_used() -> None:
    async def case(client: Client) -> None:
        spec = networking_v1.ServiceCIDRSpec(cidrs=("10.9.0.0/24",))
        metadata = meta_v1.ObjectMeta(name="more")
        made = await client.create(networking_v1.ServiceCIDR(metadata=metadata, spec=spec))
        with pytest.raises(ApiError, match="does not match the current range"):
            await client.create(service(cluster_ip="10.9.0.7"))
        ready = meta_v1.Condition(
            type="Ready", status="True", reason="x", message="", last_transition_time="2026-01-01T00:00:00Z"
        )
        status = networking_v1.ServiceCIDRStatus(conditions=(ready,))
        await client.update_status(msgspec.structs.replace(made, status=status))
        assert (await client.create(service(cluster_ip="10.9.0.7"))).spec.cluster_ip == "10.9.0.7"

    run(case)


def test_the_ranges_of_the_flag_are_the_default_service_cidr() -> None:
    async def case(client: Client) -> None:
        found = await client.get(networking_v1.ServiceCIDR, "kubernetes")
        assert found.spec.cidrs == (V4, V6)
        assert [(one.type, one.status, one.message) for one in found.status.conditions] == [
            ("Ready", "True", "Kubernetes default Service CIDR is ready")
        ]

    run(case, f"{V4},{V6}")


def test_addresses_and_ports_are_repaired_at_start(tmp_path: Path) -> None:
    async def case() -> None:
        url = f"sqlite:{tmp_path / 'store'}"
        async with opened(open_store(url, clock=SystemClock()), SETTINGS) as api:
            client = client_of(api)
            made = await client.create(service(type="NodePort"))
            await client.delete(networking_v1.IPAddress, made.spec.cluster_ip)
        async with opened(open_store(url, clock=SystemClock()), SETTINGS) as api:
            client = client_of(api)
            assert await addresses(client) == {made.spec.cluster_ip: "s"}
            with pytest.raises(ApiError, match="provided port is already allocated"):
                await client.create(service("t", type="NodePort", ports=made.spec.ports))

    asyncio.run(case())
