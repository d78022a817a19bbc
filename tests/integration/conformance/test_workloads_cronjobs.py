"""CronJobs as the conformance tests of sig-apps use them: a job each minute that runs for five, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import batch_v1
from bayplan.simulation.virtual_cluster import VirtualCluster

pytestmark = pytest.mark.bayplan(nodes=2)
PATIENCE = 300.0
"""Seconds that the conformance tests wait for what a CronJob does."""


def cron_job(**spec: Any) -> batch_v1.CronJob:
    container = {
        "name": "main",
        "image": "registry.k8s.io/e2e-test-images/busybox:1.37.0-1",
        "command": ["sleep", "300"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "emptyDir": {}}]
    pods = {"spec": {"restartPolicy": "OnFailure", "volumes": volumes, "containers": [container]}}
    work = {"spec": {"parallelism": 1, "completions": 1, "backoffLimit": 1, "template": pods}}
    made: batch_v1.CronJob = from_tree(
        batch_v1.CronJob,
        {
            "metadata": {"name": "tick", "namespace": "default"},
            "spec": {"schedule": "*/1 * * * ?", "jobTemplate": work, **spec},
        },
    )
    return made


async def active(cluster: VirtualCluster) -> int:
    """How many jobs the CronJob knows to be running."""
    return len((await cluster.client.get(batch_v1.CronJob, "tick", "default")).status.active)


async def alive(cluster: VirtualCluster) -> list[str]:
    """Names of jobs that have not ended and are not on their way out."""
    return [
        one.metadata.name
        for one in (await cluster.client.list(batch_v1.Job, "default")).items
        if not one.metadata.deletion_timestamp
        and not any(each.type in ("Complete", "Failed") and each.status == "True" for each in one.status.conditions)
    ]


async def at_least(cluster: VirtualCluster, number: int) -> None:
    """Let time pass until so many jobs are active."""

    async def look() -> bool:
        return await active(cluster) >= number

    await cluster.eventually(look, PATIENCE)


async def remove(cluster: VirtualCluster) -> None:
    """The CronJob goes, and its jobs with it."""
    await cluster.client.delete(batch_v1.CronJob, "tick", "default", propagation_policy="Background")

    async def empty() -> bool:
        return not (await cluster.client.list(batch_v1.Job, "default")).items

    await cluster.eventually(empty, PATIENCE)


async def test_jobs_run_side_by_side(bayplan_sim: VirtualCluster) -> None:
    """CronJob should schedule multiple jobs concurrently."""
    await bayplan_sim.client.create(cron_job(concurrencyPolicy="Allow"))
    await at_least(bayplan_sim, 2)
    assert len(await alive(bayplan_sim)) >= 2
    await remove(bayplan_sim)


async def test_suspended(bayplan_sim: VirtualCluster) -> None:
    """CronJob should not schedule jobs when suspended."""
    await bayplan_sim.client.create(cron_job(concurrencyPolicy="Allow", suspend=True))
    for _ in range(60):
        await bayplan_sim.advance(seconds=PATIENCE / 60)
        assert await active(bayplan_sim) == 0
    assert not (await bayplan_sim.client.list(batch_v1.Job, "default")).items
    await remove(bayplan_sim)


async def test_forbid(bayplan_sim: VirtualCluster) -> None:
    """CronJob should not schedule new jobs when ForbidConcurrent."""
    await bayplan_sim.client.create(cron_job(concurrencyPolicy="Forbid"))
    await at_least(bayplan_sim, 1)
    assert (await active(bayplan_sim), len(await alive(bayplan_sim))) == (1, 1)
    for _ in range(60):
        await bayplan_sim.advance(seconds=PATIENCE / 60)
        assert await active(bayplan_sim) < 2
        assert len(await alive(bayplan_sim)) < 2
    await remove(bayplan_sim)


async def test_replace(bayplan_sim: VirtualCluster) -> None:
    """CronJob should replace jobs when ReplaceConcurrent: there is never more than one that stays."""
    await bayplan_sim.client.create(cron_job(concurrencyPolicy="Replace"))
    await at_least(bayplan_sim, 1)
    assert await active(bayplan_sim) == 1
    (first,) = await alive(bayplan_sim)

    async def replaced() -> bool:
        found = await alive(bayplan_sim)
        if len(found) > 1:
            pytest.fail(f"more than one job runs: {found}")
        return bool(found) and found != [first]

    await bayplan_sim.eventually(replaced, PATIENCE)
    await remove(bayplan_sim)
