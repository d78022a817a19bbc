"""Deployments in a live cluster: roll-outs, going back, pausing, scaling, history, failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.types import apps_v1, core_v1
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from bayplan.testing.builders import RECREATE, deployment, rolling
from bayplan.testing.cluster import LiveCluster, running_cluster

REVISION = "deployment.kubernetes.io/revision"


def live(test: Callable[[LiveCluster], Awaitable[None]], **simulator: Any) -> None:
    """Run a test in a fresh cluster."""

    async def run() -> None:
        async with running_cluster(**simulator) as cluster:
            await test(cluster)

    asyncio.run(run())


async def patch(cluster: LiveCluster, spec: dict[str, Any], name: str = "web") -> apps_v1.Deployment:
    return await cluster.client.patch(apps_v1.Deployment, name, "default", {"spec": spec})


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


def condition(one: apps_v1.Deployment, kind: str) -> tuple[str, str]:
    return next(((each.status, each.reason) for each in one.status.conditions if each.type == kind), ("", ""))


def test_a_deployment_rolls_out_and_says_so() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 5))
        one = await cluster.rolled_out("web", 5)
        await cluster.eventually(lambda: has_condition(cluster, "Progressing", "NewReplicaSetAvailable"))
        assert one.metadata.annotations[REVISION] == "1"
        assert one.metadata.generation == 1, "nobody has changed it"
        assert condition(one, "Available") == ("True", "MinimumReplicasAvailable")
        (only,) = await cluster.sets_of("web")
        pods = await cluster.pods(app="web")
        assert all(pod.metadata.name.startswith(f"{only.metadata.name}-") for pod in pods)
        assert len({pod.spec.node_name for pod in pods}) == 3, "pods are spread over the nodes"

    live(scenario)


async def has_condition(cluster: LiveCluster, kind: str, reason: str, name: str = "web") -> apps_v1.Deployment | None:
    one = await cluster.client.get(apps_v1.Deployment, name, "default")
    return one if condition(one, kind)[1] == reason else None


def test_a_rolling_update_keeps_its_bounds_and_going_back_reuses_the_old_set() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 6, strategy=rolling(2, 1)))
        await cluster.rolled_out("web", 6)
        (first,) = await cluster.sets_of("web")
        sizes: list[tuple[int, int]] = []
        stream = await cluster.client.watch(apps_v1.Deployment, "default")
        await patch(cluster, image("app:2"))

        async def follow() -> None:
            async for event in stream:
                status = event.object.status
                sizes.append((status.replicas, status.available_replicas))

        following = asyncio.create_task(follow())
        await cluster.rolled_out("web", 6)
        stream.close()
        following.cancel()
        assert max(total for total, _ in sizes) <= 8, "at most two above"
        assert min(available for _, available in sizes) >= 5, "at most one missing"
        before, after = await cluster.sets_of("web")
        assert (before.metadata.uid, before.spec.replicas, after.spec.replicas) == (first.metadata.uid, 0, 6)
        await patch(cluster, image("app:1"))
        one = await cluster.rolled_out("web", 6)
        assert one.metadata.annotations[REVISION] == "3"
        newest = (await cluster.sets_of("web"))[-1]
        assert newest.metadata.uid == first.metadata.uid
        assert newest.metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"

    live(scenario)


def test_a_paused_deployment_waits_but_scales() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        await patch(cluster, {"paused": True, **image("app:2")})
        await cluster.eventually(lambda: has_condition(cluster, "Progressing", "DeploymentPaused"))
        await patch(cluster, {"replicas": 4})

        async def grown() -> bool:
            return len(await cluster.ready_pods(app="web")) == 4

        assert await cluster.eventually(grown)
        assert len(await cluster.sets_of("web")) == 1
        assert {pod.spec.containers[0].image for pod in await cluster.pods(app="web")} == {"app:1"}
        await patch(cluster, {"paused": None})
        await cluster.rolled_out("web", 4)
        assert {pod.spec.containers[0].image for pod in await cluster.pods(app="web")} == {"app:2"}

    live(scenario)


def test_recreate_ends_the_old_pods_before_the_new_start() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 3, strategy=RECREATE))
        await cluster.rolled_out("web", 3)
        stream = await cluster.client.watch(core_v1.Pod, "default")
        await patch(cluster, image("app:2"))
        await cluster.rolled_out("web", 3)
        alive: dict[str, str] = {}
        mixed = False
        async for event in stream:
            pod = event.object
            if event.type == "DELETED":
                alive.pop(pod.metadata.name, None)
            else:
                alive[pod.metadata.name] = pod.spec.containers[0].image
            mixed |= len(set(alive.values())) > 1
            if len(alive) == 3 and set(alive.values()) == {"app:2"}:
                break
        stream.close()
        assert not mixed

    live(scenario, stop_seconds=0.1)


def test_scaling_in_the_middle_of_a_roll_out_keeps_proportions() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 8, strategy=rolling(2, 0)))
        await cluster.rolled_out("web", 8)
        await patch(cluster, image("nonexistent"))

        async def stuck() -> bool:
            return [one.spec.replicas for one in await cluster.sets_of("web")] == [8, 2]

        assert await cluster.eventually(stuck)
        await patch(cluster, {"replicas": 16})

        async def shared() -> bool:
            return [one.spec.replicas for one in await cluster.sets_of("web")] == [14, 4]

        assert await cluster.eventually(shared)
        await patch(cluster, image("app:3"))
        await cluster.rolled_out("web", 16)
        assert [one.spec.replicas for one in await cluster.sets_of("web")] == [0, 0, 16]

    live(scenario)


def test_history_is_kept_up_to_its_limit() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 1, revision_history_limit=2))
        for version in range(1, 6):
            await patch(cluster, image(f"app:{version}"))
            await cluster.rolled_out("web", 1)

        async def trimmed() -> bool:
            return [one.metadata.annotations[REVISION] for one in await cluster.sets_of("web")] == ["3", "4", "5"]

        assert await cluster.eventually(trimmed)

    live(scenario)


def test_a_roll_out_that_cannot_succeed_exceeds_its_deadline_and_recovers() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        spec = deployment("web", 2, progress_deadline_seconds=1, strategy=rolling(1, 0))
        await cluster.client.create(spec)
        await cluster.rolled_out("web", 2)
        await patch(cluster, image("nonexistent"))
        failed = await cluster.eventually(lambda: has_condition(cluster, "Progressing", "ProgressDeadlineExceeded"))
        assert failed is not None
        assert condition(failed, "Progressing")[0] == "False"
        assert failed.status.available_replicas == 2, "the old pods serve on"
        await patch(cluster, image("app:1"))
        await cluster.rolled_out("web", 2)
        assert await cluster.eventually(lambda: has_condition(cluster, "Progressing", "NewReplicaSetAvailable"))

    live(scenario)


def test_a_deployment_that_has_been_up_for_long_does_not_time_out_when_it_is_changed() -> None:
    async def main() -> None:
        async with VirtualCluster(seed=1) as cluster:
            client = cluster.client

            async def rolled_out() -> bool:
                one = await client.get(apps_v1.Deployment, "web", "default")
                counts = (one.status.updated_replicas, one.status.available_replicas, one.status.replicas)
                return counts == (2, 2, 2) and one.status.observed_generation == one.metadata.generation

            await client.create(deployment("web", 2, progress_deadline_seconds=10))
            await cluster.eventually(rolled_out)
            await cluster.advance(hours=24)
            one = await client.get(apps_v1.Deployment, "web", "default")
            assert condition(one, "Progressing")[1] == "NewReplicaSetAvailable"
            stream = await client.watch(apps_v1.Deployment, "default")
            await client.patch(apps_v1.Deployment, "web", "default", {"spec": image("app:2")})
            await cluster.eventually(rolled_out)
            reasons = set()
            async for event in stream:
                reasons.add(condition(event.object, "Progressing")[1])
                one = event.object
                seen = (
                    one.metadata.annotations[REVISION] == "2"
                    and one.status.observed_generation == one.metadata.generation
                )
                if seen and (one.status.updated_replicas, one.status.replicas) == (2, 2):
                    break
            stream.close()
            assert "NewReplicaSetCreated" in reasons
            assert "ProgressDeadlineExceeded" not in reasons

    virtual_time.run(main())


def test_pods_that_are_not_available_yet_hold_a_roll_out_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2, min_ready_seconds=1))

        async def ready() -> bool:
            one = await cluster.client.get(apps_v1.Deployment, "web", "default")
            return one.status.ready_replicas == 2

        await cluster.eventually(ready)
        one = await cluster.rolled_out("web", 2)
        (available,) = (each.last_transition_time or "" for each in one.status.conditions if each.type == "Available")
        pods = await cluster.pods(app="web")
        ready_since = [
            each.last_transition_time or "" for pod in pods for each in pod.status.conditions if each.type == "Ready"
        ]
        assert available > max(ready_since)

    live(scenario)


def test_events_tell_what_was_scaled() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        await patch(cluster, {"replicas": 0})
        await cluster.rolled_out("web", 0)
        (only,) = await cluster.sets_of("web")

        async def told() -> bool:
            events = (await cluster.client.list(core_v1.Event, "default")).items
            messages = {one.message for one in events if one.reason == "ScalingReplicaSet"}
            name = only.metadata.name
            return messages == {
                f"Scaled up replica set {name} from 0 to 2",
                f"Scaled down replica set {name} from 2 to 0",
            }

        assert await cluster.eventually(told)

    live(scenario)


def test_two_deployments_that_would_share_a_name_get_two() -> None:
    """A foreign ReplicaSet with the name that the hash gives is a collision: the deployment counts it and takes another name."""

    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 1))
        await cluster.rolled_out("web", 1)
        (first,) = await cluster.sets_of("web")
        await cluster.client.delete(apps_v1.Deployment, "web", "default", propagation_policy="Orphan")
        await cluster.eventually(lambda: cluster.gone(apps_v1.Deployment, "web"))
        stranger = {"metadata": {"labels": {"app": "stranger", "pod-template-hash": "x"}}}
        await cluster.client.patch(apps_v1.ReplicaSet, first.metadata.name, "default", stranger)
        await cluster.client.create(deployment("web", 1))
        one = await cluster.rolled_out("web", 1)
        assert one.status.collision_count == 1
        (second,) = await cluster.sets_of("web")
        assert second.metadata.name != first.metadata.name

    live(scenario)
