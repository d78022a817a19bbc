"""Pods that a gate of an extra plugin keeps out are told why, once."""

from __future__ import annotations

from pathlib import Path

import yaml

from bayplan.api.types import core_v1
from bayplan.cluster.settings import ClusterSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod
from tests.scheduler.plugins.extra.cores import sorting


def test_an_event_says_which_quota_is_used_up(tmp_path: Path) -> None:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config |= sorting("TenantFairness", queues=[{"name": "default", "quota": {"cpu": "1"}}])
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))

    async def main() -> None:
        async with VirtualCluster(nodes=2, settings=ClusterSettings(scheduler_config=path)) as cluster:
            for number in range(4):
                await cluster.client.create(pod(f"p{number}", cpu="500m"))
            await cluster.advance(minutes=1)
            assert await told(cluster) == ["p2", "p3"]
            for name in ("p0", "p1"):
                await cluster.client.delete(core_v1.Pod, name, "default")
                await cluster.advance(minutes=1)
            pods = (await cluster.client.list(core_v1.Pod, "default")).items
            assert sorted(one.metadata.name for one in pods if one.spec.node_name) == ["p2", "p3"]
            assert await told(cluster) == ["p2", "p3"]

    async def told(cluster: VirtualCluster) -> list[str]:
        text = (
            'kept out of the queue by TenantFairness: queue "default" would use 1500m cpu of its quota of 1, '
            "and all queues leave 0"
        )
        events = (await cluster.client.list(core_v1.Event, "default")).items
        found = [one for one in events if one.reason == "FailedScheduling"]
        assert {one.message for one in found} == {text}
        assert all(one.count <= 1 for one in found)
        return sorted(one.involved_object.name for one in found)

    run(main())
