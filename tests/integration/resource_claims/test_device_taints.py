"""Pods leave devices that are tainted."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, resource_v1
from bayplan.testing.cluster import running_cluster


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": namespace}, **fields})


def test_a_pod_is_evicted_when_its_device_is_tainted() -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            client = cluster.client
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
            status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
            patch = {"status": status}
            await client.patch(resource_v1.ResourceClaim, "mine", "default", patch, subresource="status")
            taint = {"key": "broken", "effect": "NoExecute"}
            devices = {"spec": {"devices": [{"name": "gpu-0", "taints": [taint]}]}}
            await client.patch(resource_v1.ResourceSlice, "slice", "", devices)
            await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "user"))

            async def told() -> bool:
                events = (await client.list(core_v1.Event, "default")).items
                wanted = ("DeviceTaintManagerEviction", "Marking for deletion Pod default/user")
                return wanted in {(one.reason, one.message) for one in events}

            await cluster.eventually(told)

    asyncio.run(run())
