"""Claims that go with their pods, and CSI volumes that are attached to the nodes of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, storage_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": namespace}, **fields})


def pod(name: str, volume: dict[str, Any], **spec: Any) -> Any:
    containers = [{"name": "main", "image": "app"}]
    return make(core_v1.Pod, name, spec={"containers": containers, "volumes": [{"name": "data", **volume}], **spec})


EPHEMERAL = {
    "ephemeral": {
        "volumeClaimTemplate": {
            "metadata": {"labels": {"made": "here"}, "annotations": {"why": "test"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    }
}


async def reasons(cluster: LiveCluster, name: str) -> set[tuple[str, str]]:
    events = (await cluster.client.list(core_v1.Event, "default")).items
    return {(one.reason, one.message) for one in events if one.involved_object.name == name}


def test_an_ephemeral_volume_gets_a_claim_that_goes_with_its_pod() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        created = await cluster.client.create(pod("user", EPHEMERAL))

        async def running() -> bool:
            return (await cluster.client.get(core_v1.Pod, "user", "default")).status.phase == "Running"

        await cluster.eventually(running)
        claim = await cluster.client.get(core_v1.PersistentVolumeClaim, "user-data", "default")
        owner = claim.metadata.owner_references[0]
        assert (owner.kind, owner.name, owner.uid) == ("Pod", "user", created.metadata.uid)
        assert owner.controller
        assert owner.block_owner_deletion
        assert claim.metadata.labels == {"made": "here"}
        assert claim.metadata.annotations["why"] == "test"
        await cluster.client.delete(core_v1.Pod, "user", "default")
        await cluster.eventually(lambda: cluster.gone(core_v1.PersistentVolumeClaim, "user-data"))

    live(scenario)


def test_a_claim_of_somebody_else_is_not_taken_and_its_going_helps_the_pod() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        foreign = await cluster.client.create(make(core_v1.PersistentVolumeClaim, "user-data", spec=spec))
        created = await cluster.client.create(pod("user", EPHEMERAL))
        text = "ephemeral volume data: PVC default/user-data was not created for pod default/user (pod is not owner)"

        async def told() -> bool:
            return ("FailedBinding", text) in await reasons(cluster, "user")

        await cluster.eventually(told)
        await cluster.client.delete(core_v1.PersistentVolumeClaim, "user-data", "default", uid=foreign.metadata.uid)

        async def replaced() -> bool:
            claim = await cluster.client.get(core_v1.PersistentVolumeClaim, "user-data", "default")
            return any(one.uid == created.metadata.uid for one in claim.metadata.owner_references)

        await cluster.eventually(replaced)

    live(scenario)


async def csi_volume(cluster: LiveCluster, name: str) -> None:
    """A CSI volume and a claim of its name, to be bound to each other."""
    shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    source = {"driver": "csi.example.com", "volumeHandle": f"handle-{name}"}
    spec = {**shape, "capacity": {"storage": "1Gi"}, "csi": source, "persistentVolumeReclaimPolicy": "Retain"}
    await cluster.client.create(make(core_v1.PersistentVolume, name, "", spec=spec))
    wanted = {**shape, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.client.create(make(core_v1.PersistentVolumeClaim, name, spec=wanted))


async def attachments(cluster: LiveCluster) -> list[storage_v1.VolumeAttachment]:
    return (await cluster.client.list(storage_v1.VolumeAttachment)).items


async def attached(cluster: LiveCluster, count: int) -> list[storage_v1.VolumeAttachment] | None:
    found = await attachments(cluster)
    return found if len(found) == count else None


def user(name: str, claim: str, node: str) -> Any:
    return pod(name, {"persistentVolumeClaim": {"claimName": claim}}, nodeName=node)


def test_a_csi_volume_is_attached_to_the_node_of_its_pod_and_detached_after_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        await csi_volume(cluster, "disk")
        await client.create(user("user", "disk", "node-1"))
        one = (await cluster.eventually(lambda: attached(cluster, 1)))[0]
        assert (one.spec.attacher, one.spec.node_name) == ("csi.example.com", "node-1")
        assert one.spec.source.persistent_volume_name == "disk"
        await client.patch(
            storage_v1.VolumeAttachment, one.metadata.name, "", {"status": {"attached": True}}, subresource="status"
        )

        async def listed(*names: str) -> bool:
            node = await client.get(core_v1.Node, "node-1")
            return tuple(volume.name for volume in node.status.volumes_attached) == names

        async def told() -> bool:
            text = 'AttachVolume.Attach succeeded for volume "disk" '
            return ("SuccessfulAttachVolume", text) in await reasons(cluster, "user")

        name = "kubernetes.io/csi/csi.example.com^handle-disk"
        await cluster.eventually(lambda: listed(name))
        await cluster.eventually(told)
        in_use = {"status": {"volumesInUse": [name]}}
        await client.patch(core_v1.Node, "node-1", "", in_use, subresource="status")
        await client.delete(core_v1.Pod, "user", "default")
        await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "user"))
        assert await attachments(cluster), "the node still has it mounted"
        await client.patch(core_v1.Node, "node-1", "", {"status": {"volumesInUse": []}}, subresource="status")
        await cluster.eventually(lambda: listed())
        await cluster.eventually(lambda: cluster.gone(storage_v1.VolumeAttachment, one.metadata.name, ""))

    live(scenario)


def test_an_exclusive_volume_is_attached_to_one_node_at_a_time() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await csi_volume(cluster, "disk")
        await cluster.client.create(user("first", "disk", "node-1"))
        await cluster.eventually(lambda: attached(cluster, 1))
        await cluster.client.create(user("second", "disk", "node-2"))

        async def refused() -> bool:
            text = 'Multi-Attach error for volume "disk" Volume is already used by pod(s) first'
            return ("FailedAttachVolume", text) in await reasons(cluster, "second")

        await cluster.eventually(refused)
        await cluster.client.delete(core_v1.Pod, "first", "default")

        async def moved() -> bool:
            return [one.spec.node_name for one in await attachments(cluster)] == ["node-2"]

        await cluster.eventually(moved)

    live(scenario)


def test_volumes_of_a_driver_that_needs_no_attaching_are_left_alone() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(make(storage_v1.CSIDriver, "csi.example.com", "", spec={"attachRequired": False}))
        await csi_volume(cluster, "disk")
        await cluster.client.create(user("user", "disk", "node-1"))

        async def running() -> bool:
            return (await cluster.client.get(core_v1.Pod, "user", "default")).status.phase == "Running"

        await cluster.eventually(running)
        assert not await attachments(cluster)

    live(scenario)


def test_attachments_that_somebody_else_made_are_left_to_them() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await csi_volume(cluster, "disk")
        await csi_volume(cluster, "other")
        source = {"persistentVolumeName": "other"}
        spec = {"attacher": "csi.example.com", "nodeName": "node-1", "source": source}
        foreign = from_tree(storage_v1.VolumeAttachment, {"metadata": {"name": "theirs"}, "spec": spec})
        await cluster.client.create(foreign)
        await cluster.client.create(user("user", "disk", "node-1"))
        await cluster.eventually(lambda: attached(cluster, 2))
        await cluster.client.delete(core_v1.Pod, "user", "default")
        left = await cluster.eventually(lambda: attached(cluster, 1))
        assert [one.metadata.name for one in left] == ["theirs"]

    live(scenario)
