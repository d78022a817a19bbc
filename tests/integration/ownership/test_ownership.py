"""Who owns whom in a live cluster: adoption and release, and the three ways to delete an owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.types import apps_v1, batch_v1, core_v1
from bayplan.controllers.base import controller_of
from bayplan.testing.builders import deployment, metadata, owner, pod, replica_set
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


async def pods_are_ready(cluster: LiveCluster, count: int, app: str = "web") -> bool:
    return len(await cluster.ready_pods(app=app)) == count and len(await cluster.pods(app=app)) == count


def test_a_replica_set_adopts_orphans_that_it_selects() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(pod("before", meta={"labels": {"app": "web"}}))
        await cluster.client.create(replica_set("web", 2))
        await cluster.eventually(lambda: pods_are_ready(cluster, 2))
        adopted = await cluster.client.get(core_v1.Pod, "before", "default")
        reference = controller_of(adopted)
        assert reference is not None
        assert (reference.kind, reference.name, reference.block_owner_deletion) == ("ReplicaSet", "web", True)

    live(scenario)


def test_a_pod_that_loses_its_label_is_let_go_and_replaced() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(replica_set("web", 2))
        await cluster.eventually(lambda: pods_are_ready(cluster, 2))
        name = (await cluster.pods(app="web"))[0].metadata.name
        await cluster.client.patch(core_v1.Pod, name, "default", {"metadata": {"labels": {"app": "debug"}}})
        await cluster.eventually(lambda: pods_are_ready(cluster, 2))

        async def released() -> bool:
            return controller_of(await cluster.client.get(core_v1.Pod, name, "default")) is None

        await cluster.eventually(released)
        await cluster.client.patch(core_v1.Pod, name, "default", {"metadata": {"labels": {"app": "web"}}})

        async def surplus_is_gone() -> bool:
            return len(await cluster.pods(app="web")) == 2

        await cluster.eventually(surplus_is_gone)

    live(scenario)


def test_a_deployment_adopts_a_replica_set_whose_labels_come_to_fit() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 1))
        await cluster.eventually(lambda: pods_are_ready(cluster, 1))
        await cluster.client.create(replica_set("other", 0, meta={"labels": {"app": "other"}}))
        await cluster.client.patch(apps_v1.ReplicaSet, "other", "default", {"metadata": {"labels": {"app": "web"}}})

        async def adopted() -> bool:
            reference = controller_of(await cluster.client.get(apps_v1.ReplicaSet, "other", "default"))
            return reference is not None and (reference.kind, reference.name) == ("Deployment", "web")

        await cluster.eventually(adopted)

    live(scenario)


def test_pods_that_a_job_takes_away_itself_have_not_failed() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        container = core_v1.Container(name="c", image="i")
        template = core_v1.PodTemplateSpec(spec=core_v1.PodSpec(containers=(container,), restart_policy="Never"))
        spec = batch_v1.JobSpec(parallelism=2, completions=2, template=template)
        await cluster.client.create(batch_v1.Job(metadata=metadata("batch", "default"), spec=spec))

        async def has_pods(count: int) -> bool:
            status = (await cluster.client.get(batch_v1.Job, "batch", "default")).status
            pods = (await cluster.client.list(core_v1.Pod, "default")).items
            return (status.ready or 0) == len(pods) == count and not status.terminating

        await cluster.eventually(lambda: has_pods(2))
        await cluster.client.patch(batch_v1.Job, "batch", "default", {"spec": {"suspend": True}})
        await cluster.eventually(lambda: has_pods(0))
        status = (await cluster.client.get(batch_v1.Job, "batch", "default")).status
        assert (status.failed, status.succeeded) == (0, 0)

    live(scenario)


def test_a_second_owner_that_somebody_adds_stays_when_a_pod_is_let_go() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        keeper = await cluster.client.create(core_v1.ConfigMap(metadata=metadata("keeper", "default")))
        await cluster.client.create(replica_set("web", 1))
        await cluster.eventually(lambda: pods_are_ready(cluster, 1))
        one = (await cluster.pods(app="web"))[0]
        owners = [*one.metadata.owner_references, owner(keeper, "ConfigMap", "v1", controller=False, block=False)]
        change = {"metadata": {"ownerReferences": owners, "labels": {"app": "debug"}}}
        await cluster.client.patch(core_v1.Pod, one.metadata.name, "default", change)

        async def kept() -> bool:
            found = await cluster.client.get(core_v1.Pod, one.metadata.name, "default")
            return [each.name for each in found.metadata.owner_references] == ["keeper"]

        await cluster.eventually(kept)

    live(scenario)


@pytest.mark.parametrize("policy", ["Background", "Foreground", None])
def test_deleting_a_deployment_takes_everything_along(policy: str | None) -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        (only,) = await cluster.sets_of("web")
        await cluster.client.delete(apps_v1.Deployment, "web", "default", propagation_policy=policy)
        await cluster.eventually(lambda: cluster.gone(apps_v1.Deployment, "web"))
        if policy == "Foreground":
            assert await cluster.gone(apps_v1.ReplicaSet, only.metadata.name), "the owner goes last"
            assert not (await cluster.client.list(core_v1.Pod, "default")).items
        await cluster.eventually(lambda: cluster.gone(apps_v1.ReplicaSet, only.metadata.name))

        async def empty() -> bool:
            return not (await cluster.client.list(core_v1.Pod, "default")).items

        await cluster.eventually(empty)

    live(scenario)


def test_foreground_deletion_waits_for_a_dependent_with_a_finalizer() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        above = await cluster.client.create(core_v1.ConfigMap(metadata=metadata("above", "default")))
        below = core_v1.ConfigMap(
            metadata=metadata(
                "below", "default", owners=(owner(above, "ConfigMap", "v1"),), finalizers=("example.com/hold",)
            )
        )
        await cluster.client.create(below)
        await cluster.client.delete(core_v1.ConfigMap, "above", "default", propagation_policy="Foreground")

        async def below_is_going() -> bool:
            return bool((await cluster.client.get(core_v1.ConfigMap, "below", "default")).metadata.deletion_timestamp)

        await cluster.eventually(below_is_going)
        found = await cluster.client.get(core_v1.ConfigMap, "above", "default")
        assert found.metadata.finalizers == ("foregroundDeletion",)
        await cluster.client.patch(core_v1.ConfigMap, "below", "default", {"metadata": {"finalizers": None}})
        await cluster.eventually(lambda: cluster.gone(core_v1.ConfigMap, "above"))

    live(scenario)


def test_orphaning_leaves_dependents_and_a_new_owner_adopts_them() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        (only,) = await cluster.sets_of("web")
        before = {one.metadata.uid for one in await cluster.pods(app="web")}
        await cluster.client.delete(apps_v1.Deployment, "web", "default", propagation_policy="Orphan")
        await cluster.eventually(lambda: cluster.gone(apps_v1.Deployment, "web"))
        left = await cluster.client.get(apps_v1.ReplicaSet, only.metadata.name, "default")
        assert left.metadata.owner_references == ()
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        assert {one.metadata.uid for one in await cluster.pods(app="web")} == before

    live(scenario)


def test_an_orphaned_replica_set_leaves_its_pods_alone() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(replica_set("web", 2))
        await cluster.eventually(lambda: pods_are_ready(cluster, 2))
        await cluster.client.delete(apps_v1.ReplicaSet, "web", "default", propagation_policy="Orphan")
        await cluster.eventually(lambda: cluster.gone(apps_v1.ReplicaSet, "web"))
        assert [one.metadata.owner_references for one in await cluster.pods(app="web")] == [(), ()]

    live(scenario)


def test_an_object_whose_owner_never_was_is_collected() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        ghost = owner(
            core_v1.ConfigMap(metadata=metadata("ghost", uid="00000000-0000-0000-0000-000000000000")), "ConfigMap", "v1"
        )
        await cluster.client.create(core_v1.ConfigMap(metadata=metadata("lost", "default", owners=(ghost,))))
        await cluster.eventually(lambda: cluster.gone(core_v1.ConfigMap, "lost"))

    live(scenario)


def test_an_object_with_a_second_owner_stays_and_loses_the_reference() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        first, second = [
            await cluster.client.create(core_v1.ConfigMap(metadata=metadata(name, "default")))
            for name in ("one", "two")
        ]
        owners = tuple(owner(one, "ConfigMap", "v1", controller=False) for one in (first, second))
        await cluster.client.create(core_v1.ConfigMap(metadata=metadata("shared", "default", owners=owners)))
        await cluster.client.delete(core_v1.ConfigMap, "one", "default")

        async def reduced() -> bool:
            found = await cluster.client.get(core_v1.ConfigMap, "shared", "default")
            return [one.name for one in found.metadata.owner_references] == ["two"]

        await cluster.eventually(reduced)

    live(scenario)


def test_a_circle_of_owners_can_be_deleted_in_foreground() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        first = await cluster.client.create(core_v1.ConfigMap(metadata=metadata("one", "default")))
        second = core_v1.ConfigMap(metadata=metadata("two", "default", owners=(owner(first, "ConfigMap", "v1"),)))
        second = await cluster.client.create(second)
        circle = {"metadata": {"ownerReferences": [owner(second, "ConfigMap", "v1")]}}
        await cluster.client.patch(core_v1.ConfigMap, "one", "default", circle)
        await cluster.client.delete(core_v1.ConfigMap, "one", "default", propagation_policy="Foreground")
        await cluster.eventually(lambda: cluster.gone(core_v1.ConfigMap, "one"))
        await cluster.eventually(lambda: cluster.gone(core_v1.ConfigMap, "two"))

    live(scenario)
