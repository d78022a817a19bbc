"""What the server fills in and leaves alone when devices and claims of them are written."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import resource_v1
from bayplan.client.client import JSON_PATCH, MERGE_PATCH
from bayplan.simulation.virtual_cluster import EPOCH, VirtualCluster
from bayplan.support.timestamps import rfc3339
from bayplan.support.virtual_time import run

TAINT = {"key": "broken", "effect": "NoExecute"}


def slice_with(**device: Any) -> resource_v1.ResourceSlice:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0", **device}]}
    made: resource_v1.ResourceSlice = from_tree(
        resource_v1.ResourceSlice, {"metadata": {"name": "slice"}, "spec": spec}
    )
    return made


@pytest.mark.parametrize("way", ["create", "update", "patch"])
def test_a_device_taint_without_a_time_gets_that_of_the_write(way: str) -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=0) as cluster:
            client = cluster.client
            made = await client.create(slice_with(taints=[TAINT] if way == "create" else []))
            if way != "create":
                await cluster.advance(hours=1)
            written = rfc3339(cluster.now())
            if way == "update":
                made.spec.devices = slice_with(taints=[TAINT]).spec.devices
                await client.update(made)
            elif way == "patch":
                change = [{"op": "add", "path": "/spec/devices/0/taints", "value": [TAINT]}]
                await client.patch(resource_v1.ResourceSlice, "slice", "", change, patch_type=JSON_PATCH)
            await cluster.advance(minutes=1)
            await client.patch(resource_v1.ResourceSlice, "slice", "", {"metadata": {"labels": {"a": "b"}}})
            found = await client.get(resource_v1.ResourceSlice, "slice")
            assert [one.time_added for one in found.spec.devices[0].taints] == [written]

    run(main())


def test_a_time_that_is_given_stays() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=0) as cluster:
            long_ago = rfc3339(EPOCH - 3600)
            made = await cluster.client.create(slice_with(taints=[{**TAINT, "timeAdded": long_ago}]))
            assert made.spec.devices[0].taints[0].time_added == long_ago

    run(main())


def test_a_write_of_a_claims_status_leaves_its_metadata_alone() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=0) as cluster:
            client = cluster.client
            metadata = {"name": "mine", "namespace": "default", "labels": {"a": "b"}, "annotations": {"c": "d"}}
            spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
            await client.create(from_tree(resource_v1.ResourceClaim, {"metadata": metadata, "spec": spec}))
            metadata = {"labels": {"a": "other"}, "annotations": {"new": "one"}}
            device = {"driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
            allocation = {"devices": {"results": [{"request": "r", **device}]}}
            patch = {"metadata": metadata, "status": {"allocation": allocation, "devices": [device]}}
            found = await client.patch(
                resource_v1.ResourceClaim, "mine", "default", patch, subresource="status", patch_type=MERGE_PATCH
            )
            assert (found.metadata.labels, found.metadata.annotations) == ({"a": "b"}, {"c": "d"})
            assert [one.device for one in found.status.devices] == ["gpu-0"]

    run(main())
