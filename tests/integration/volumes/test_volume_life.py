"""Volumes in a live cluster: made on the node of the first consumer, bound by size and label, grown, kept or taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import apps_v1, core_v1, storage_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": namespace}, **fields})


def claim(name: str, size: str = "1Gi", **spec: Any) -> Any:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return make(core_v1.PersistentVolumeClaim, name, spec={**wanted, **spec})


def volume(name: str, size: str, policy: str = "Retain", **spec: Any) -> Any:
    wanted = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": f"/mnt/{name}"}}
    policy_field = {"persistentVolumeReclaimPolicy": policy, "storageClassName": "manual"}
    return make(core_v1.PersistentVolume, name, "", spec={**wanted, **policy_field, **spec})


def pod(name: str, claim_name: str) -> Any:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    return make(core_v1.Pod, name, spec={"containers": [{"name": "main", "image": "app"}], "volumes": volumes})


async def claim_is(cluster: LiveCluster, name: str, phase: str, bound_to: str | None = None) -> Any:
    found = await cluster.client.get(core_v1.PersistentVolumeClaim, name, "default")
    assert found.status.phase == phase
    assert bound_to is None or found.spec.volume_name == bound_to
    return found


async def volume_is(cluster: LiveCluster, name: str, phase: str) -> Any:
    found = await cluster.client.get(core_v1.PersistentVolume, name)
    assert found.status.phase == phase
    return found


def test_a_claim_waits_for_its_pod_and_gets_a_volume_on_its_node() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(claim("data"))
        waiting = await cluster.eventually(lambda: claim_is(cluster, "data", "Pending"))
        assert waiting.spec.storage_class_name == "standard", "the default class"
        await cluster.client.create(pod("user", "data"))
        bound = await cluster.eventually(lambda: claim_is(cluster, "data", "Bound"))
        assert bound.status.capacity == {"storage": "1Gi"}
        made = await volume_is(cluster, bound.spec.volume_name, "Bound")

        async def placed() -> core_v1.Pod | None:
            found = await cluster.client.get(core_v1.Pod, "user", "default")
            return found if found.spec.node_name else None

        user = await cluster.eventually(placed)  # it is bound after its claim
        (term,) = made.spec.node_affinity.required.node_selector_terms
        assert term.match_expressions[0].values == (user.spec.node_name,)
        await cluster.client.delete(core_v1.Pod, "user", "default")
        await cluster.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        assert await cluster.eventually(lambda: cluster.gone(core_v1.PersistentVolume, made.metadata.name, ""))

    live(scenario)


def test_the_smallest_volume_that_fits_is_taken_and_kept_when_its_claim_goes() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        for name, size in (("big", "100Gi"), ("fitting", "5Gi"), ("small", "1Gi")):
            await cluster.client.create(volume(name, size))
        await cluster.client.create(claim("data", "3Gi", storageClassName="manual"))
        await cluster.eventually(lambda: claim_is(cluster, "data", "Bound", "fitting"))
        await cluster.eventually(lambda: volume_is(cluster, "big", "Available"))
        await cluster.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        released = await cluster.eventually(lambda: volume_is(cluster, "fitting", "Released"))
        assert released.spec.claim_ref.name == "data"

    live(scenario)


def test_a_volume_that_is_deleted_while_bound_goes_with_its_claim() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(volume("disk", "1Gi"))
        await cluster.client.create(claim("data", storageClassName="manual"))
        await cluster.eventually(lambda: claim_is(cluster, "data", "Bound", "disk"))
        await cluster.eventually(lambda: volume_is(cluster, "disk", "Bound"))
        await cluster.client.delete(core_v1.PersistentVolume, "disk")
        assert (await volume_is(cluster, "disk", "Bound")).metadata.deletion_timestamp
        await cluster.client.delete(core_v1.PersistentVolumeClaim, "data", "default")
        assert await cluster.eventually(lambda: cluster.gone(core_v1.PersistentVolume, "disk", ""))

    live(scenario)


def test_a_claim_that_comes_first_is_bound_when_its_volume_comes() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        selector = {"matchLabels": {"disk": "fast"}}
        await cluster.client.create(claim("data", storageClassName="manual", selector=selector))
        await cluster.eventually(lambda: claim_is(cluster, "data", "Pending"))
        await cluster.client.create(volume("plain", "1Gi"))
        fast = volume("fast", "1Gi")
        fast.metadata.labels = {"disk": "fast"}
        await cluster.client.create(fast)
        assert await cluster.eventually(lambda: claim_is(cluster, "data", "Bound", "fast"))

    live(scenario)


def test_a_volume_that_names_its_claim_and_a_claim_that_names_its_volume() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        reference = {"namespace": "default", "name": "chosen"}
        await cluster.client.create(volume("mine", "1Gi", claimRef=reference))
        await cluster.client.create(volume("yours", "1Gi"))
        await cluster.client.create(claim("other", storageClassName="manual"))
        await cluster.eventually(lambda: claim_is(cluster, "other", "Bound", "yours"))
        await cluster.client.create(claim("chosen", storageClassName="manual", volumeName="mine"))
        assert await cluster.eventually(lambda: claim_is(cluster, "chosen", "Bound", "mine"))

    live(scenario)


def test_a_claim_grows_where_its_class_allows_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(
            make(storage_v1.StorageClass, "now", "", provisioner="bayplan.dev/local", allowVolumeExpansion=True)
        )
        await cluster.client.create(claim("data", storageClassName="now"))
        await cluster.eventually(lambda: claim_is(cluster, "data", "Bound"))
        patch = {"spec": {"resources": {"requests": {"storage": "4Gi"}}}}
        await cluster.client.patch(core_v1.PersistentVolumeClaim, "data", "default", patch)

        async def grown() -> bool:
            found = await claim_is(cluster, "data", "Bound")
            volume = await cluster.client.get(core_v1.PersistentVolume, found.spec.volume_name)
            return bool(found.status.capacity == volume.spec.capacity == {"storage": "4Gi"})

        assert await cluster.eventually(grown)

    live(scenario)


def test_who_expands_a_volume_is_somebody_outside() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        provisioner = "kubernetes.io/no-provisioner"
        await cluster.client.create(
            make(storage_v1.StorageClass, "manual", "", provisioner=provisioner, allowVolumeExpansion=True)
        )
        await cluster.client.create(volume("only", "1Gi"))
        await cluster.client.create(claim("data", storageClassName="manual"))
        await cluster.eventually(lambda: claim_is(cluster, "data", "Bound", "only"))
        patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        await cluster.client.patch(core_v1.PersistentVolumeClaim, "data", "default", patch)

        async def told() -> bool:
            events = (await cluster.client.list(core_v1.Event, "default")).items
            found = [one for one in events if one.reason == "ExternalExpanding"]
            return [(one.type, one.source.component, one.message) for one in found] == [
                ("Normal", "volume_expand", "waiting for an external controller to expand this PVC")
            ]

        assert await cluster.eventually(told)

    live(scenario)


def test_a_claim_whose_volume_is_gone_is_lost() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(volume("only", "1Gi"))
        await cluster.client.create(claim("data", storageClassName="manual"))
        await cluster.eventually(lambda: claim_is(cluster, "data", "Bound", "only"))
        await cluster.client.patch(core_v1.PersistentVolume, "only", "", {"metadata": {"finalizers": None}})
        await cluster.client.delete(core_v1.PersistentVolume, "only")
        assert await cluster.eventually(lambda: claim_is(cluster, "data", "Lost"))

    live(scenario)


def test_stateful_pods_run_with_volumes_of_their_own() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        labels = {"app": "db"}
        template = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        spec = {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}},
            "volumeClaimTemplates": [template],
        }
        await cluster.client.create(make(apps_v1.StatefulSet, "db", spec=spec))

        async def ready() -> bool:
            return (await cluster.client.get(apps_v1.StatefulSet, "db", "default")).status.ready_replicas == 3

        await cluster.eventually(ready)
        for index in range(3):
            assert await claim_is(cluster, f"data-db-{index}", "Bound")

    live(scenario)
