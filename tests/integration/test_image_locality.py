"""Nodes report the images that they have, and pods go where their image is: a whole cluster in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.nodes.images import image_of
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run

LARGE = max((f"registry.example/model:{number}" for number in range(40)), key=lambda name: image_of(name).size_bytes)
ELSEWHERE = "registry.example/other:1"


def pod(name: str, image: str, *, node: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": image}],
            "terminationGracePeriodSeconds": 0,
            **({"nodeName": node} if node else {}),
        },
    }


async def node_of(cluster: VirtualCluster, name: str) -> str:
    return (await cluster.client.get(core_v1.Pod, name, "default")).spec.node_name


def played(story: Callable[[VirtualCluster, str], Awaitable[None]]) -> None:
    """Four equal nodes; a pod has run on the last one of them, which has told of its images with its lease, and is gone."""

    async def main() -> None:
        async with VirtualCluster(nodes=4) as cluster:
            nodes = sorted(one.metadata.name for one in (await cluster.client.list(core_v1.Node)).items)
            await cluster.apply(pod("first", LARGE, node=nodes[-1]))
            await cluster.advance(minutes=61)
            await cluster.client.delete(core_v1.Pod, "first", "default")
            await cluster.advance(seconds=5)
            await story(cluster, nodes[-1])

    run(main())


def test_a_pod_goes_where_its_image_is() -> None:
    async def story(cluster: VirtualCluster, node: str) -> None:
        shown = (await cluster.client.get(core_v1.Node, node)).status.images
        assert [image.names for image in shown] == [image_of(LARGE).names]
        for number in range(6):
            await cluster.apply(pod("second", LARGE))
            await cluster.advance(seconds=5)
            assert await node_of(cluster, "second") == node, f"attempt {number}"
            await cluster.client.delete(core_v1.Pod, "second", "default")
            await cluster.advance(seconds=5)

    played(story)


def test_pods_with_other_images_go_anywhere() -> None:
    async def story(cluster: VirtualCluster, node: str) -> None:
        found = set()
        for _ in range(12):
            await cluster.apply(pod("other", ELSEWHERE))
            await cluster.advance(seconds=5)
            found.add(await node_of(cluster, "other"))
            await cluster.client.delete(core_v1.Pod, "other", "default")
            await cluster.advance(seconds=5)
        assert found != {node}

    played(story)
