"""Where calls for services go: real endpoints, forwards, or nowhere because all pods are simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from bayplan.api.nodes import SIMULATED
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.apiserver.routing.service_routes import NoRoute, SimulatedService
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from tests.apiserver.serving import client_of, opened

SIMULATED_ONE, SIMULATED_TWO, REAL, OTHER = "10.128.4.7", "10.128.4.8", "10.64.0.7", "10.64.0.8"


def with_service(
    test: Callable[[ApiServer, Client], Awaitable[None]], ready: Sequence[str], unready: Sequence[str] = ()
) -> None:
    """Run a test with the service `default/s`, with a simulated and a real node."""

    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            for name, cidr, marks in (("s", "10.128.4.0/24", {SIMULATED: "true"}), ("r", "10.64.0.0/24", {})):
                spec = core_v1.NodeSpec(pod_cidr=cidr, pod_cidrs=(cidr,))
                await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=name, annotations=marks), spec=spec))
            ports = (core_v1.ServicePort(name="x", port=443, target_port=8443),)
            metadata = meta_v1.ObjectMeta(name="s", namespace="default")
            await client.create(core_v1.Service(metadata=metadata, spec=core_v1.ServiceSpec(ports=ports)))
            labels = {"kubernetes.io/service-name": "s"}
            await client.create(
                discovery_v1.EndpointSlice(
                    metadata=meta_v1.ObjectMeta(name="s-1", namespace="default", labels=labels),
                    address_type="IPv4",
                    endpoints=tuple(
                        discovery_v1.Endpoint(
                            addresses=(address,), conditions=discovery_v1.EndpointConditions(ready=address in ready)
                        )
                        for address in (*ready, *unready)
                    ),
                    ports=(discovery_v1.EndpointPort(name="x", port=8443),),
                )
            )
            await test(api, client)

    asyncio.run(run())


def test_only_real_endpoints_are_taken_where_there_are_both() -> None:
    async def test(api: ApiServer, _: Client) -> None:
        routes = [api.context.services.route("default", "s", 443) for _ in range(50)]
        assert {(one.host, one.port, one.forward) for one in routes} == {(REAL, 8443, None), (OTHER, 8443, None)}

    with_service(test, (SIMULATED_ONE, REAL, SIMULATED_TWO, OTHER))


def test_a_service_of_simulated_pods_leads_nowhere_and_says_what_to_do() -> None:
    async def test(api: ApiServer, _: Client) -> None:
        with pytest.raises(SimulatedService) as error:
            api.context.services.route("default", "s", 443)
        assert error.value.fact == "service default/s leads to simulated pods only, which run no programs"
        assert "bayplan forward service/default/s=localhost:PORT" in str(error.value)
        assert api.context.services.route("default", "s", 443, dials=False).host == SIMULATED_ONE

    with_service(test, (SIMULATED_ONE,), (SIMULATED_TWO,))


def test_a_service_whose_real_pods_are_not_ready_is_not_taken_for_a_simulated_one() -> None:
    async def test(api: ApiServer, _: Client) -> None:
        with pytest.raises(NoRoute, match="no endpoints available") as error:
            api.context.services.route("default", "s", 443)
        assert not isinstance(error.value, SimulatedService)

    with_service(test, (SIMULATED_ONE,), (REAL,))


def test_a_service_without_endpoints_is_not_taken_for_a_simulated_one() -> None:
    async def test(api: ApiServer, _: Client) -> None:
        with pytest.raises(NoRoute, match="no endpoints available") as error:
            api.context.services.route("default", "s", 443)
        assert not isinstance(error.value, SimulatedService)

    with_service(test, (), (SIMULATED_ONE,))


@pytest.mark.parametrize(
    ("ready", "uses_it"), [((REAL, OTHER), True), ((REAL, SIMULATED_ONE), False), ((SIMULATED_ONE,), None)]
)
def test_the_cluster_ip_is_taken_if_it_leads_to_no_simulated_pod(ready: Sequence[str], uses_it: bool | None) -> None:
    async def test(api: ApiServer, client: Client) -> None:
        own = (await client.get(core_v1.Service, "s", "default")).spec.cluster_ip
        if uses_it is None:
            with pytest.raises(SimulatedService):
                api.context.services.route("default", "s", 443, uses_cluster_ip=True)
            return
        route = api.context.services.route("default", "s", 443, uses_cluster_ip=True)
        assert (route.host, route.port) == ((own, 443) if uses_it else (REAL, 8443))

    with_service(test, ready)


@pytest.mark.parametrize("ready", [(SIMULATED_ONE,), (REAL,), ()])
def test_a_forward_is_followed_whatever_the_service_has(ready: Sequence[str]) -> None:
    async def test(api: ApiServer, _: Client) -> None:
        services = api.context.services
        forward = parse_forward("service/default/s=localhost:9443")
        services.forwards.set(forward)
        route = services.route("default", "s", 443)
        assert (route.host, route.port, route.forward) == ("localhost", 9443, forward)
        services.forwards.set(parse_forward("service/default/missing=localhost:9444"))
        assert services.route("default", "missing", 443).port == 9444

    with_service(test, ready)
