"""HorizontalPodAutoscalers on a live cluster: load up, load down, and what stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from bayplan.api.types import apps_v1, autoscaling_v2, core_v1
from bayplan.cluster.settings import CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import changed, deployment, metadata
from bayplan.testing.cluster import LiveCluster, running_cluster

USAGE = "bayplan.dev/cpu-usage"
HPA = autoscaling_v2.HorizontalPodAutoscaler
FAST = replace(
    CLUSTER_CONTROLLERS, hpa_sync_period=0.1, hpa_cpu_initialization_period=0.0, hpa_downscale_stabilization=0.3
)


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        nodes = SimulatorSettings(nodes=3, start_seconds=0.01, stop_seconds=0.01)
        async with running_cluster(settings=ClusterSettings(nodes=nodes, controller=FAST)) as cluster:
            await test(cluster)

    asyncio.run(run())


def autoscaler(name: str, target: str = "web", maximum: int = 5, **spec: Any) -> HPA:
    wanted = autoscaling_v2.MetricTarget(type="Utilization", average_utilization=50)
    cpu = autoscaling_v2.MetricSpec(
        type="Resource", resource=autoscaling_v2.ResourceMetricSource(name="cpu", target=wanted)
    )
    reference = autoscaling_v2.CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name=target)
    spec = {"metrics": (cpu,), "scale_target_ref": reference, "max_replicas": maximum, **spec}
    return HPA(metadata=metadata(name, "default"), spec=autoscaling_v2.HorizontalPodAutoscalerSpec(**spec))


async def load(cluster: LiveCluster, usage: str) -> None:
    """Let all pods of the deployment, those there are and those to come, use so much."""
    template = {"spec": {"template": {"metadata": {"annotations": {USAGE: usage}}}}}
    await cluster.client.patch(apps_v1.Deployment, "web", "default", template)


async def scaled(cluster: LiveCluster, replicas: int) -> Any:
    found = await cluster.client.get(apps_v1.Deployment, "web", "default")
    return found.spec.replicas == replicas and await cluster.available("web", replicas)


async def condition(cluster: LiveCluster, name: str, kind: str) -> Any:
    found = await cluster.client.get(HPA, name, "default")
    return next((one for one in found.status.conditions if one.type == kind), None)


async def reason_is(cluster: LiveCluster, name: str, kind: str, reason: str) -> bool:
    found = await condition(cluster, name, kind)
    return found is not None and found.reason == reason


async def events(cluster: LiveCluster, reason: str) -> list[core_v1.Event]:
    return [one for one in (await cluster.client.list(core_v1.Event, "default")).items if one.reason == reason]


def test_a_deployment_grows_with_its_load_and_shrinks_with_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 1, cpu="100m", pod_meta={"annotations": {USAGE: "200m"}}))
        await cluster.rolled_out("web", 1)
        await cluster.client.create(autoscaler("web"))
        hpa = await cluster.eventually(lambda: measured(cluster), 15.0)
        current = hpa.status.current_metrics[0].resource
        assert current is not None
        assert (current.current.average_utilization, current.current.average_value) == (200, "200m")
        await cluster.eventually(lambda: scaled(cluster, 5), 15.0)
        assert await reason_is(cluster, "web", "ScalingLimited", "TooManyReplicas")
        await load(cluster, "10m")
        await cluster.eventually(lambda: scaled(cluster, 1), 20.0)
        told = await cluster.eventually(lambda: told_all(cluster))
        up = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
        assert up in told, "four came before five, for however short a time"
        assert any(text.endswith("reason: All metrics below target") for text in told)

    async def measured(cluster: LiveCluster) -> HPA | None:
        found = await cluster.client.get(HPA, "web", "default")
        return found if found.status.current_metrics and found.status.last_scale_time else None

    async def told_all(cluster: LiveCluster) -> list[str]:
        found = await events(cluster, "SuccessfulRescale")
        assert all(one.source.component == "horizontal-pod-autoscaler" for one in found)
        texts = [one.message for one in found]
        return texts if any("below" in text for text in texts) else []

    live(scenario)


def test_bounds_hold_without_metrics_and_zero_means_switched_off() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 1))
        await cluster.client.create(autoscaler("web", min_replicas=2))
        await cluster.eventually(lambda: scaled(cluster, 2))
        failed = "FailedGetResourceMetric"
        await cluster.eventually(lambda: reason_is(cluster, "web", "ScalingActive", failed))
        message = (await condition(cluster, "web", "ScalingActive")).message
        assert "missing request for cpu in container main of Pod web-" in message
        await cluster.client.patch(apps_v1.Deployment, "web", "default", {"spec": {"replicas": 0}})
        await cluster.eventually(lambda: reason_is(cluster, "web", "ScalingActive", "ScalingDisabled"))
        assert await scaled(cluster, 0)

    live(scenario)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param(
            ("apps/v1", "Deployment", "nobody"), 'deployments.apps "nobody" not found', id="a target that is not there"
        ),
        pytest.param(
            ("apps/v1", "Deploymnet", "web"), 'no matches for kind "Deploymnet" in group "apps"', id="an unknown kind"
        ),
    ],
)
def test_a_target_without_scale_is_told(target: tuple[str, str, str], message: str) -> None:
    async def scenario(cluster: LiveCluster) -> None:
        version, kind, name = target
        reference = autoscaling_v2.CrossVersionObjectReference(api_version=version, kind=kind, name=name)
        await cluster.client.create(autoscaler("web", scale_target_ref=reference))
        await cluster.eventually(lambda: reason_is(cluster, "web", "AbleToScale", "FailedGetScale"))
        text = f"the HPA controller was unable to get the target's current scale: {message}"
        assert (await condition(cluster, "web", "AbleToScale")).message == text
        await cluster.eventually(lambda: events(cluster, "FailedGetScale"))

    live(scenario)


def test_two_autoscalers_of_the_same_pods_both_refuse() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2, cpu="100m"))
        await cluster.rolled_out("web", 2)
        await cluster.client.create(autoscaler("first"))
        await cluster.client.create(autoscaler("second"))
        for name in ("first", "second"):
            ambiguous = partial(reason_is, cluster, name, "ScalingActive", "AmbiguousSelector")
            await cluster.eventually(ambiguous)
        text = "pods by selector app=web are controlled by multiple HPAs: [default/first default/second]"
        assert (await condition(cluster, "second", "ScalingActive")).message == text
        await cluster.client.delete(HPA, "second", "default")
        await cluster.eventually(lambda: reason_is(cluster, "first", "ScalingActive", "ValidMetricFound"))

    live(scenario)


def test_metrics_that_nobody_serves_are_told() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        identifier = autoscaling_v2.MetricIdentifier(name="requests")
        average = autoscaling_v2.MetricTarget(type="AverageValue", average_value="10")
        pods = autoscaling_v2.MetricSpec(
            type="Pods", pods=autoscaling_v2.PodsMetricSource(metric=identifier, target=average)
        )
        external = autoscaling_v2.MetricSpec(
            type="External", external=autoscaling_v2.ExternalMetricSource(metric=identifier, target=average)
        )
        await cluster.client.create(deployment("web", 1, cpu="100m"))
        await cluster.rolled_out("web", 1)
        await cluster.client.create(autoscaler("web", metrics=(pods, external)))
        await cluster.eventually(lambda: events(cluster, "FailedGetExternalMetric"))
        [one] = await cluster.eventually(lambda: events(cluster, "FailedComputeMetricsReplicas"))
        assert one.message == (
            "invalid metrics (2 invalid out of 2), first error is: failed to get pods metric value: unable to get metric "
            "requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) "
            "registered"
        )
        [one] = await events(cluster, "FailedGetExternalMetric")
        assert one.message.endswith(
            "unable to fetch metrics from external metrics API: the server could not find the requested resource "
            "(get requests.external.metrics.k8s.io)"
        )

    live(scenario)


def test_one_container_is_the_measure_and_behaviour_holds_growth_back() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        metric = autoscaling_v2.MetricSpec(
            type="ContainerResource",
            container_resource=autoscaling_v2.ContainerResourceMetricSource(
                name="cpu",
                container="main",
                target=autoscaling_v2.MetricTarget(type="Utilization", average_utilization=50),
            ),
        )
        policy = autoscaling_v2.HPAScalingPolicy(type="Pods", value=1, period_seconds=600)
        behavior = autoscaling_v2.HorizontalPodAutoscalerBehavior(
            scale_up=autoscaling_v2.HPAScalingRules(policies=(policy,))
        )
        web = deployment("web", 1, cpu="100m", pod_meta={"annotations": {f"{USAGE}.main": "400m"}})
        await cluster.client.create(web)
        await cluster.rolled_out("web", 1)
        await cluster.client.create(autoscaler("web", metrics=(metric,), behavior=behavior))
        await cluster.eventually(lambda: scaled(cluster, 2))
        await cluster.eventually(lambda: reason_is(cluster, "web", "ScalingLimited", "ScaleUpLimit"))
        await cluster.eventually(lambda: reason_is(cluster, "web", "AbleToScale", "ReadyForNewScale"))
        assert await scaled(cluster, 2), "one per ten minutes"
        found = await cluster.client.get(HPA, "web", "default")
        assert found.status.current_metrics[0].type == "ContainerResource"
        assert changed(found.status, conditions=()).desired_replicas == 2

    live(scenario)
