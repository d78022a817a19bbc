"""Jobs in a live cluster: completions, indexes, failures, policies, suspension, deadlines, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import batch_v1, core_v1
from bayplan.testing.cluster import LiveCluster, running_cluster

EXIT, RUN = "bayplan.dev/exit-code", "bayplan.dev/run-seconds"


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster(run_seconds=0.02) as cluster:
            await test(cluster)

    asyncio.run(run())


def job(
    name: str = "work", annotations: dict[str, str] | None = None, restart: str = "Never", **spec: Any
) -> batch_v1.Job:
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "busybox"}]},
    }
    made: batch_v1.Job = from_tree(
        batch_v1.Job, {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template, **spec}}
    )
    return made


async def read(cluster: LiveCluster, name: str = "work") -> batch_v1.Job:
    return await cluster.client.get(batch_v1.Job, name, "default")


async def ended(cluster: LiveCluster, condition: str, name: str = "work") -> batch_v1.Job:
    async def look() -> batch_v1.Job | None:
        found = await read(cluster, name)
        return found if any(one.type == condition and one.status == "True" for one in found.status.conditions) else None

    return await cluster.eventually(look)


def conditions(one: batch_v1.Job) -> list[tuple[str, str]]:
    return [(each.type, each.reason) for each in one.status.conditions]


async def pods(cluster: LiveCluster) -> list[core_v1.Pod]:
    return await cluster.pods(**{"batch.kubernetes.io/job-name": "work"})


def test_completions_are_counted_once_each() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(completions=20, parallelism=7))
        done = await ended(cluster, "Complete")
        status = done.status
        assert (status.succeeded, status.failed, status.active, status.ready, status.terminating) == (20, 0, 0, 0, 0)
        assert conditions(done) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
        assert status.completion_time
        assert status.start_time
        found = await pods(cluster)
        assert len(found) == 20
        assert not any(pod.metadata.finalizers for pod in found)

    live(scenario)


def test_each_index_runs_in_a_pod_that_knows_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(completions=4, parallelism=2, completionMode="Indexed"))
        done = await ended(cluster, "Complete")
        assert (done.status.succeeded, done.status.completed_indexes) == (4, "0-3")
        found = sorted(await pods(cluster), key=lambda pod: pod.metadata.name)
        assert [pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] for pod in found] == list("0123")
        assert [pod.spec.hostname for pod in found] == [f"work-{index}" for index in range(4)]
        (variable,) = found[2].spec.containers[0].env
        assert variable.name == "JOB_COMPLETION_INDEX"

    live(scenario)


def test_a_job_whose_pods_fail_too_often_fails() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(annotations={EXIT: "1"}, backoffLimit=0))
        failed = await ended(cluster, "Failed")
        assert conditions(failed) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
        assert (failed.status.failed, failed.status.succeeded, failed.status.completion_time) == (1, 0, None)

    live(scenario)


def test_the_failure_policy_ends_a_job_at_once_and_says_why() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
        policy = {"rules": [rule]}
        await cluster.client.create(job(annotations={EXIT: "42"}, backoffLimit=6, podFailurePolicy=policy))
        failed = await ended(cluster, "Failed")
        (pod,) = await pods(cluster)
        assert failed.status.conditions[-1].reason == "PodFailurePolicy"
        assert failed.status.conditions[-1].message == (
            f"Container main for pod default/{pod.metadata.name} failed with exit code 42 matching FailJob rule at index 0"
        )

    live(scenario)


def test_an_index_that_fails_does_not_keep_others_from_running() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        spec: dict[str, Any] = {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
        }
        await cluster.client.create(job(annotations={EXIT: "1"}, **spec))
        failed = await ended(cluster, "Failed")
        assert failed.status.conditions[-1].reason == "FailedIndexes"
        assert (failed.status.failed, failed.status.failed_indexes, failed.status.completed_indexes) == (3, "0-2", "")

    live(scenario)


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(completions=2, parallelism=2, suspend=True))
        waiting = await ended(cluster, "Suspended")
        assert waiting.status.start_time is None
        assert await pods(cluster) == []
        await cluster.client.patch(batch_v1.Job, "work", "default", {"spec": {"suspend": False}})
        done = await ended(cluster, "Complete")
        assert conditions(done)[0] == ("Suspended", "JobResumed")
        assert done.status.start_time

    live(scenario)


def test_suspending_takes_running_pods_away() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(annotations={RUN: "3600"}, completions=3, parallelism=3))
        await cluster.eventually(lambda: active(cluster, 3))
        await cluster.client.patch(batch_v1.Job, "work", "default", {"spec": {"suspend": True}})
        await ended(cluster, "Suspended")
        assert await cluster.eventually(lambda: no_pods(cluster))
        assert (await read(cluster)).status.active == 0

    live(scenario)


async def active(cluster: LiveCluster, count: int) -> bool:
    return (await read(cluster)).status.active == count


async def no_pods(cluster: LiveCluster) -> bool:
    return not await pods(cluster)


def test_a_deadline_ends_a_job_and_its_pods() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(annotations={RUN: "3600"}, activeDeadlineSeconds=1))
        failed = await ended(cluster, "Failed")
        assert failed.status.conditions[-1].reason == "DeadlineExceeded"
        assert failed.status.failed == 1
        assert await cluster.eventually(lambda: no_pods(cluster))

    live(scenario)


def test_a_success_policy_ends_a_job_before_all_indexes_are_done() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        policy = {"rules": [{"succeededCount": 1}]}
        spec: dict[str, Any] = {
            "completions": 5,
            "parallelism": 1,
            "completionMode": "Indexed",
            "successPolicy": policy,
        }
        await cluster.client.create(job(**spec))
        done = await ended(cluster, "Complete")
        assert done.status.conditions[-1].reason == "SuccessPolicy"
        assert done.status.conditions[-1].message == "Matched rules at index 0"
        assert done.status.succeeded == 1

    live(scenario)


def test_pods_go_with_a_deleted_job_in_spite_of_their_finalizers() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(annotations={RUN: "3600"}, completions=3, parallelism=3))
        await cluster.eventually(lambda: active(cluster, 3))
        await cluster.client.delete(batch_v1.Job, "work", "default", propagation_policy="Background")
        assert await cluster.eventually(lambda: no_pods(cluster))

    live(scenario)


def test_a_job_without_completions_ends_with_the_first_success() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(parallelism=3))
        done = await ended(cluster, "Complete")
        assert done.status.succeeded == 3

    live(scenario)


def test_an_ended_job_goes_after_its_time_to_live() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job(ttlSecondsAfterFinished=1))
        await ended(cluster, "Complete")
        assert await cluster.eventually(lambda: cluster.gone(batch_v1.Job, "work"))
        assert await cluster.eventually(lambda: no_pods(cluster))

    live(scenario)


def test_jobs_of_another_manager_are_left_alone() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(job("other", managedBy="example.com/queue"))
        await cluster.client.create(job())
        await ended(cluster, "Complete")
        assert (await read(cluster, "other")).status == batch_v1.JobStatus()

    live(scenario)
