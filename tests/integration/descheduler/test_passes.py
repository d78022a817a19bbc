"""Passes over a whole cluster in virtual time: its controllers and its scheduler make and place again what is evicted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import not_found_error
from bayplan.api.types import apps_v1, core_v1, policy_v1
from bayplan.client.client import MERGE_PATCH
from bayplan.client.errors import TransportError
from bayplan.descheduler.errors import PolicyError
from bayplan.descheduler.policy import DeschedulerPolicy
from bayplan.descheduler.service import DeschedulerService
from bayplan.descheduler.settings import DeschedulerSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.tasks import Supervisor
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment
from tests.descheduler.scenario import policy

Scenario = Callable[[VirtualCluster], Awaitable[None]]


def virtual(scenario: Scenario, nodes: int = 3) -> None:
    async def main() -> None:
        async with VirtualCluster(seed=1, nodes=nodes) as cluster:
            await scenario(cluster)
            await cluster.settle()
            await cluster.validate()

    run(main())


def descheduler(
    cluster: VirtualCluster, wanted: DeschedulerPolicy, metrics: Registry | None = None, **settings: Any
) -> DeschedulerService:
    return DeschedulerService(
        cluster.connect("descheduler"),
        wanted,
        DeschedulerSettings(**settings),
        clock=cluster.clock,
        randomness=SeededRandomness("descheduler"),
        metrics=metrics or Registry(),
    )


async def rolled_out(cluster: VirtualCluster, replicas: int, name: str = "web") -> list[core_v1.Pod]:
    """Wait until so many pods are ready, and return them."""

    async def ready() -> list[core_v1.Pod]:
        found = await cluster.client.get(apps_v1.Deployment, name, "default")
        assert found.status.ready_replicas == replicas
        pods = (await cluster.client.list(core_v1.Pod, "default", label_selector=f"app={name}")).items
        assert [pod for pod in pods if pod.metadata.deletion_timestamp] == [], "evicted pods are gone"
        assert len(pods) == replicas
        return pods

    return await cluster.eventually(ready)


async def taint(cluster: VirtualCluster, name: str) -> None:
    patch = {"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}}
    await cluster.client.patch(core_v1.Node, name, "", patch, patch_type=MERGE_PATCH)


async def node_with_pods(cluster: VirtualCluster) -> str:
    pods = (await cluster.client.list(core_v1.Pod, "default")).items
    return sorted(pod.spec.node_name for pod in pods)[0]


async def budget(cluster: VirtualCluster, least: int) -> None:
    made: policy_v1.PodDisruptionBudget = from_tree(
        policy_v1.PodDisruptionBudget,
        {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": least},
        },
    )
    await cluster.client.create(made)

    async def seen() -> bool:
        status = (await cluster.client.get(policy_v1.PodDisruptionBudget, "web", "default")).status
        return status.observed_generation > 0 and status.expected_pods > 0

    await cluster.eventually(seen)


async def events_of(cluster: VirtualCluster, action: str = "Descheduled") -> list[core_v1.Event]:
    return [one for one in (await cluster.client.list(core_v1.Event, "default")).items if one.action == action]


TAINTS = policy("RemovePodsViolatingNodeTaints")
ALL = policy("PodLifeTime", {"states": ["Running"]})


def test_pods_leave_a_node_that_they_do_not_tolerate_any_more_and_come_up_elsewhere() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 6))
        before = await rolled_out(cluster, 6)
        name = await node_with_pods(cluster)
        await taint(cluster, name)
        metrics = Registry()
        report = await descheduler(cluster, TAINTS, metrics).run_once()
        there = sorted(f"default/{pod.metadata.name}" for pod in before if pod.spec.node_name == name)
        assert there
        assert sorted(one.pod for one in report.evicted) == there
        assert {one.node for one in report.evicted} == {name}
        assert not report.refused
        after = await rolled_out(cluster, 6)
        assert name not in {pod.spec.node_name for pod in after}
        events = await events_of(cluster)
        assert len(events) == len(there)
        assert {one.reason for one in events} == {"RemovePodsViolatingNodeTaints"}
        assert events[0].message == (
            f"pod eviction from {name} node by sigs.k8s.io/descheduler: "
            "it does not tolerate taint dedicated=gpu:NoSchedule of its node"
        )
        text = metrics.render().decode()
        labels = f'namespace="default",node="{name}",profile="test",result="success",strategy="RemovePodsViolatingNodeTaints"'
        assert f"descheduler_pods_evicted_total{{{labels}}} {len(there)}\n" in text
        assert f"descheduler_pods_evicted{{{labels}}} {len(there)}\n" in text
        assert "descheduler_loop_duration_seconds_count 1\n" in text
        assert (
            'descheduler_strategy_duration_seconds_count{profile="test",strategy="RemovePodsViolatingNodeTaints"} 1\n'
            in text
        )
        assert "descheduler_build_info{" in text
        assert not (await descheduler(cluster, TAINTS).run_once()).attempts, "nothing is left to do"

    virtual(scenario)


def test_budgets_hold_and_refused_evictions_do_not_count() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 4))
        await cluster.client.create(deployment("other", 2))
        await rolled_out(cluster, 4)
        await rolled_out(cluster, 2, "other")
        await budget(cluster, 4)
        metrics = Registry()
        wanted = policy(
            "PodLifeTime", {"states": ["Running"]}, maxNoOfPodsToEvictTotal=3, evictionFailureEventNotification=True
        )
        report = await descheduler(cluster, wanted, metrics).run_once()
        assert [one.pod.split("-")[0] for one in report.evicted] == ["default/other"] * 2
        refused = [one for one in report.refused if "budget" in one.objection]
        assert len(refused) == 4
        assert refused[0].objection.startswith('error when evicting pod (ignoring) "web-')
        assert 'result="error"' in metrics.render().decode()
        warnings = [one for one in await events_of(cluster) if one.type == "Warning"]
        assert {one.reason for one in warnings} == {"EvictionFailed"}
        assert len(warnings) == 4

    virtual(scenario)


def test_a_budget_allows_as_many_as_it_allows() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 5))
        await rolled_out(cluster, 5)
        await budget(cluster, 3)
        report = await descheduler(cluster, ALL).run_once()
        assert (len(report.evicted), len(report.refused)) == (2, 3)

    virtual(scenario)


def test_a_dry_run_says_what_it_would_do_and_does_nothing() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 3))
        before = await rolled_out(cluster, 3)
        report = await descheduler(cluster, ALL, dry_run=True).run_once()
        assert len(report.evicted) == 3
        await cluster.settle()
        after = await rolled_out(cluster, 3)
        assert {pod.metadata.uid for pod in after} == {pod.metadata.uid for pod in before}
        assert await events_of(cluster) == []

    virtual(scenario)


def test_passes_follow_each_other_at_the_interval() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        before = {pod.metadata.uid for pod in await rolled_out(cluster, 2)}
        wanted = policy("PodLifeTime", {"maxPodLifeTimeSeconds": 600})
        metrics = Registry()
        service = descheduler(cluster, wanted, metrics, descheduling_interval=300.0)
        async with Supervisor("test") as tasks:
            tasks.spawn("descheduler", service.run())
            await cluster.advance(seconds=500)
            assert {pod.metadata.uid for pod in await rolled_out(cluster, 2)} == before, "they are too young"
            await cluster.advance(seconds=500)
            assert not {pod.metadata.uid for pod in await rolled_out(cluster, 2)} & before
        assert "descheduler_loop_duration_seconds_count 4" in metrics.render().decode()

    virtual(scenario)


def test_one_pass_is_all_without_an_interval() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await rolled_out(cluster, 2)
        metrics = Registry()
        await descheduler(cluster, ALL, metrics).run()
        assert "descheduler_loop_duration_seconds_count 1" in metrics.render().decode()
        assert len(await events_of(cluster)) == 2

    virtual(scenario)


def test_a_priority_class_that_does_not_exist_is_an_error_at_the_start() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        wanted = policy("PodLifeTime", {"states": ["Running"]}, {"priorityThreshold": {"name": "none"}})
        with pytest.raises(
            PolicyError, match=r'profile test: DefaultEvictor: priorityThreshold\.name: .* "none" not found'
        ):
            await descheduler(cluster, wanted, descheduling_interval=60.0).run()

    virtual(scenario)


def test_nodes_of_the_selector_only() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 6))
        pods = await rolled_out(cluster, 6)
        names = sorted({pod.spec.node_name for pod in pods})
        assert len(names) == 3
        selector = f"kubernetes.io/hostname in ({names[0]},{names[1]})"
        report = await descheduler(cluster, ALL, node_selector=selector).run_once()
        assert {one.node for one in report.evicted} == set(names[:2])

    virtual(scenario)


def test_real_usage_is_read_from_the_metrics_api() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 3, cpu="100m"))
        await rolled_out(cluster, 3)
        await cluster.advance(minutes=2)
        utilization = {
            "thresholds": {"cpu": 50},
            "targetThresholds": {"cpu": 60},
            "metricsUtilization": {"source": "KubernetesMetrics"},
        }
        providers = [{"source": "KubernetesMetrics"}]
        report = await descheduler(
            cluster, policy("LowNodeUtilization", utilization, metricsProviders=providers)
        ).run_once()
        assert report.errors == []
        without = await descheduler(cluster, policy("LowNodeUtilization", utilization)).run_once()
        assert without.errors == [
            "LowNodeUtilization: metrics client not initialized: metricsProviders needs source KubernetesMetrics, and the cluster metrics.k8s.io"
        ]

    virtual(scenario)


def test_a_cluster_of_one_node_is_left_alone() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await rolled_out(cluster, 2)
        report = await descheduler(cluster, ALL).run_once()
        assert report.skipped == "requires at least 2 ready nodes, found 1"
        assert not report.attempts

    virtual(scenario, nodes=1)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"maxNoOfPodsToEvictTotal": 1}, "failed: total eviction limit exceeded (1)"),
        ({"maxNoOfPodsToEvictPerNode": 1}, "failed: node eviction limit exceeded (1)"),
        ({"maxNoOfPodsToEvictPerNamespace": 1}, "failed: namespace eviction limit exceeded (1)"),
    ],
)
def test_limits_are_told_by_events_and_metrics_if_that_is_asked_for(limit: dict[str, Any], expected: str) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 4))
        await rolled_out(cluster, 4)
        metrics = Registry()
        wanted = policy("PodLifeTime", {"states": ["Running"]}, evictionFailureEventNotification=True, **limit)
        await descheduler(cluster, wanted, metrics).run_once()
        warnings = [one for one in await events_of(cluster) if one.type == "Warning"]
        assert warnings
        assert all(one.message.endswith(expected) for one in warnings)
        assert 'result="maximum number of evicted pods per ' in metrics.render().decode()

    virtual(scenario)


def test_grace_period_and_annotations_go_with_the_eviction() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 1, pod_spec={"termination_grace_period_seconds": 500}))
        (before,) = await rolled_out(cluster, 1)
        wanted = policy("PodLifeTime", {"states": ["Running"]}, gracePeriodSeconds=7)
        await descheduler(cluster, wanted).run_once()
        ending = await cluster.client.get(core_v1.Pod, before.metadata.name, "default")
        assert ending.metadata.deletion_grace_period_seconds == 7

    virtual(scenario)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (not_found_error("pods", "", "web"), 'pod not found when evicting "'),
        (TransportError("the connection broke"), "the connection broke"),
    ],
)
def test_an_eviction_that_fails_does_not_end_the_pass(error: Exception, expected: str) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await rolled_out(cluster, 2)
        client = cluster.connect("descheduler")

        async def fail(*_: object, **__: object) -> None:
            raise error

        client.evict = fail  # type: ignore[method-assign]
        service = DeschedulerService(
            client,
            ALL,
            DeschedulerSettings(),
            clock=cluster.clock,
            randomness=SeededRandomness("descheduler"),
            metrics=Registry(),
        )
        report = await service.run_once()
        assert [one.objection.startswith(expected) for one in report.refused] == [True, True]

    virtual(scenario)


def test_a_cluster_without_metrics_fails_only_strategies_that_need_them() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await rolled_out(cluster, 2)
        client = cluster.connect("descheduler")

        async def fail(*_: object) -> bytes:
            raise not_found_error("nodes", "metrics.k8s.io", "")

        client.raw = fail  # type: ignore[method-assign, assignment]
        utilization = {
            "thresholds": {"cpu": 50},
            "targetThresholds": {"cpu": 60},
            "metricsUtilization": {"source": "KubernetesMetrics"},
        }
        for wanted, errors, evicted in (
            (policy("PodLifeTime", {"states": ["Running"]}, metricsProviders=[{"source": "KubernetesMetrics"}]), 0, 2),
            (policy("LowNodeUtilization", utilization, metricsProviders=[{"source": "KubernetesMetrics"}]), 1, 0),
        ):
            service = DeschedulerService(
                client,
                wanted,
                DeschedulerSettings(),
                clock=cluster.clock,
                randomness=SeededRandomness("descheduler"),
                metrics=Registry(),
            )
            report = await service.run_once()
            assert (len(report.errors), len(report.evicted)) == (errors, evicted)

    virtual(scenario)
