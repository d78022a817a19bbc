"""Whole clusters in this process: several at once, under the mutation detector, with all invariants checked at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, core_v1, policy_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.manifests.apply import apply_manifests, read_manifests
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.testing.invariants import violations
from bayplan.testing.mutations import detect_mutations
from tests.integration.conftest import EXAMPLES

FAST = SimulatorSettings(nodes=6, start_seconds=0.02, stop_seconds=0.02)


async def eventually(condition: Callable[[], Awaitable[object]], seconds: float = 20.0) -> None:
    """Wait until a condition holds. Fails the test if it never does."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  (the condition is a question to the API, nothing sets an event)
            await asyncio.sleep(0.02)


async def running(client: Client, namespace: str = "shop") -> list[core_v1.Pod]:
    pods = (await client.list(core_v1.Pod, namespace)).items
    return [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]


async def counted(client: Client, count: int) -> bool:
    """Whether so many pods run and every count says so."""
    return len(await running(client)) == count and not await violations(client)


def play(story: Callable[[Cluster], Awaitable[None]], settings: ClusterSettings | None = None) -> None:
    """Run a story on a cluster of its own; nobody may change what is shared, and all must hold at the end."""

    async def main() -> None:
        cluster = Cluster(settings or ClusterSettings(nodes=FAST))
        await cluster.start()
        try:
            await story(cluster)
            client = cluster.client()
            await eventually(lambda: _none(violations(client)))
        finally:
            await cluster.stop()

    with detect_mutations():
        asyncio.run(main())


async def _none(found: Awaitable[list[str]]) -> bool:
    return not await found


async def shop(client: Client) -> None:
    await apply_manifests(client, read_manifests([EXAMPLES / "shop.yaml"]))
    await eventually(lambda: counted(client, 7))


def test_an_application_is_placed_updated_scaled_and_deleted() -> None:
    async def story(cluster: Cluster) -> None:
        client = cluster.client()
        await shop(client)
        template = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        await client.patch(apps_v1.Deployment, "web", "shop", template)

        async def updated() -> bool:
            web = await client.get(apps_v1.Deployment, "web", "shop")
            status = web.status
            return (
                status.observed_generation == web.metadata.generation
                and status.updated_replicas == status.available_replicas == status.replicas == 4
            )

        await eventually(updated)
        await client.patch(apps_v1.Deployment, "web", "shop", {"spec": {"replicas": 12}})
        await eventually(lambda: counted(client, 15))
        await client.delete(core_v1.Namespace, "shop")

        async def gone() -> bool:
            return "shop" not in {one.metadata.name for one in (await client.list(core_v1.Namespace)).items}

        await eventually(gone)
        assert (await client.list(core_v1.Pod)).items == []

    play(story)


def test_a_thousand_pods_fill_the_cluster_and_no_node_is_over_committed() -> None:
    async def story(cluster: Cluster) -> None:
        client = cluster.client()
        await shop(client)
        await client.patch(apps_v1.Deployment, "web", "shop", {"spec": {"replicas": 1000}})

        async def full() -> bool:
            pods = (await client.list(core_v1.Pod, "shop", label_selector="app=web")).items
            refused = [
                one
                for one in pods
                for condition in one.status.conditions
                if condition.type == "PodScheduled" and condition.status == "False"
            ]
            return (
                len(pods) == 1000 and len(refused) + len([one for one in pods if one.status.phase == "Running"]) == 1000
            )

        await eventually(full, 40)
        assert 50 < len(await running(client)) < 120, "six nodes with 4 CPUs, 250m each"
        await client.patch(apps_v1.Deployment, "web", "shop", {"spec": {"replicas": 0}})
        await eventually(lambda: counted(client, 3))

    play(story)


def test_many_changes_of_one_object_at_once_lose_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        client = cluster.client()
        await shop(client)
        patches = [
            client.patch(core_v1.ConfigMap, "shop-settings", "shop", {"data": {f"k{number}": "v"}})
            for number in range(200)
        ]
        await asyncio.gather(*patches)
        assert len((await client.get(core_v1.ConfigMap, "shop-settings", "shop")).data) == 202

    play(story)


def test_a_disruption_budget_that_allows_nothing_stops_an_eviction() -> None:
    async def story(cluster: Cluster) -> None:
        client = cluster.client()
        await shop(client)
        selector = {"matchLabels": {"app": "checkout"}}
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "shop"},
        }
        await apply_manifests(client, [(Path("budget"), {**budget, "spec": {"minAvailable": 2, "selector": selector}})])
        status = {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 0,
                "currentHealthy": 2,
                "desiredHealthy": 2,
                "expectedPods": 2,
            }
        }
        await client.patch(policy_v1.PodDisruptionBudget, "b", "shop", status, subresource="status")
        pod = next(one for one in await running(client) if one.metadata.labels["app"] == "checkout")
        with pytest.raises(ApiError, match="disruption budget") as refused:
            await client.evict("shop", pod.metadata.name)
        assert refused.value.code == 429
        assert (await client.get(core_v1.Pod, pod.metadata.name, "shop")).metadata.deletion_timestamp is None

    play(story)


def test_two_clusters_in_one_process_know_nothing_of_each_other() -> None:
    async def main() -> None:
        clusters = [Cluster(ClusterSettings(nodes=FAST)) for _ in range(2)]
        for cluster in clusters:
            await cluster.start()
        first, second = (cluster.client() for cluster in clusters)
        try:
            await shop(first)
            assert clusters[0].port != clusters[1].port
            assert (await second.list(core_v1.Pod)).items == []
            await shop(second)
            uids = [{pod.metadata.uid for pod in await running(client)} for client in (first, second)]
            assert not uids[0] & uids[1]
        finally:
            for cluster in clusters:
                await cluster.stop()

    with detect_mutations():
        asyncio.run(main())


def test_a_cluster_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    settings = ClusterSettings(store=f"sqlite:{tmp_path}/store.db", directory=tmp_path / "pki", nodes=FAST)

    async def first(cluster: Cluster) -> None:
        await shop(cluster.client())

    async def second(cluster: Cluster) -> None:
        client = cluster.client()
        assert len(await running(client)) == 7
        await client.patch(apps_v1.Deployment, "web", "shop", {"spec": {"replicas": 6}})
        await eventually(lambda: counted(client, 9))

    play(first, settings)
    play(second, settings)
