"""Addresses of services follow the readiness of pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.api.types import core_v1, discovery_v1
from bayplan.testing.builders import deployment, service
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


async def slices(cluster: LiveCluster, name: str = "web") -> list[discovery_v1.EndpointSlice]:
    found = await cluster.client.list(
        discovery_v1.EndpointSlice, "default", label_selector=f"kubernetes.io/service-name={name}"
    )
    return found.items


async def ready_addresses(cluster: LiveCluster, name: str = "web") -> tuple[set[str], set[str]]:
    """Addresses that are ready: by Endpoints, and by slices."""
    old = await cluster.client.get(core_v1.Endpoints, name, "default")
    return (
        {address.ip for subset in old.subsets for address in subset.addresses},
        {one.addresses[0] for each in await slices(cluster, name) for one in each.endpoints if one.conditions.ready},
    )


async def serves(cluster: LiveCluster, *names: str) -> bool:
    """Whether exactly these pods are behind the service."""
    pods = [await cluster.client.get(core_v1.Pod, name, "default") for name in names]
    wanted = {pod.status.pod_ip for pod in pods}
    return await ready_addresses(cluster) == (wanted, wanted)


async def annotate(cluster: LiveCluster, name: str, ready: str | None) -> None:
    await cluster.client.patch(
        core_v1.Pod, name, "default", {"metadata": {"annotations": {"bayplan.dev/ready": ready}}}
    )


def test_addresses_follow_readiness() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(service("web"))
        await cluster.client.create(deployment("web", 3))
        await cluster.rolled_out("web", 3)
        first, second, third = [one.metadata.name for one in await cluster.pods(app="web")]
        await cluster.eventually(lambda: serves(cluster, first, second, third))
        await annotate(cluster, first, "false")
        await cluster.eventually(lambda: serves(cluster, second, third))
        old = await cluster.client.get(core_v1.Endpoints, "web", "default")
        assert len(old.subsets[0].not_ready_addresses) == 1
        await annotate(cluster, first, None)
        await cluster.eventually(lambda: serves(cluster, first, second, third))
        await cluster.client.patch(core_v1.Pod, second, "default", {"metadata": {"labels": {"app": "other"}}})

        async def replaced() -> bool:
            ready = [one.metadata.name for one in await cluster.ready_pods(app="web")]
            return second not in ready and len(ready) == 3 and await serves(cluster, *ready)

        await cluster.eventually(replaced)

    live(scenario)


def test_a_slice_tells_node_zone_and_owner() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        created = await cluster.client.create(service("web", port=8080))
        await cluster.client.create(deployment("web", 1))
        await cluster.rolled_out("web", 1)
        (one,) = await cluster.pods(app="web")
        await cluster.eventually(lambda: serves(cluster, one.metadata.name))
        (found,) = await slices(cluster)
        (endpoint,) = found.endpoints
        node = await cluster.client.get(core_v1.Node, one.spec.node_name)
        assert endpoint.zone == node.metadata.labels["topology.kubernetes.io/zone"]
        assert endpoint.node_name == one.spec.node_name
        assert endpoint.target_ref is not None
        assert endpoint.target_ref.uid == one.metadata.uid
        assert [port.port for port in found.ports] == [8080]
        assert found.metadata.owner_references[0].uid == created.metadata.uid
        assert found.address_type == "IPv4"

    live(scenario)


def test_more_pods_than_fit_into_one_slice() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(service("web"))
        await cluster.client.create(deployment("web", 120))
        await cluster.rolled_out("web", 120)

        async def complete() -> bool:
            old, new = await ready_addresses(cluster)
            sizes = [len(one.endpoints) for one in await slices(cluster)]
            return len(old) == len(new) == sum(sizes) == 120 and max(sizes) <= 100

        await cluster.eventually(complete)

    live(scenario)


def test_endpoints_go_with_their_service() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(service("web"))

        async def there() -> bool:
            return len(await slices(cluster)) == 1 and not await cluster.gone(core_v1.Endpoints, "web")

        await cluster.eventually(there)
        await cluster.client.delete(core_v1.Service, "web", "default")
        await cluster.eventually(lambda: cluster.gone(core_v1.Endpoints, "web"))

        async def empty() -> bool:
            return not await slices(cluster)

        await cluster.eventually(empty)

    live(scenario)


def test_a_service_without_selector_is_left_to_its_user() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(service("mine", select={}))
        await cluster.client.create(service("web"))

        async def other_is_there() -> bool:
            return not await cluster.gone(core_v1.Endpoints, "web")

        await cluster.eventually(other_is_there)
        assert await cluster.gone(core_v1.Endpoints, "mine")

    live(scenario)
