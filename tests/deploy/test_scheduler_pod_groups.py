"""The rights for pod groups of other schedulers: with them, kube-scheduler's user can read the groups and write their status."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from bayplan.cluster.apply import apply_manifests
from bayplan.scheduler.service import SchedulerService
from bayplan.support.clock import SystemClock
from bayplan.support.metrics import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.cluster import running_cluster
from tests.integration.gangs.custom import COSCHEDULING, RIGHTS, VOLCANO, definition, made, member, settings, status


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
