"""What owners of pods wait for, and what not."""

from __future__ import annotations

from bayplan.api.codec import from_tree
from bayplan.api.types import apps_v1, core_v1
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment

AT_ONCE = SimulatorSettings(nodes=1, start_seconds=0.0, stop_seconds=0.0)


async def ready(cluster: VirtualCluster, app: str) -> list[core_v1.Pod]:
    pods = (await cluster.client.list(core_v1.Pod, "default", label_selector=f"app={app}")).items
    return [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]


def test_pods_that_are_made_in_order_follow_each_other_without_a_rest() -> None:
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
    spec = {"replicas": 20, "serviceName": "db", "selector": {"matchLabels": labels}, "template": template}

    async def main() -> None:
        async with VirtualCluster(nodes=AT_ONCE) as cluster:
            tree = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
            await cluster.client.create(from_tree(apps_v1.StatefulSet, tree))
            await cluster.advance(seconds=0.5)
            assert len(await ready(cluster, "db")) == 20

    run(main())


def test_a_pod_that_is_deleted_is_replaced_soon_though_nothing_else_happens() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=AT_ONCE) as cluster:
            await cluster.client.create(deployment("web", 2))
            await cluster.advance(seconds=5)
            first, second = await ready(cluster, "web")
            await cluster.client.delete(core_v1.Pod, first.metadata.name, "default")
            await cluster.advance(seconds=0.1)
            now = {pod.metadata.name for pod in await ready(cluster, "web")}
            assert len(now) == 2
            assert now > {second.metadata.name}
            assert first.metadata.name not in now

    run(main())
