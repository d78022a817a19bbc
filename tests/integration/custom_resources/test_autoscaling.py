"""An autoscaler scales a custom resource by its `scale`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bayplan.cluster.settings import CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.testing.cluster import running_cluster
from tests.integration.custom_resources.definitions import DEFINITIONS, create, crontab, crontabs, path, read, served

OFTEN = replace(CLUSTER_CONTROLLERS, hpa_sync_period=0.1)
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


def test_too_few_replicas_become_as_many_as_the_autoscaler_wants() -> None:
    async def run() -> None:
        async with running_cluster(settings=ClusterSettings(controller=OFTEN)) as cluster:
            client = cluster.client
            definition = crontabs()
            (version,) = definition["spec"]["versions"]
            status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
            version["schema"]["openAPIV3Schema"]["properties"]["status"] = status
            paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
            version["subresources"] = {"scale": {**paths, "labelSelectorPath": ".status.selector"}}
            await create(client, DEFINITIONS, definition)
            assert await cluster.eventually(lambda: served(client))
            job = {**crontab("job"), "status": {"replicas": 1, "selector": "app=job"}}
            await create(client, path(), job)
            reference = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "name": "job"}
            spec = {"scaleTargetRef": reference, "minReplicas": 3, "maxReplicas": 5}
            autoscaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}}
            await create(client, AUTOSCALERS, {**autoscaler, "spec": spec})

            async def is_scaled() -> bool:
                found = await read(client, path("job"))
                return found is not None and found["spec"]["replicas"] == 3

            assert await cluster.eventually(is_scaled)

    asyncio.run(run())
