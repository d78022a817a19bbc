"""Pod groups of scheduler-plugins and Volcano, in whole clusters in virtual time: all pods or none, and a status that says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from tests.integration.gangs.custom import (
    COSCHEDULING,
    JOB_SET,
    RIGHTS,
    VOLCANO,
    definition,
    made,
    member,
    settings,
    status,
)

Story = Callable[[VirtualCluster], Awaitable[None]]
PLUGINS = {COSCHEDULING: "Coscheduling", VOLCANO: "VolcanoPodGroups"}


def played(story: Story, folder: Path, *plugins: str) -> None:
    """Two nodes of four cores."""

    async def main() -> None:
        async with VirtualCluster(nodes=2, settings=settings(folder, *plugins)) as cluster:
            await story(cluster)
            await cluster.validate()

    run(main())


async def put(cluster: VirtualCluster, *trees: Any) -> None:
    for tree in trees:
        await cluster.apply(tree)


async def placed(cluster: VirtualCluster) -> list[str]:
    pods = (await cluster.client.list(core_v1.Pod, "default")).items
    return sorted(pod.metadata.name for pod in pods if pod.spec.node_name)


async def told(cluster: VirtualCluster, pod: str) -> str:
    """What the last event about a pod that was not placed says."""
    events = (await cluster.client.list(core_v1.Event, "default")).items
    about = [one for one in events if one.reason == "FailedScheduling" and one.involved_object.name == pod]
    return about[-1].message if about else ""


@pytest.mark.parametrize("group", [COSCHEDULING, VOLCANO])
def test_a_custom_group_is_placed_as_a_whole_or_not_at_all(group: str, tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, RIGHTS, definition(group, "PodGroup"))
        await cluster.advance(minutes=1)
        await put(cluster, made(group, "PodGroup", "large", minMember=3), made(group, "PodGroup", "small", minMember=2))
        await put(cluster, *(member(f"large-{index}", group, "large", "3") for index in range(3)))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == []
        await put(cluster, *(member(f"small-{index}", group, "small", "3") for index in range(2)))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["small-0", "small-1"]
        assert (await status(cluster.client, group, "small"))["phase"] == "Running"
        assert (await status(cluster.client, group, "small"))["running"] == 2
        before = await status(cluster.client, group, "large")
        assert before["phase"] == ("Scheduling" if group == COSCHEDULING else "Inqueue")
        await cluster.advance(minutes=11)
        after = await status(cluster.client, group, "small")
        assert (after["phase"], after["succeeded"]) == ("Finished" if group == COSCHEDULING else "Completed", 2)
        assert await placed(cluster) == ["small-0", "small-1"], "three pods of 3 cores have no place on two nodes"

    played(story, tmp_path, PLUGINS[group])


def test_what_a_group_of_volcano_waits_for(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, RIGHTS, definition(VOLCANO, "PodGroup"), definition(VOLCANO, "Queue", scope="Cluster"))
        await cluster.advance(minutes=1)
        await put(cluster, made(VOLCANO, "PodGroup", "g", minMember=1, queue="research", minResources={"cpu": "2"}))
        await put(cluster, member("p", VOLCANO, "g", "2"))
        await cluster.advance(seconds=5)
        assert await told(cluster, "p") == 'kept out of the queue by VolcanoPodGroups: queue "research" does not exist'
        found = await status(cluster.client, VOLCANO, "g")
        assert found["phase"] == "Pending"
        assert [(one["type"], one["message"]) for one in found["conditions"]] == [
            ("Unschedulable", 'queue "research" does not exist')
        ]
        await put(cluster, made(VOLCANO, "Queue", "research", capability={"cpu": "1"}))
        await cluster.advance(seconds=5)
        found = await status(cluster.client, VOLCANO, "g")
        assert found["conditions"][0]["message"] == 'queue "research" would use 2 cpu of its capability of 1'
        assert await placed(cluster) == []
        await put(cluster, made(VOLCANO, "Queue", "research", capability={"cpu": "2"}))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["p"]
        found = await status(cluster.client, VOLCANO, "g")
        assert (found["phase"], [one["type"] for one in found["conditions"]]) == ("Running", ["Scheduled"])

    played(story, tmp_path, "VolcanoPodGroups")


def test_a_group_whose_resources_are_not_free_is_not_tried(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, RIGHTS, definition(COSCHEDULING, "PodGroup"))
        await put(cluster, member("first", COSCHEDULING, "", "2"))
        await cluster.advance(minutes=1)
        await put(cluster, made(COSCHEDULING, "PodGroup", "g", minMember=1, minResources={"cpu": "7"}))
        await put(cluster, member("p", COSCHEDULING, "g", "1"))
        await cluster.advance(seconds=5)
        assert await told(cluster, "p") == (
            "kept out of the queue by Coscheduling: the cluster lacks 1 cpu of minResources of pod group "
            "default/scheduling.x-k8s.io/g"
        )
        await cluster.client.delete(core_v1.Pod, "first", "default")
        await cluster.advance(minutes=1)
        assert await placed(cluster) == ["p"]

    played(story, tmp_path, "Coscheduling")


def test_a_job_set_is_placed_as_a_whole_and_its_status_is_left_alone(tmp_path: Path) -> None:
    def jobs(parallelism: int) -> list[dict[str, Any]]:
        return [{"name": "w", "replicas": 1, "template": {"spec": {"parallelism": parallelism}}}]

    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, RIGHTS, definition(JOB_SET, "JobSet"))
        await cluster.advance(minutes=1)
        await put(cluster, *(made(JOB_SET, "JobSet", name, replicatedJobs=jobs(n)) for name, n in (("s", 2), ("l", 3))))
        await put(cluster, *(member(f"l-{index}", JOB_SET, "l", "3") for index in range(3)))
        await put(cluster, member("s-0", JOB_SET, "s", "3"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == []
        await put(cluster, member("s-1", JOB_SET, "s", "3"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["s-0", "s-1"]
        path = f"/apis/{JOB_SET}/v1alpha2/namespaces/default/jobsets/s"
        assert b'"status"' not in await cluster.client.raw("GET", path)

    played(story, tmp_path, "JobSets")


def test_labels_mean_nothing_to_a_scheduler_without_the_plugin(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, member("p", COSCHEDULING, "g", "1"), member("q", VOLCANO, "g", "1"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["p", "q"]

    played(story, tmp_path)


def test_groups_of_one_name_in_several_api_groups_are_several_groups(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, RIGHTS, definition(COSCHEDULING, "PodGroup"), definition(VOLCANO, "PodGroup"))
        await cluster.advance(minutes=1)
        await put(cluster, *(made(group, "PodGroup", "g", minMember=2) for group in (COSCHEDULING, VOLCANO)))
        await put(cluster, *(member(f"{group[11]}0", group, "g", "1") for group in (COSCHEDULING, VOLCANO)))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == []
        await put(cluster, member("x1", COSCHEDULING, "g", "1"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["x0", "x1"]

    played(story, tmp_path, "Coscheduling", "VolcanoPodGroups")


def test_a_group_that_cannot_be_understood_is_told_so(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, RIGHTS, definition(COSCHEDULING, "PodGroup"))
        await cluster.advance(minutes=1)
        await put(cluster, made(COSCHEDULING, "PodGroup", "g", minMember="three"), member("p", COSCHEDULING, "g", "1"))
        await put(cluster, member("alone", COSCHEDULING, "", "1"))
        await cluster.advance(seconds=5)
        events = (await cluster.client.list(core_v1.Event, "default")).items
        found = [(one.involved_object.name, one.message) for one in events if one.reason == "InvalidPodGroup"]
        assert found == [("g", "spec.minMember: 'three' must be a whole number that is not negative")]
        assert await placed(cluster) == ["alone"]
        await put(cluster, made(COSCHEDULING, "PodGroup", "g", minMember=1))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["alone", "p"]

    played(story, tmp_path, "Coscheduling")
