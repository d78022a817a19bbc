"""CronJobs in a live cluster: jobs at their times, policies, history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import batch_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster(run_seconds=0.02) as cluster:
            await test(cluster)

    asyncio.run(run())


def cron_job(seconds: str = "", **spec: Any) -> batch_v1.CronJob:
    template = {
        "metadata": {"annotations": {"bayplan.dev/run-seconds": seconds} if seconds else {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
    }
    made: batch_v1.CronJob = from_tree(
        batch_v1.CronJob,
        {
            "metadata": {"name": "tick", "namespace": "default"},
            "spec": {"schedule": "@every 1s", "jobTemplate": {"spec": {"template": template}}, **spec},
        },
    )
    return made


async def jobs(cluster: LiveCluster) -> list[batch_v1.Job]:
    return sorted((await cluster.client.list(batch_v1.Job, "default")).items, key=lambda one: one.metadata.name)


async def read(cluster: LiveCluster) -> batch_v1.CronJob:
    return await cluster.client.get(batch_v1.CronJob, "tick", "default")


def test_a_job_is_made_remembered_and_seen_to_end() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(cron_job())

        async def succeeded() -> batch_v1.CronJob | None:
            found = await read(cluster)
            return found if found.status.last_successful_time else None

        done = await cluster.eventually(succeeded)
        assert done.status.last_schedule_time
        made = (await jobs(cluster))[0]
        (owner,) = made.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("CronJob", "tick", True)
        assert made.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].endswith("Z")

    live(scenario)


def test_suspended_cron_jobs_make_nothing() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(cron_job(suspend=True))
        await asyncio.sleep(1.5)
        assert await jobs(cluster) == []

    live(scenario)
