"""StatefulSets in a live cluster: order, identity, updates with partition, going back, scaling, claims."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import apps_v1, core_v1
from bayplan.testing.cluster import LiveCluster, running_cluster

READY = "bayplan.dev/ready"


def live(test: Callable[[LiveCluster], Awaitable[None]], **simulator: Any) -> None:
    async def run() -> None:
        async with running_cluster(**simulator) as cluster:
            await test(cluster)

    asyncio.run(run())


def stateful_set(
    replicas: int = 3, image: str = "app:1", annotations: dict[str, str] | None = None, **spec: Any
) -> Any:
    labels = {"app": "db"}
    template = {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    tree = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }
    return from_tree(apps_v1.StatefulSet, tree)


async def read(cluster: LiveCluster) -> apps_v1.StatefulSet:
    return await cluster.client.get(apps_v1.StatefulSet, "db", "default")


async def settled(cluster: LiveCluster, replicas: int) -> apps_v1.StatefulSet:
    """Wait until all replicas are ready and of one revision."""

    async def look() -> apps_v1.StatefulSet | None:
        one = await read(cluster)
        status = one.status
        done = status.ready_replicas == status.updated_replicas == status.replicas == replicas
        seen = status.observed_generation == one.metadata.generation
        return one if done and seen and status.current_revision == status.update_revision else None

    return await cluster.eventually(look)


async def pods(cluster: LiveCluster) -> list[core_v1.Pod]:
    return sorted(await cluster.pods(app="db"), key=lambda pod: pod.metadata.name)


async def patch(cluster: LiveCluster, spec: dict[str, Any]) -> None:
    await cluster.client.patch(apps_v1.StatefulSet, "db", "default", {"spec": spec})


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


def test_pods_come_in_order_with_their_identity() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        stream = await cluster.client.watch(core_v1.Pod, "default")
        await cluster.client.create(stateful_set())
        await settled(cluster, 3)
        ready: list[str] = []
        added: list[tuple[str, int]] = []
        async for event in stream:
            pod = event.object
            if event.type == "ADDED":
                added.append((pod.metadata.name, len(ready)))
            if pod.metadata.name not in ready and any(
                one.type == "Ready" and one.status == "True" for one in pod.status.conditions
            ):
                ready.append(pod.metadata.name)
            if len(ready) == 3:
                break
        stream.close()
        assert added == [("db-0", 0), ("db-1", 1), ("db-2", 2)], "each waits for the one before"
        second = (await pods(cluster))[1]
        assert (second.spec.hostname, second.spec.subdomain) == ("db-1", "db")
        assert second.metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert second.metadata.labels["apps.kubernetes.io/pod-index"] == "1"

    live(scenario)


def test_parallel_pods_do_not_wait() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(stateful_set(annotations={READY: "false"}, podManagementPolicy="Parallel"))
        await cluster.eventually(lambda: has_pods(cluster, ["db-0", "db-1", "db-2"]))

    live(scenario)


def test_a_pod_that_is_not_ready_holds_up_the_next() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(stateful_set(annotations={READY: "false"}))
        await cluster.eventually(lambda: has_pods(cluster, ["db-0"]))
        await asyncio.sleep(0.2)
        assert await has_pods(cluster, ["db-0"])

    live(scenario)


async def has_pods(cluster: LiveCluster, names: list[str]) -> bool:
    return [pod.metadata.name for pod in await pods(cluster)] == names


def test_an_update_stops_at_the_partition_and_goes_on_when_it_is_moved() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await cluster.client.create(stateful_set(updateStrategy=strategy))
        before = await settled(cluster, 3)
        await patch(cluster, image("app:2"))
        await cluster.eventually(lambda: has_images(cluster, ["app:1", "app:1", "app:2"]))
        status = (await read(cluster)).status
        assert status.current_revision == before.status.current_revision != status.update_revision
        await cluster.client.delete(core_v1.Pod, "db-0", "default")
        await cluster.eventually(lambda: has_images(cluster, ["app:1", "app:1", "app:2"]))
        await patch(cluster, {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
        await settled(cluster, 3)
        assert await has_images(cluster, ["app:2"] * 3)

    live(scenario)


async def has_images(cluster: LiveCluster, images: list[str]) -> bool:
    found = await pods(cluster)
    return [pod.spec.containers[0].image for pod in found] == images and all(pod.status.pod_ip for pod in found)


def test_going_back_reuses_the_old_revision() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(stateful_set(2))
        first = await settled(cluster, 2)
        await patch(cluster, image("app:2"))
        second = await settled(cluster, 2)
        assert second.status.current_revision != first.status.current_revision
        await patch(cluster, image("app:1"))
        await cluster.eventually(lambda: has_images(cluster, ["app:1"] * 2))
        back = await settled(cluster, 2)
        assert back.status.current_revision == first.status.current_revision
        revisions = (await cluster.client.list(apps_v1.ControllerRevision, "default")).items
        assert sorted(one.revision for one in revisions) == [2, 3]

    live(scenario)


def test_on_delete_waits_for_somebody_to_delete() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(stateful_set(2, updateStrategy={"type": "OnDelete"}))
        await cluster.eventually(lambda: has_images(cluster, ["app:1"] * 2))
        await patch(cluster, image("app:2"))
        await cluster.client.delete(core_v1.Pod, "db-1", "default")
        await cluster.eventually(lambda: has_images(cluster, ["app:1", "app:2"]))

    live(scenario)


def test_scaling_down_takes_the_highest_first_and_claims_go_as_the_policy_says() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
        await cluster.client.create(
            stateful_set(
                3,
                volumeClaimTemplates=[claim],
                podManagementPolicy="Parallel",
                persistentVolumeClaimRetentionPolicy=policy,
            )
        )
        await cluster.eventually(lambda: has_claims(cluster, ["data-db-0", "data-db-1", "data-db-2"]))
        await patch(cluster, {"replicas": 1})
        await cluster.eventually(lambda: has_pods(cluster, ["db-0"]))
        await cluster.eventually(lambda: has_claims(cluster, ["data-db-0"]))

    live(scenario)


async def has_claims(cluster: LiveCluster, names: list[str]) -> bool:
    found = (await cluster.client.list(core_v1.PersistentVolumeClaim, "default")).items
    return sorted(one.metadata.name for one in found) == names


def test_ordinals_may_start_elsewhere() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(stateful_set(2, ordinals={"start": 5}))
        await cluster.eventually(lambda: has_pods(cluster, ["db-5", "db-6"]))

    live(scenario)
