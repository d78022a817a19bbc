"""Resources that somebody gives a node in its status: the node makes them allocatable, as kubelets do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.api.types.scalars import Quantity
from bayplan.client import Client
from bayplan.kubelet.simulator.nodes.objects import SILENT, offer
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run

GPU = "example.com/gpu"


def node(capacity: dict[str, Quantity], allocatable: dict[str, Quantity]) -> core_v1.Node:
    status = core_v1.NodeStatus(capacity=capacity, allocatable=allocatable)
    return core_v1.Node(metadata=meta_v1.ObjectMeta(name="n"), status=status)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(({"cpu": "4"}, {}), ({"cpu": "4", GPU: "2"}, {}), {GPU: "2"}, id="added"),
        pytest.param(({GPU: "2"}, {GPU: "2"}), ({GPU: "3"}, {GPU: "2"}), {GPU: "3"}, id="changed"),
        pytest.param(({GPU: "2"}, {GPU: "2"}), ({}, {GPU: "2"}), {GPU: None}, id="taken away"),
        pytest.param(({}, {}), ({GPU: "2"}, {GPU: "1"}), {}, id="the change says how much"),
        pytest.param(({"cpu": "4"}, {"cpu": "4"}), ({"cpu": "8"}, {"cpu": "4"}), {}, id="not extended"),
        pytest.param(({GPU: "2"}, {GPU: "1"}), ({GPU: "2"}, {GPU: "1"}), {}, id="nothing new"),
    ],
)
def test_what_a_node_offers_anew(
    before: tuple[dict[str, Quantity], dict[str, Quantity]],
    after: tuple[dict[str, Quantity], dict[str, Quantity]],
    expected: dict[str, str | None],
) -> None:
    assert offer(node(*before), node(*after)) == expected


def test_a_pod_finds_the_resource_that_its_node_was_given() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            client = cluster.client
            limits = core_v1.ResourceRequirements(limits={GPU: "1"})
            container = core_v1.Container(name="main", image="app", resources=limits)
            metadata = meta_v1.ObjectMeta(name="p", namespace="default")
            await client.create(core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=(container,))))
            await cluster.advance(seconds=5)
            assert not (await client.get(core_v1.Pod, "p", "default")).spec.node_name
            await give(cluster, "2")
            await cluster.advance(seconds=5)
            assert (await client.get(core_v1.Node, "node-1")).status.allocatable[GPU] == "2"
            assert (await client.get(core_v1.Pod, "p", "default")).status.phase == "Running"
            await give(cluster, None)
            await cluster.advance(seconds=1)
            assert GPU not in (await client.get(core_v1.Node, "node-1")).status.allocatable

    run(main())


def test_a_node_without_contact_makes_nothing_allocatable_until_it_is_back() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            silent = {"metadata": {"annotations": {SILENT: "true"}}}
            await cluster.client.patch(core_v1.Node, "node-1", "", silent)
            await cluster.advance(seconds=1)
            await give(cluster, "2")
            await cluster.advance(seconds=5)
            assert GPU not in (await cluster.client.get(core_v1.Node, "node-1")).status.allocatable
            await cluster.client.patch(core_v1.Node, "node-1", "", {"metadata": {"annotations": {SILENT: None}}})
            await cluster.advance(seconds=5)
            assert (await cluster.client.get(core_v1.Node, "node-1")).status.allocatable[GPU] == "2"

    run(main())


def test_what_comes_while_a_node_tells_of_its_resources_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Client.patch

    async def answered_late(self: Client, *args: Any, **options: Any) -> Any:
        found = await write(self, *args, **options)
        if "allocatable" in args[3].get("status", ()):
            await asyncio.sleep(2)
        return found

    async def main() -> None:
        monkeypatch.setattr(Client, "patch", answered_late)
        async with VirtualCluster(nodes=1) as cluster:
            await give(cluster, "2")
            await cluster.advance(seconds=1)
            await give(cluster, "3")
            await cluster.advance(seconds=10)
            assert (await cluster.client.get(core_v1.Node, "node-1")).status.allocatable[GPU] == "3"

    run(main())


async def give(cluster: VirtualCluster, amount: str | None) -> None:
    """Give the node a resource, or take it away."""
    patch = {"status": {"capacity": {GPU: amount}}}
    await cluster.client.patch(core_v1.Node, "node-1", "", patch, subresource="status")
