"""Zones that fail as a whole, and networks of nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.cluster.settings import ClusterSettings
from bayplan.controllers.settings import ControllerSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.cluster import LiveCluster, running_cluster

UNREACHABLE = "node.kubernetes.io/unreachable"


def live(test: Callable[[LiveCluster], Awaitable[None]], nodes: int, zones: int, **settings: float) -> None:
    quick = SimulatorSettings(nodes=nodes, zones=zones, start_seconds=0.01, lease_seconds=0.1)
    patience = ControllerSettings(
        node_monitor_period=0.05,
        node_monitor_grace_period=0.4,
        cluster_cidr=("10.128.0.0/16",),
        **settings,  # type: ignore[arg-type]
    )

    async def run() -> None:
        async with running_cluster(settings=ClusterSettings(nodes=quick, controller=patience)) as cluster:
            await test(cluster)

    asyncio.run(run())


async def silence(cluster: LiveCluster, *names: str, value: str | None = "true") -> None:
    for name in names:
        patch = {"metadata": {"annotations": {"bayplan.dev/silent": value}}}
        await cluster.client.patch(core_v1.Node, name, "", patch)


async def effects(cluster: LiveCluster) -> dict[str, set[str]]:
    """Effects of the taint `unreachable` by node, where there are any."""
    nodes = (await cluster.client.list(core_v1.Node)).items
    found = {node.metadata.name: {one.effect for one in node.spec.taints if one.key == UNREACHABLE} for node in nodes}
    return {name: effect for name, effect in found.items() if effect}


def test_while_all_zones_are_lost_nothing_is_emptied() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await silence(cluster, "node-1", "node-2")

        async def marked() -> bool:
            return await effects(cluster) == {"node-1": {"NoSchedule"}, "node-2": {"NoSchedule"}}

        await cluster.eventually(marked)
        await silence(cluster, "node-1", value=None)

        async def one_is_emptied() -> bool:
            return await effects(cluster) == {"node-2": {"NoSchedule", "NoExecute"}}

        await cluster.eventually(one_is_emptied)

    live(scenario, nodes=2, zones=2)


def test_failing_nodes_of_a_healthy_zone_are_emptied_one_after_the_other() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await silence(cluster, "node-1", "node-2")

        async def marked() -> bool:
            found = await effects(cluster)
            return sorted(len(effect) for effect in found.values()) == [1, 2]

        await cluster.eventually(marked)

    live(scenario, nodes=5, zones=1, node_eviction_rate=0.001)


def test_a_zone_of_which_most_is_lost_is_left_alone() -> None:
    """Only what was found before the zone counted as disrupted, two nodes at most, is emptied."""

    async def scenario(cluster: LiveCluster) -> None:
        lost = ("node-1", "node-2", "node-3", "node-4")
        await silence(cluster, *lost)

        async def marked() -> bool:
            found = await effects(cluster)
            assert set(found) == set(lost)
            return sum("NoExecute" in effect for effect in found.values()) <= 2

        await cluster.eventually(marked)

    live(scenario, nodes=5, zones=1, node_eviction_rate=1000.0)


def test_a_node_without_a_network_gets_one_that_nobody_has_and_learns_its_ttl() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(from_tree(core_v1.Node, {"metadata": {"name": "mine"}}))

        async def settled() -> bool:
            nodes = (await cluster.client.list(core_v1.Node)).items
            networks = {node.metadata.name: node.spec.pod_cidrs for node in nodes}
            assert networks["mine"] == ("10.128.2.0/24",)
            return all(node.metadata.annotations.get("node.alpha.kubernetes.io/ttl") == "0" for node in nodes)

        await cluster.eventually(settled)

    live(scenario, nodes=2, zones=1)
