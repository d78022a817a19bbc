"""DaemonSets in a live cluster: a pod per node that fits, updates, taints, going back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.pods import POD_LABEL
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


def daemon_set(image: str = "agent:1", pod: dict[str, Any] | None = None, **spec: Any) -> apps_v1.DaemonSet:
    labels = {"app": "agent"}
    tree = {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}], **(pod or {})},
            },
            **spec,
        },
    }
    made: apps_v1.DaemonSet = from_tree(apps_v1.DaemonSet, tree)
    return made


async def read(cluster: LiveCluster) -> apps_v1.DaemonSet:
    return await cluster.client.get(apps_v1.DaemonSet, "agent", "default")


async def nodes_with_pods(cluster: LiveCluster) -> list[str]:
    return sorted(pod.spec.node_name for pod in await cluster.pods(app="agent"))


async def settled(cluster: LiveCluster, count: int) -> apps_v1.DaemonSet:
    async def look() -> apps_v1.DaemonSet | None:
        one = await read(cluster)
        status = one.status
        numbers = {
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.updated_number_scheduled,
            status.number_available,
        }
        return one if numbers == {count} and status.observed_generation == one.metadata.generation else None

    return await cluster.eventually(look)


async def patch_node(cluster: LiveCluster, name: str, **change: Any) -> None:
    await cluster.client.patch(core_v1.Node, name, "", change)


def test_every_node_gets_a_pod_and_a_labelled_subset_if_asked() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        names = sorted(node.metadata.name for node in (await cluster.client.list(core_v1.Node)).items)
        await cluster.client.create(daemon_set())
        one = await settled(cluster, 3)
        assert await nodes_with_pods(cluster) == names
        assert one.status.number_misscheduled == one.status.number_unavailable == 0
        await patch_node(cluster, names[0], metadata={"labels": {"disk": "ssd"}})
        spec = {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
        await cluster.client.patch(apps_v1.DaemonSet, "agent", "default", {"spec": spec})
        await settled(cluster, 1)
        assert await nodes_with_pods(cluster) == names[:1]
        await patch_node(cluster, names[0], metadata={"labels": {"disk": None}})
        await cluster.eventually(lambda: is_empty(cluster))

    live(scenario)


async def is_empty(cluster: LiveCluster) -> bool:
    return not await nodes_with_pods(cluster)


def test_a_deleted_pod_comes_again_and_a_new_node_gets_one() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(daemon_set())
        await settled(cluster, 3)
        (first, *_) = await cluster.pods(app="agent")
        await cluster.client.delete(core_v1.Pod, first.metadata.name, "default")

        async def replaced() -> bool:
            found = await cluster.pods(app="agent")
            return len(found) == 3 and all(pod.metadata.uid != first.metadata.uid for pod in found)

        await cluster.eventually(replaced)
        assert len(set(await nodes_with_pods(cluster))) == 3

    live(scenario)


def test_daemons_run_on_cordoned_nodes_but_leave_those_with_a_taint_that_evicts() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        names = sorted(node.metadata.name for node in (await cluster.client.list(core_v1.Node)).items)
        await patch_node(cluster, names[0], spec={"unschedulable": True})
        await patch_node(cluster, names[1], spec={"taints": [{"key": "pool", "value": "x", "effect": "NoExecute"}]})
        await cluster.client.create(daemon_set())
        await settled(cluster, 2)
        assert await nodes_with_pods(cluster) == [names[0], names[2]]

    live(scenario)


def test_an_update_goes_node_by_node_and_can_be_taken_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(daemon_set())
        await settled(cluster, 3)
        lowest = 3
        stream = await cluster.client.watch(apps_v1.DaemonSet, "default")
        template = {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}
        await cluster.client.patch(apps_v1.DaemonSet, "agent", "default", {"spec": template})

        async def follow() -> None:
            nonlocal lowest
            async for event in stream:
                lowest = min(lowest, event.object.status.number_available)

        following = asyncio.create_task(follow())
        await settled(cluster, 3)
        stream.close()
        following.cancel()
        assert lowest >= 2, "one node at a time"
        assert {pod.spec.containers[0].image for pod in await cluster.pods(app="agent")} == {"agent:2"}
        revisions = (await cluster.client.list(apps_v1.ControllerRevision, "default")).items
        assert sorted(one.revision for one in revisions) == [1, 2]

    live(scenario)


@pytest.mark.parametrize(("label", "expected"), [("twin", "twin"), ("", "agent-twin")])
def test_revisions_with_one_template_become_one_and_no_pod_is_replaced(label: str, expected: str) -> None:
    """`label`: the hash that the newer revision is labelled with, if any; its name serves otherwise."""

    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(daemon_set())
        await settled(cluster, 3)
        pods = {pod.metadata.uid for pod in await cluster.pods(app="agent")}
        (first,) = (await cluster.client.list(apps_v1.ControllerRevision, "default")).items
        labels = {key: value for key, value in first.metadata.labels.items() if key != POD_LABEL}
        labels |= {POD_LABEL: label} if label else {}
        metadata = meta_v1.ObjectMeta(
            name="agent-twin", namespace="default", labels=labels, owner_references=first.metadata.owner_references
        )
        await cluster.client.create(apps_v1.ControllerRevision(metadata=metadata, data=first.data, revision=2))
        await cluster.client.patch(apps_v1.DaemonSet, "agent", "default", {"metadata": {"labels": {"look": "again"}}})

        async def merged() -> bool:
            found = (await cluster.client.list(apps_v1.ControllerRevision, "default")).items
            return [one.metadata.name for one in found] == ["agent-twin"]

        await cluster.eventually(merged)
        await settled(cluster, 3)
        found = await cluster.pods(app="agent")
        assert {pod.metadata.uid for pod in found} == pods
        assert {pod.metadata.labels[POD_LABEL] for pod in found} == {expected}

    live(scenario)


def test_with_surge_the_new_pod_comes_before_the_old_one_goes() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await cluster.client.create(daemon_set(updateStrategy=strategy))
        await settled(cluster, 3)
        fewest = 3
        stream = await cluster.client.watch(apps_v1.DaemonSet, "default")
        template = {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}
        await cluster.client.patch(apps_v1.DaemonSet, "agent", "default", {"spec": template})

        async def follow() -> None:
            nonlocal fewest
            async for event in stream:
                fewest = min(fewest, event.object.status.number_available)

        following = asyncio.create_task(follow())
        await settled(cluster, 3)

        async def only_new() -> bool:
            return [pod.spec.containers[0].image for pod in await cluster.pods(app="agent")] == ["agent:2"] * 3

        await cluster.eventually(only_new)
        stream.close()
        following.cancel()
        assert fewest == 3

    live(scenario)
