"""Disruption budgets: what the status says follows the pods, and evictions stop where it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, policy_v1
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            await test(cluster)

    asyncio.run(run())


def budget(**spec: Any) -> policy_v1.PodDisruptionBudget:
    made: policy_v1.PodDisruptionBudget = from_tree(
        policy_v1.PodDisruptionBudget,
        {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        },
    )
    return made


async def shows(cluster: LiveCluster, expected: int, needed: int, healthy: int, allowed: int) -> bool:
    status = (await cluster.client.get(policy_v1.PodDisruptionBudget, "web", "default")).status
    found = (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
    assert found == (expected, needed, healthy, allowed)
    return True


@pytest.mark.parametrize(
    ("spec", "expected", "needed", "allowed"),
    [
        ({"minAvailable": 2}, 5, 2, 3),
        ({"minAvailable": "50%"}, 5, 3, 2),
        ({"maxUnavailable": 1}, 5, 4, 1),
        ({"maxUnavailable": "30%"}, 5, 3, 2),
    ],
)
def test_status(spec: dict[str, Any], expected: int, needed: int, allowed: int) -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 5))
        await cluster.rolled_out("web", 5)
        await cluster.client.create(budget(**spec))
        await cluster.eventually(lambda: shows(cluster, expected, needed, 5, allowed))

    live(scenario)


def test_evictions_stop_at_the_budget_and_go_on_when_pods_are_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 3))
        await cluster.rolled_out("web", 3)
        await cluster.client.create(budget(minAvailable=2))
        await cluster.eventually(lambda: shows(cluster, 3, 2, 3, 1))
        first, second, _ = await cluster.pods(app="web")
        await cluster.client.evict("default", first.metadata.name)
        with pytest.raises(ApiError) as refused:
            await cluster.client.evict("default", second.metadata.name)
        assert refused.value.code == 429

        async def evicted() -> bool:
            try:
                await cluster.client.evict("default", second.metadata.name)
            except ApiError as error:
                if error.code == 429:
                    return False
                raise
            return True

        await cluster.eventually(evicted)

    live(scenario)


def test_a_budget_over_pods_without_a_controller_says_that_it_cannot_count_them() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        pod: core_v1.Pod = from_tree(
            core_v1.Pod,
            {
                "metadata": {"name": "alone", "namespace": "default", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app"}]},
            },
        )
        await cluster.client.create(pod)
        await cluster.client.create(budget(maxUnavailable=1))

        async def told() -> bool:
            status = (await cluster.client.get(policy_v1.PodDisruptionBudget, "web", "default")).status
            events = (await cluster.client.list(core_v1.Event, "default")).items
            warnings = [one.message for one in events if one.reason == "UnmanagedPods"]
            return (
                [(one.status, one.reason) for one in status.conditions] == [("False", "InsufficientPods")]
                and status.expected_pods == 0
                and ["selector: &LabelSelector{MatchLabels:map[string]string{app: web,}" in one for one in warnings]
                == [True]
            )

        await cluster.eventually(told)

    live(scenario)
