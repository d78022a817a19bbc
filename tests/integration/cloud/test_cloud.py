"""The simulated cloud: balancers for services, nodes that vanish with their machines, taints of new and of stopped ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.types import core_v1
from bayplan.controllers.networking.service_load_balancers import FINALIZER
from bayplan.controllers.nodes.cloud import STATE, Route, routes_of
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import node
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


def service(name: str, **spec: Any) -> Any:
    ports = [{"port": 80}]
    tree = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": ports, **spec},
    }
    return from_tree(core_v1.Service, tree)


async def address(cluster: LiveCluster, name: str) -> str:
    found = await cluster.client.get(core_v1.Service, name, "default")
    return next((one.ip for one in found.status.load_balancer.ingress), "")


def test_services_get_addresses_of_their_own_and_give_them_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(service("one"))
        await cluster.client.create(service("two"))
        first = await cluster.eventually(lambda: address(cluster, "one"))
        assert first != await cluster.eventually(lambda: address(cluster, "two"))
        await cluster.client.create(service("foreign", loadBalancerClass="example.com/other"))
        await cluster.client.patch(core_v1.Service, "two", "default", {"spec": {"type": "ClusterIP"}})

        async def given_back() -> bool:
            found = await cluster.client.get(core_v1.Service, "two", "default")
            return not found.status.load_balancer.ingress and not found.metadata.finalizers

        await cluster.eventually(given_back)
        await cluster.client.delete(core_v1.Service, "one", "default")
        await cluster.eventually(lambda: cluster.gone(core_v1.Service, "one"))
        await cluster.client.create(service("next"))
        assert await cluster.eventually(lambda: address(cluster, "next")) == first
        assert await address(cluster, "foreign") == ""

    live(scenario)


def test_a_new_service_does_not_get_the_address_that_an_old_one_had_before_a_restart() -> None:
    async def main() -> None:
        old, new = service("old"), service("new")
        old.metadata.uid, new.metadata.uid = "old", "new"
        old.metadata.finalizers = (FINALIZER,)
        ingress = (core_v1.LoadBalancerIngress(ip="198.51.100.1", ip_mode="VIP"),)
        old.status.load_balancer = core_v1.LoadBalancerStatus(ingress=ingress)
        kind = DEFAULT_KINDS.of_type(core_v1.Service)
        async with VirtualCluster(nodes=0, contents=[(kind, new), (kind, old)]) as cluster:

            async def both() -> list[str]:
                found = [await cluster.client.get(core_v1.Service, name, "default") for name in ("new", "old")]
                addresses = [one.ip for each in found for one in each.status.load_balancer.ingress]
                return addresses if len(addresses) == 2 else []

            await cluster.eventually(both)
            await cluster.settle()
            assert await both() == ["198.51.100.2", "198.51.100.1"]

    run(main())


def test_a_stopped_machine_taints_its_node_and_a_vanished_one_takes_it_along() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        name = (await cluster.client.list(core_v1.Node)).items[0].metadata.name

        async def taints(*keys: str) -> bool:
            found = (await cluster.client.get(core_v1.Node, name)).spec.taints
            return tuple(one.key for one in found) == keys

        async def state(value: str | None) -> None:
            await cluster.client.patch(core_v1.Node, name, "", {"metadata": {"annotations": {STATE: value}}})

        await state("shut-down")
        await cluster.eventually(lambda: taints("node.cloudprovider.kubernetes.io/shutdown"))
        await state(None)
        await cluster.eventually(lambda: taints())
        await state("gone")
        await cluster.eventually(lambda: cluster.gone(core_v1.Node, name, ""))
        assert await cluster.eventually(
            lambda: has_event(cluster, "DeletingNode")
        )  # events are written in the background

    live(scenario)


async def has_event(cluster: LiveCluster, reason: str) -> bool:
    return any(one.reason == reason for one in (await cluster.client.list(core_v1.Event, "default")).items)


def test_a_new_node_may_be_used_once_the_cloud_has_told_about_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        new = node("joined")
        new.spec.taints = (core_v1.Taint(key="node.cloudprovider.kubernetes.io/uninitialized", effect="NoSchedule"),)
        await cluster.client.create(new)

        async def known() -> bool:
            found = await cluster.client.get(core_v1.Node, "joined")
            waiting = any("uninitialized" in one.key for one in found.spec.taints)
            return not waiting and found.spec.provider_id == "simulated://joined"

        assert await cluster.eventually(known)

    live(scenario)


def test_routes_follow_the_networks_of_nodes() -> None:
    one = node("a")
    assert routes_of(one) == []
    one.spec.pod_cidrs = ("10.0.0.0/24", "fd00::/64")
    assert routes_of(one) == [Route("a", "10.0.0.0/24"), Route("a", "fd00::/64")]
