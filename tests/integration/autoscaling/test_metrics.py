"""metrics.k8s.io: what pods and nodes use, from the simulator's annotations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import LiveCluster, running_cluster

ROOT = "/apis/metrics.k8s.io/v1beta1"
CPU = "bayplan.dev/cpu-usage"


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


async def read(cluster: LiveCluster, path: str, **query: str) -> Any:
    return json.loads(await cluster.client.raw("GET", ROOT + path, query))


def test_pods_show_what_their_annotation_says_at_once_and_nodes_their_sum() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        for pod in await cluster.pods(app="web"):
            change = {"metadata": {"annotations": {CPU: "250m"}}}
            await cluster.client.patch(core_v1.Pod, pod.metadata.name, "default", change)
        found = (await read(cluster, "/namespaces/default/pods", labelSelector="app=web"))["items"]
        assert [one["containers"][0]["usage"]["cpu"] for one in found] == ["250m", "250m"]
        assert found[0]["metadata"]["labels"]["app"] == "web"
        one = await read(cluster, f"/namespaces/default/pods/{found[0]['metadata']['name']}")
        assert (one["kind"], one["window"]) == ("PodMetrics", "15s")
        nodes = (await read(cluster, "/nodes"))["items"]
        total = sum(int(one["usage"]["cpu"].removesuffix("m")) for one in nodes)
        assert (len(nodes), total) == (3, 500)
        assert (await read(cluster, "/pods", labelSelector="app=other"))["items"] == []

    live(scenario)


def test_what_has_no_figures_is_not_found() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        with pytest.raises(ApiError) as refused:
            await read(cluster, "/namespaces/default/pods/nobody")
        assert refused.value.code == 404
        with pytest.raises(ApiError) as not_allowed:
            await cluster.client.raw("DELETE", f"{ROOT}/nodes/node-1")
        assert not_allowed.value.code == 405

    live(scenario)
