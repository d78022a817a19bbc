"""Pods that are resized while they run, through the API, on simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import container, pod
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]], *, disabled: tuple[str, ...] = ()) -> None:
    nodes = SimulatorSettings(nodes=1, start_seconds=0.01, stop_seconds=0.01, resize_seconds=0.05)
    settings = ClusterSettings(nodes=nodes)
    settings = replace(settings, api=replace(settings.api, disable_admission_plugins=disabled))

    async def run() -> None:
        async with running_cluster(settings=settings) as cluster:
            await test(cluster)

    asyncio.run(run())


async def runs(cluster: LiveCluster, name: str, **fields: Any) -> core_v1.Pod:
    await cluster.client.create(pod(name, containers=(container(**fields),)))

    async def ready() -> core_v1.Pod | None:
        found = await cluster.client.get(core_v1.Pod, name, "default")
        return found if found.status.phase == "Running" else None

    found = await cluster.eventually(ready)
    assert found is not None
    return found


async def resize(cluster: LiveCluster, name: str, **requests: str) -> None:
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    await cluster.client.patch(core_v1.Pod, name, "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize")


async def applied(cluster: LiveCluster, name: str, cpu: str) -> bool:
    found = await cluster.client.get(core_v1.Pod, name, "default")
    [status] = found.status.container_statuses
    assert status.resources is not None
    open_ends = [one.type for one in found.status.conditions if one.type.startswith("PodResize")]
    return status.resources.requests["cpu"] == cpu and not open_ends


async def pending(cluster: LiveCluster, name: str) -> str:
    found = await cluster.client.get(core_v1.Pod, name, "default")
    return next((one.reason for one in found.status.conditions if one.type == "PodResizePending"), "")


def test_a_pod_gets_more_while_it_runs() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        before = await runs(cluster, "web", cpu="1")
        await resize(cluster, "web", cpu="2")
        await cluster.eventually(lambda: applied(cluster, "web", "2"))
        after = await cluster.client.get(core_v1.Pod, "web", "default")
        assert after.status.container_statuses[0].restart_count == 0
        assert after.status.observed_generation == after.metadata.generation == before.metadata.generation + 1

    live(scenario)


def test_a_resize_waits_until_another_pod_makes_room() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await runs(cluster, "web", cpu="1")
        await runs(cluster, "other", cpu="2")
        await resize(cluster, "web", cpu="3")

        async def deferred() -> bool:
            return await pending(cluster, "web") == "Deferred"

        await cluster.eventually(deferred)
        await cluster.client.delete(core_v1.Pod, "other", "default")
        assert await cluster.eventually(lambda: applied(cluster, "web", "3"))

    live(scenario)


def test_what_the_node_never_has_may_be_taken_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await runs(cluster, "web", cpu="1")
        await resize(cluster, "web", cpu="64")

        async def infeasible() -> bool:
            return await pending(cluster, "web") == "Infeasible"

        await cluster.eventually(infeasible)
        await resize(cluster, "web", cpu="1")
        await cluster.eventually(lambda: applied(cluster, "web", "1"))

    live(scenario, disabled=("PodResizeValidator",))


def test_what_the_node_never_has_is_refused() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await runs(cluster, "web", cpu="1")
        with pytest.raises(ApiError, match="enough allocatable resources: cpu, requested: 64000, allocatable: "):
            await resize(cluster, "web", cpu="64")
        await resize(cluster, "web", cpu="2")
        await cluster.eventually(lambda: applied(cluster, "web", "2"))
        both = {"cpu": "2", "memory": "1Gi"}
        resources = {"requests": both, "limits": both}
        patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        write = cluster.client.patch(
            core_v1.Pod, "web", "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize"
        )
        with pytest.raises(ApiError, match="Pod QOS Class may not change"):
            await write

    live(scenario)
