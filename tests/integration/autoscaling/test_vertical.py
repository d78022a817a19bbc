"""Vertical autoscaling on a live cluster: recommended, applied in place, applied by eviction, and refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from bayplan.api.quantity import value as memory
from bayplan.api.types import apps_v1, core_v1
from bayplan.cluster.settings import CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.controllers.autoscaling.vpa_annotations import MODE, RECOMMENDATION
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container, deployment
from bayplan.testing.cluster import LiveCluster, running_cluster

FAST = replace(CLUSTER_CONTROLLERS, vertical_interval=0.1)
USAGE = {"bayplan.dev/cpu-usage": "400m", "bayplan.dev/memory-usage": "64Mi"}
MOST = "bayplan.dev/vertical-max"
CAPS = {"bayplan.dev/vertical-min": "cpu=300m", MOST: "cpu=300m", "bayplan.dev/vertical-resources": "cpu"}


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        nodes = SimulatorSettings(nodes=2, start_seconds=0.01, stop_seconds=0.01, resize_seconds=0.01)
        async with running_cluster(settings=ClusterSettings(nodes=nodes, controller=FAST)) as cluster:
            await test(cluster)

    asyncio.run(run())


async def deploy(
    cluster: LiveCluster, mode: str, replicas: int = 2, annotations: Mapping[str, str] | None = None
) -> None:
    wanted = {MODE: mode, **CAPS, **(annotations or {})}
    web = deployment("web", replicas, cpu="100m", meta={"annotations": wanted}, pod_meta={"annotations": USAGE})
    await cluster.client.create(web)
    await cluster.rolled_out("web", replicas)


async def recommendation(cluster: LiveCluster) -> dict[str, Any] | None:
    found = await cluster.client.get(apps_v1.Deployment, "web", "default")
    text = found.metadata.annotations.get(RECOMMENDATION)
    return json.loads(text)["containerRecommendations"][0] if text else None


async def requests(cluster: LiveCluster) -> list[Any]:
    return [pod.spec.containers[0].resources.requests["cpu"] for pod in await cluster.ready_pods(app="web")]


async def all_request(cluster: LiveCluster, cpu: str, count: int = 2) -> bool:
    return await requests(cluster) == [cpu] * count


async def told(cluster: LiveCluster, reason: str) -> list[core_v1.Event]:
    return [one for one in (await cluster.client.list(core_v1.Event, "default")).items if one.reason == reason]


def test_off_only_recommends() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster, "Off", annotations={MOST: "cpu=2"})
        found = await cluster.eventually(lambda: recommendation(cluster))
        assert found is not None
        assert found["containerName"] == "main"
        assert 460 <= int(found["target"]["cpu"].removesuffix("m")) <= 500
        assert set(found["target"]) == {"cpu"}
        assert await all_request(cluster, "100m")

    live(scenario)


def test_in_place_pods_keep_running_and_get_what_they_need() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster, "InPlaceOrRecreate")
        before = {pod.metadata.uid for pod in await cluster.pods(app="web")}
        await cluster.eventually(lambda: all_request(cluster, "300m"))
        assert {pod.metadata.uid for pod in await cluster.pods(app="web")} == before
        assert await cluster.eventually(lambda: told(cluster, "InPlaceResizedByVPA"))
        await cluster.client.patch(apps_v1.Deployment, "web", "default", {"spec": {"replicas": 3}})
        assert await cluster.eventually(lambda: all_request(cluster, "300m", 3))

    live(scenario)


def test_recreated_pods_come_back_with_what_they_need() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster, "Off")
        before = {pod.metadata.uid for pod in await cluster.pods(app="web")}
        mode = {"metadata": {"annotations": {MODE: "Recreate"}}}
        await cluster.client.patch(apps_v1.Deployment, "web", "default", mode)
        await cluster.eventually(lambda: all_request(cluster, "300m"), 20.0)
        assert not before & {pod.metadata.uid for pod in await cluster.pods(app="web")}
        assert len(await cluster.eventually(lambda: told(cluster, "EvictedByVPA"))) == 2

    live(scenario)


def test_an_annotation_that_cannot_be_understood_is_told() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster, "InPlaceOrRecreate", annotations={MOST: "cpu=lots"})
        [one] = await cluster.eventually(lambda: told(cluster, "InvalidVerticalAutoscaling"))
        assert one.message.startswith(f"annotation {MOST}: ")
        assert await recommendation(cluster) is None

    live(scenario)


def test_who_is_killed_for_want_of_memory_is_recommended_more() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        kept: dict[str, str | int | float] = {"cpu": "100m", "memory": "300Mi"}
        resources = core_v1.ResourceRequirements(requests=kept, limits={"memory": "300Mi"})
        killed = {**USAGE, "bayplan.dev/oom-seconds": "0.2"}
        web = deployment(
            "web",
            1,
            meta={"annotations": {MODE: "Off"}},
            pod_meta={"annotations": killed},
            pod_spec={"containers": (container(resources=resources),)},
        )
        await cluster.client.create(web)

        async def enough() -> bool:
            found = await recommendation(cluster)
            return found is not None and memory(found["target"]["memory"]) >= 400 * 2**20 * 1.15

        assert await cluster.eventually(enough, 20.0)

    live(scenario)


def test_a_container_that_left_the_template_is_recommended_nothing_more() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            client = cluster.client
            both = (container("main", cpu="100m"), container("helper", cpu="100m"))
            web = deployment("web", 2, meta={"annotations": {MODE: "Off"}}, pod_spec={"containers": both})
            await client.create(web)

            async def recommended(*names: str) -> bool:
                found = await client.get(apps_v1.Deployment, "web", "default")
                text = found.metadata.annotations.get(RECOMMENDATION)
                shown = json.loads(text)["containerRecommendations"] if text else []
                return [one["containerName"] for one in shown] == list(names)

            assert await cluster.eventually(lambda: recommended("helper", "main"))
            found = await client.get(apps_v1.Deployment, "web", "default")
            found.spec.template.spec.containers = both[:1]
            await client.update(found)
            assert await cluster.eventually(lambda: recommended("main"))

    run(main())
