"""The scheduler among the controllers and simulated nodes: hand-shakes that need both sides."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, resource_v1
from bayplan.scheduler.library import typed
from bayplan.testing.cluster import LiveCluster, running_cluster
from tests.scheduler.devices import device, device_class, exactly, slice_of
from tests.scheduler.objects import Tree


def template(name: str) -> Any:
    tree: Tree = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [exactly()]}}},
    }
    return from_tree(resource_v1.ResourceClaimTemplate, tree)


def wanting(name: str) -> Any:
    return from_tree(
        core_v1.Pod,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
            },
        },
    )


def test_a_device_goes_from_a_pod_that_ends_to_the_next() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        node = (await client.list(core_v1.Node)).items[0].metadata.name

        async def phase(name: str) -> str:
            return (await client.get(core_v1.Pod, name, "default")).status.phase

        async def runs(name: str) -> bool:
            return await phase(name) == "Running"

        for tree in (device_class(), slice_of(node, device("gpu-0"))):
            await client.create(typed(tree["kind"], tree))
        await client.create(template("gpus"))
        await client.create(wanting("first"))
        await cluster.eventually(lambda: runs("first"))
        assert (await client.get(core_v1.Pod, "first", "default")).spec.node_name == node
        await client.create(wanting("second"))

        async def refused() -> bool:
            conditions = (await client.get(core_v1.Pod, "second", "default")).status.conditions
            return any("cannot allocate all claims" in item.message for item in conditions)

        await cluster.eventually(refused)
        await client.delete(core_v1.Pod, "first", "default")
        await cluster.eventually(lambda: runs("second"))

    async def run() -> None:
        async with running_cluster() as cluster:
            await scenario(cluster)

    asyncio.run(run())
