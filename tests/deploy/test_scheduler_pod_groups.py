"""The rights for pod groups of other schedulers, and of Kubernetes 1.37: with them, kube-scheduler's user can read the groups and write their status."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.scheduler.service import SchedulerService
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.cluster import running_cluster
from tests.integration.gangs.custom import COSCHEDULING, RIGHTS, VOLCANO, definition, made, member, settings, status
from tests.integration.gangs.test_newer_pod_groups import GATES, MANIFEST, composite, group, pods


@pytest.mark.parametrize("group", [COSCHEDULING, VOLCANO])
def test_the_scheduler_may_do_what_it_has_to(group: str, tmp_path: Path) -> None:
    plugin = {COSCHEDULING: "Coscheduling", VOLCANO: "VolcanoPodGroups"}[group]
    config = settings(tmp_path, plugin).scheduler_config
    assert config is not None
    tree = yaml.safe_load(config.read_text())
    tree["profiles"][0]["schedulerName"] = "gangs"
    config.write_text(yaml.safe_dump(tree))

    async def main() -> None:
        async with running_cluster() as cluster:
            objects = [*yaml.safe_load_all(RIGHTS.read_text()), definition(group, "PodGroup")]
            if group == VOLCANO:
                objects.append(definition(group, "Queue", scope="Cluster"))
            await apply_manifests(cluster.client, [(RIGHTS, each) for each in objects])
            await apply_manifests(cluster.client, [(RIGHTS, made(group, "PodGroup", "g", minMember=2))])
            scheduler = SchedulerService(
                cluster.cluster.client("system:kube-scheduler", ()),
                clock=SystemClock(),
                randomness=SystemRandomness(),
                metrics=Registry(),
                config=config,
            )
            task = asyncio.create_task(scheduler.run())
            pods = [member(name, group, "g", "1") for name in ("a", "b")]
            for one in pods:
                one["spec"]["schedulerName"] = "gangs"
            await apply_manifests(cluster.client, [(RIGHTS, one) for one in pods])

            async def runs() -> bool:
                return (await status(cluster.client, group, "g")).get("running") == 2

            await cluster.eventually(runs)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_the_scheduler_may_do_what_it_has_to_with_groups_of_1_37(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(yaml.safe_dump({"profiles": [{"schedulerName": "gangs"}]}))

    async def main() -> None:
        async with running_cluster() as cluster:
            objects = [*yaml.safe_load_all(MANIFEST.read_text()), composite("job", 1), group("g", 2, "job")]
            for each in objects:
                await apply_manifests(cluster.client, [(MANIFEST, each)])
            scheduler = SchedulerService(
                cluster.cluster.client("system:kube-scheduler", ()),
                clock=SystemClock(),
                randomness=SystemRandomness(),
                metrics=Registry(),
                config=config,
                feature_gates=GATES,
            )
            task = asyncio.create_task(scheduler.run())
            await apply_manifests(cluster.client, [(MANIFEST, one) for one in pods("g", 2, "1", schedulerName="gangs")])
            path = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups/job"

            async def is_scheduled() -> bool:
                status = json.loads(await cluster.client.raw("GET", path)).get("status", {})
                return [one["status"] for one in status.get("conditions", [])] == ["True"]

            await cluster.eventually(is_scheduled)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
