"""Services that ask for it have their endpoints shared among zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from bayplan.api.types import apps_v1, core_v1, discovery_v1
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment, service

MODE = "service.kubernetes.io/topology-mode"


def in_two_zones(test: Callable[[VirtualCluster], Awaitable[None]]) -> None:
    """Run a scenario with a service that has hints, over eight pods on two nodes in each of two zones."""

    async def main() -> None:
        async with VirtualCluster(seed=1, nodes=SimulatorSettings(nodes=4, zones=2)) as cluster:
            await cluster.client.create(deployment("web", 8))

            async def ready() -> bool:
                found = await cluster.client.get(apps_v1.Deployment, "web", "default")
                return found.status.ready_replicas == 8

            await cluster.eventually(ready)
            one = service("web")
            one.metadata.annotations = {MODE: "Auto"}
            await cluster.client.create(one)
            await cluster.eventually(lambda: has_hints(cluster, 8))
            await test(cluster)

    run(main())


async def endpoints(cluster: VirtualCluster) -> list[discovery_v1.Endpoint]:
    found = await cluster.client.list(
        discovery_v1.EndpointSlice, "default", label_selector="kubernetes.io/service-name=web"
    )
    return [each for one in found.items for each in one.endpoints if each.conditions.ready]


async def has_hints(cluster: VirtualCluster, count: int) -> bool:
    return sum(each.hints is not None for each in await endpoints(cluster)) == count


async def told(cluster: VirtualCluster) -> list[tuple[str, str, str]]:
    """(type, reason, message) of events about the service, in order."""
    events = (await cluster.client.list(core_v1.Event, "default")).items
    about = [one for one in events if one.involved_object.kind == "Service"]
    assert {one.source.component for one in about if one.source is not None} == {"endpoint-slice-controller"}
    about.sort(key=lambda one: int(one.metadata.resource_version))  # lists are by name, and names end at random
    return [(one.type, one.reason, one.message) for one in about]


def test_endpoints_are_meant_for_zones_as_their_nodes_have_cpu() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        found = await endpoints(cluster)
        zones = Counter(each.hints.for_zones[0].name for each in found if each.hints is not None)
        assert zones == {"zone-a": 4, "zone-b": 4}
        await cluster.settle()
        enabled = "Topology Aware Hints has been enabled, addressType: IPv4"
        assert await told(cluster) == [("Normal", "TopologyAwareHintsEnabled", enabled)]

    in_two_zones(scenario)


def test_hints_go_when_only_one_zone_is_left() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        nodes = (await cluster.client.list(core_v1.Node)).items
        for node in nodes:
            if node.metadata.labels["topology.kubernetes.io/zone"] == "zone-b":
                patch = {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
                await cluster.client.patch(core_v1.Node, node.metadata.name, "", patch)
        await cluster.client.delete(core_v1.Node, nodes[-1].metadata.name)
        await cluster.eventually(lambda: has_hints(cluster, 0))
        await cluster.settle()
        text = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
        assert ("Warning", "TopologyAwareHintsDisabled", f"{text}, addressType: IPv4") in await told(cluster)

    in_two_zones(scenario)


def test_hints_go_with_the_annotation() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.patch(core_v1.Service, "web", "default", {"metadata": {"annotations": {MODE: None}}})
        await cluster.eventually(lambda: has_hints(cluster, 0))
        await cluster.settle()
        text = "Topology Aware Hints has been disabled, addressType: IPv4"
        assert (await told(cluster))[-1] == ("Warning", "TopologyAwareHintsDisabled", text)

    in_two_zones(scenario)


def test_too_few_endpoints_have_no_hints() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.patch(apps_v1.Deployment, "web", "default", {"spec": {"replicas": 1}})

        async def one_left() -> bool:
            return len(await endpoints(cluster)) == 1 and await has_hints(cluster, 0)

        await cluster.eventually(one_left)
        await cluster.settle()
        text = "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"
        assert ("Warning", "TopologyAwareHintsDisabled", text) in await told(cluster)

    in_two_zones(scenario)
