"""Cluster autoscaling on a live cluster: nodes for pods that wait, none for nobody, and budgets in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import yaml

from bayplan.api.nodes import GROUP_LABEL
from bayplan.api.types import apps_v1, core_v1, policy_v1
from bayplan.cluster.settings import CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.kubelet.simulator.nodes.groups import parse_groups
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import deployment, metadata, pod, selector
from bayplan.testing.cluster import LiveCluster, running_cluster

FAST = replace(
    CLUSTER_CONTROLLERS, autoscaler_scan_interval=0.1, autoscaler_unneeded_time=0.3, autoscaler_delay_after_add=0.5
)
SMALL = "name=small,min=1,max=4,cpu=2,memory=8Gi,provision=0"
LARGE = "name=large,min=0,max=2,cpu=16,memory=64Gi,provision=0,label=size=large,taint=big=yes:NoSchedule"


def live(test: Callable[[LiveCluster], Awaitable[None]], *groups: str) -> None:
    async def run() -> None:
        nodes = SimulatorSettings(nodes=0, start_seconds=0.01, stop_seconds=0.01, groups=parse_groups(groups))
        async with running_cluster(settings=ClusterSettings(nodes=nodes, controller=FAST)) as cluster:
            await test(cluster)

    asyncio.run(run())


async def nodes(cluster: LiveCluster, group: str = "small") -> list[core_v1.Node]:
    return (await cluster.client.list(core_v1.Node, label_selector=f"{GROUP_LABEL}={group}")).items


async def has_nodes(cluster: LiveCluster, count: int, group: str = "small") -> bool:
    found = await nodes(cluster, group)
    ready = [one for one in found if any(c.type == "Ready" and c.status == "True" for c in one.status.conditions)]
    return len(found) == len(ready) == count


async def told(cluster: LiveCluster, reason: str, namespace: str = "default") -> list[core_v1.Event]:
    return [one for one in (await cluster.client.list(core_v1.Event, namespace)).items if one.reason == reason]


async def scale(cluster: LiveCluster, replicas: int) -> None:
    await cluster.client.patch(apps_v1.Deployment, "web", "default", {"spec": {"replicas": replicas}})


def test_nodes_come_with_demand_and_go_with_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.eventually(lambda: has_nodes(cluster, 1))
        await cluster.client.create(deployment("web", 5, cpu="900m"))
        await cluster.eventually(lambda: cluster.available("web", 5), 20.0)
        assert await has_nodes(cluster, 3)
        triggered = await cluster.eventually(lambda: told(cluster, "TriggeredScaleUp"))
        assert {one.message for one in triggered} == {"pod triggered scale-up: [{small 1->3 (max: 4)}]"}
        assert {one.source.component for one in triggered} == {"cluster-autoscaler"}
        [grown] = await told(cluster, "ScaledUpGroup", "kube-system")
        assert grown.message == "Scale-up: group small size set to 3 instead of 1 (max: 4)"
        await scale(cluster, 2)
        await cluster.eventually(lambda: has_nodes(cluster, 1), 20.0)
        await cluster.rolled_out("web", 2)
        marked = await cluster.eventually(lambda: told(cluster, "ScaleDown"))
        assert "marked the node as toBeDeleted/unschedulable" in {one.message for one in marked}
        await scale(cluster, 3)
        await cluster.eventually(lambda: cluster.available("web", 3), 20.0)
        status = await cluster.client.get(core_v1.ConfigMap, "cluster-autoscaler-status", "kube-system")
        assert yaml.safe_load(status.data["status"])["nodeGroups"][0]["name"] == "small"

    live(scenario, SMALL)


def test_a_pod_that_no_group_can_hold_is_told_why() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(pod("huge", cpu="8"))
        [one] = await cluster.eventually(lambda: told(cluster, "NotTriggerScaleUp"))
        expected = "pod didn't trigger scale-up: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)"
        assert one.message == expected
        toleration = core_v1.Toleration(key="big", operator="Exists")
        await cluster.client.create(pod("big", cpu="8", tolerations=(toleration,), node_selector={"size": "large"}))

        async def runs() -> bool:
            return (await cluster.client.get(core_v1.Pod, "big", "default")).status.phase == "Running"

        await cluster.eventually(runs, 20.0)
        assert await has_nodes(cluster, 1, "large")

    live(scenario, SMALL, LARGE)


def test_a_budget_holds_a_node_until_it_allows_the_move() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        budget = policy_v1.PodDisruptionBudget(
            metadata=metadata("web", "default"),
            spec=policy_v1.PodDisruptionBudgetSpec(selector=selector({"app": "web"}), max_unavailable=0),
        )
        await cluster.client.create(budget)
        await cluster.client.create(deployment("web", 4, cpu="900m"))
        await cluster.eventually(lambda: cluster.available("web", 4), 20.0)
        await cluster.eventually(lambda: has_nodes(cluster, 2))
        pods = await cluster.pods(app="web")
        for one in pods[:2]:
            cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
            chosen = one if one.spec.node_name == pods[0].spec.node_name else pods[2]
            await cluster.client.patch(core_v1.Pod, chosen.metadata.name, "default", cost)
        await scale(cluster, 2)
        await cluster.rolled_out("web", 2)
        await asyncio.wait_for(unmoved(cluster), 5.0)
        change = {"spec": {"maxUnavailable": 1}}
        await cluster.client.patch(policy_v1.PodDisruptionBudget, "web", "default", change)
        await cluster.eventually(lambda: has_nodes(cluster, 1), 20.0)
        await cluster.rolled_out("web", 2)

    async def unmoved(cluster: LiveCluster) -> None:
        """Wait for several looks of the autoscaler, none of which takes a node that a budget holds."""
        held = {one.spec.node_name for one in await cluster.pods(app="web")}
        for _ in range(10):
            assert held <= {one.metadata.name for one in await nodes(cluster)}
            await asyncio.sleep(FAST.autoscaler_scan_interval)

    live(scenario, SMALL)
