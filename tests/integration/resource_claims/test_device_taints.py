"""Pods leave devices that are tainted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, resource_v1
from bayplan.client import Client
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.cluster import running_cluster


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": namespace}, **fields})


async def use_device(client: Client, *tolerations: dict[str, Any]) -> None:
    """A pod `user` on the first node that has a device."""
    request = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
    await client.create(make(resource_v1.ResourceClaim, "mine", spec=request))
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    await client.create(make(resource_v1.ResourceSlice, "slice", "", spec=spec))
    main = {"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
    entry = [{"name": "gpu", "resourceClaimName": "mine"}]
    wanted = {"containers": [main], "resourceClaims": entry, "nodeName": "node-1"}
    user = await client.create(make(core_v1.Pod, "user", spec=wanted))
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
    consumer = {"resource": "pods", "name": "user", "uid": user.metadata.uid}
    results = [{**result, "tolerations": list(tolerations)}]
    patch = {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}}
    await client.patch(resource_v1.ResourceClaim, "mine", "default", patch, subresource="status")


async def taint_device(client: Client) -> None:
    taint = {"key": "broken", "effect": "NoExecute"}
    devices = {"spec": {"devices": [{"name": "gpu-0", "taints": [taint]}]}}
    await client.patch(resource_v1.ResourceSlice, "slice", "", devices)


def test_a_pod_is_evicted_when_its_device_is_tainted() -> None:
    async def main() -> None:
        async with running_cluster() as cluster:
            client = cluster.client
            await use_device(client)
            await taint_device(client)
            assert await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "user"))

            async def told() -> bool:
                events = (await client.list(core_v1.Event, "default")).items
                wanted = ("DeviceTaintManagerEviction", "Marking for deletion Pod default/user")
                return wanted in {(one.reason, one.message) for one in events}

            assert await cluster.eventually(told)

    asyncio.run(main())


def test_a_taint_that_is_tolerated_for_a_while_is_so_once() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            await use_device(cluster.client, {"operator": "Exists", "tolerationSeconds": 30})
            await cluster.advance(seconds=5)
            await taint_device(cluster.client)
            await cluster.advance(seconds=20)
            assert not (await cluster.client.get(core_v1.Pod, "user", "default")).metadata.deletion_timestamp
            await cluster.advance(seconds=20)
            with pytest.raises(ApiError, match="not found"):
                await cluster.client.get(core_v1.Pod, "user", "default")

    run(main())
