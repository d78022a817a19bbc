"""Pods that a gate of an extra plugin keeps out are told why, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from bayplan.api.types import core_v1, meta_v1
from bayplan.api.types.scheduling_v1alpha2 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
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


def test_a_gang_that_stays_incomplete_is_told_what_is_missing() -> None:
    """The pods and the group, but not for a moment during which the rest is on its way."""
    api = replace(CLUSTER_API, runtime_config=("scheduling.k8s.io/v1alpha2=true",))

    def member(name: str, group: str) -> core_v1.Pod:
        one = pod(name, cpu="500m")
        one.spec.scheduling_group = core_v1.PodSchedulingGroup(pod_group_name=group)
        return one

    async def main() -> None:
        async with VirtualCluster(nodes=2, settings=ClusterSettings(api=api)) as cluster:
            for name, count in (("three", 3), ("two", 2)):
                policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=count))
                metadata = meta_v1.ObjectMeta(name=name, namespace="default")
                await cluster.client.create(PodGroup(metadata=metadata, spec=PodGroupSpec(scheduling_policy=policy)))
            for name, group in (("a", "three"), ("b", "three"), ("c", "two"), ("d", "lost")):
                await cluster.client.create(member(name, group))
            await cluster.advance(seconds=9)
            await cluster.client.create(member("e", "two"))
            await cluster.advance(minutes=1)
            events = (await cluster.client.list(core_v1.Event, "default")).items
            found = {one.involved_object.name: one for one in events if one.reason == "FailedScheduling"}
            missing = (
                "kept out of the queue by GangScheduling: waiting for minCount pods from a gang to appear in scheduling "
                "queue; 2 of the 3 pods that are needed exist"
            )
            assert {name: one.message for name, one in found.items()} == {
                "a": missing,
                "b": missing,
                "d": 'kept out of the queue by GangScheduling: waiting for pods\'s pod group "lost" to appear in '
                "scheduling queue",
            }
            assert all(one.count <= 1 for one in found.values())
            (condition,) = (await cluster.client.get(PodGroup, "three", "default")).status.conditions
            assert (condition.status, condition.reason, condition.message) == ("False", "Unschedulable", missing)
            (other,) = (await cluster.client.get(PodGroup, "two", "default")).status.conditions
            assert other.status == "True"

    run(main())
