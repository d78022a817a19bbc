"""Pods leave when affinity rules that hold during execution cease to hold, and are placed anew: whole clusters in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.feature_gates import ALL_GATES
from bayplan.api.pods.execution_rules import ANNOTATION, GRACE
from bayplan.api.types import apps_v1, core_v1, meta_v1, policy_v1
from bayplan.client.errors import TransportError
from bayplan.cluster.settings import CLUSTER_API, CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.controllers.manager import ControllerManager
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment, metadata, pod, selector, template
from tests.client.transports import Spoiler

REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED = "preferredDuringSchedulingRequiredDuringExecution"


def error_of(code: int, reason: str) -> ApiError:
    return ApiError(meta_v1.Status(status="Failure", code=code, reason=reason, message="so it is"))


SSD: dict[str, Any] = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
}
NEAR_DB = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
ON_SSD: dict[str, Any] = {"nodeAffinity": {REQUIRED: SSD}}


def settings(*, gate: bool = True, **controller: Any) -> ClusterSettings:
    fast: dict[str, Any] = {"affinity_eviction_rate": 100.0, **controller}
    return ClusterSettings(
        api=replace(CLUSTER_API, feature_gates=ALL_GATES if gate else frozenset()),
        controller=replace(CLUSTER_CONTROLLERS, feature_gates=ALL_GATES if gate else frozenset(), **fast),
    )


def played(
    story: Callable[[VirtualCluster], Awaitable[None]], *, nodes: int = 3, how: ClusterSettings | None = None
) -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=nodes, settings=how or settings()) as cluster:
            await story(cluster)
            await cluster.validate()

    run(main())


async def label(cluster: VirtualCluster, node: str, **labels: str | None) -> None:
    await cluster.client.patch(core_v1.Node, node, "", {"metadata": {"labels": labels}})


async def web(cluster: VirtualCluster, replicas: int, rules: Mapping[str, Any], *, annotated: bool = False) -> None:
    """A Deployment whose pods have these rules, when it is rolled out."""
    made = deployment("web", replicas)
    template = made.spec.template
    if annotated:
        template.metadata.annotations = {**template.metadata.annotations, ANNOTATION: json.dumps(rules)}
    else:
        template.spec.affinity = from_tree(core_v1.Affinity, rules)
    await cluster.client.create(made)
    await cluster.eventually(lambda: are_ready(cluster, replicas))


async def pods_of(cluster: VirtualCluster, app: str = "web") -> list[core_v1.Pod]:
    pods = (await cluster.client.list(core_v1.Pod, "default")).items
    return [one for one in pods if one.metadata.labels.get("app") == app and not one.metadata.deletion_timestamp]


async def are_ready(cluster: VirtualCluster, count: int, *nodes: str) -> bool:
    ready = [
        one
        for one in await pods_of(cluster)
        if any(c.type == "Ready" and c.status == "True" for c in one.status.conditions)
    ]
    return len(ready) == count and (not nodes or {one.spec.node_name for one in ready} <= set(nodes))


async def events(cluster: VirtualCluster, reason: str) -> list[str]:
    found = (await cluster.client.list(core_v1.Event, "default")).items
    return [one.message for one in found if one.reason == reason]


@pytest.mark.parametrize("annotated", [False, True], ids=["as fields", "as an annotation"])
def test_pods_leave_a_node_that_lost_its_label_and_come_to_one_that_has_it(annotated: bool) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 4, ON_SSD, annotated=annotated)
        assert await are_ready(cluster, 4, "node-1")
        await label(cluster, "node-2", disk="ssd")
        await label(cluster, "node-1", disk=None)
        await cluster.eventually(lambda: are_ready(cluster, 4, "node-2"))
        messages = await events(cluster, "NodeAffinityEviction")
        assert set(messages) == {
            f"Evicted from node node-1: nodeAffinity.{REQUIRED} has ceased to hold: the labels of node node-1 do not match"
        }
        assert len(messages) == 4

    played(story)


def test_without_the_gate_nothing_is_evicted() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 2, ON_SSD, annotated=True)
        before = {one.metadata.uid for one in await pods_of(cluster)}
        await label(cluster, "node-1", disk=None)
        await cluster.advance(minutes=10)
        assert {one.metadata.uid for one in await pods_of(cluster)} == before

    played(story, how=settings(gate=False))


def test_a_controller_that_is_named_runs_without_the_gate() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 2, ON_SSD, annotated=True)
        await label(cluster, "node-2", disk="ssd")
        await label(cluster, "node-1", disk=None)
        await cluster.eventually(lambda: are_ready(cluster, 2, "node-2"))

    named = replace(settings(gate=False), controllers=("*", "affinity-eviction-controller"))
    played(story, how=named)


def test_pods_follow_the_pod_that_they_need() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await cluster.client.create(pod("db-1", node_name="node-1", meta={"labels": {"app": "db"}}))
        await web(cluster, 3, {"podAffinity": {REQUIRED: [NEAR_DB]}})
        assert await are_ready(cluster, 3, "node-1")
        await cluster.client.create(pod("db-2", node_name="node-3", meta={"labels": {"app": "db"}}))
        await cluster.client.delete(core_v1.Pod, "db-1", "default")
        await cluster.eventually(lambda: are_ready(cluster, 3, "node-3"))
        assert len(await events(cluster, "PodAffinityEviction")) == 3

    played(story)


def test_pods_make_way_for_a_pod_that_must_not_be_near() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await web(cluster, 6, {"podAntiAffinity": {REQUIRED: [NEAR_DB]}})
        there = [one.spec.node_name for one in await pods_of(cluster)]
        assert "node-2" in there
        await cluster.client.create(pod("db", node_name="node-2", meta={"labels": {"app": "db"}}))
        await cluster.eventually(lambda: are_ready(cluster, 6, "node-1", "node-3"))
        messages = await events(cluster, "PodAntiAffinityEviction")
        assert len(messages) == there.count("node-2")
        assert "default/db is in kubernetes.io/hostname=node-2" in messages[0]

    played(story)


def test_of_pods_that_exclude_each_other_one_stays() -> None:
    async def story(cluster: VirtualCluster) -> None:
        for number in (1, 2, 3):
            await label(cluster, f"node-{number}", rack=f"r{number}")
        apart = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "rack"}
        await web(cluster, 3, {"podAntiAffinity": {REQUIRED: [apart]}})
        before = {one.metadata.uid: one.spec.node_name for one in await pods_of(cluster)}
        await label(cluster, "node-2", rack="r1")
        await cluster.advance(minutes=5)
        after = {one.metadata.uid: one.spec.node_name for one in await pods_of(cluster)}
        assert len(before.keys() & after.keys()) == 2, "one of the two that share a rack now, and the third, stay"
        assert [node for uid, node in after.items() if uid not in before] == [""], "there is no rack for another one"

    played(story)


def test_a_preferred_rule_is_required_from_when_it_has_held() -> None:
    async def story(cluster: VirtualCluster) -> None:
        preference = {PREFERRED: [{"weight": 100, "preference": SSD["nodeSelectorTerms"][0]}]}
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 2, {"nodeAffinity": preference})
        assert await are_ready(cluster, 2, "node-1")
        await label(cluster, "node-1", disk=None)
        await cluster.advance(minutes=10)
        after = await pods_of(cluster)
        assert len(await events(cluster, "NodeAffinityEviction")) == 2
        assert len(after) == 2
        assert all(one.spec.node_name for one in after), "where no node has what is preferred, any will do, for good"

    played(story)


def test_budgets_are_respected_and_asked_again() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 3, ON_SSD)
        budget = policy_v1.PodDisruptionBudget(
            metadata=metadata("web", "default"),
            spec=policy_v1.PodDisruptionBudgetSpec(min_available=3, selector=selector({"app": "web"})),
        )
        await cluster.client.create(budget)
        await cluster.advance(seconds=10)
        await label(cluster, "node-2", disk="ssd")
        await label(cluster, "node-1", disk=None)
        await cluster.advance(minutes=5)
        assert await are_ready(cluster, 3, "node-1"), "the budget allows no eviction"
        assert "Cannot evict pod" in (await events(cluster, "FailedNodeAffinityEviction"))[0]
        patch = {"spec": {"minAvailable": 2}}
        await cluster.client.patch(policy_v1.PodDisruptionBudget, "web", "default", patch)
        worst = 3
        for _ in range(300):
            await cluster.advance(seconds=1)
            ready = [
                one
                for one in await pods_of(cluster)
                if any(c.type == "Ready" and c.status == "True" for c in one.status.conditions)
            ]
            worst = min(worst, len(ready))
        assert await are_ready(cluster, 3, "node-2")
        assert worst == 2, "never more than one at a time is missing"

    played(story)


@pytest.mark.parametrize(
    ("annotation", "default", "leaves_after"),
    [("", 0.0, 0), ("", 60.0, 60), ("90", 0.0, 90), ("nodeAffinity=30", 60.0, 30), ("podAffinity=5", 60.0, 60)],
)
def test_a_rule_may_be_broken_for_as_long_as_the_grace_says(annotation: str, default: float, leaves_after: int) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        one = pod("single", affinity=from_tree(core_v1.Affinity, ON_SSD))
        one.metadata.annotations = {GRACE: annotation} if annotation else {}
        await cluster.client.create(one)
        await cluster.advance(seconds=30)
        await label(cluster, "node-1", disk=None)
        await cluster.advance(seconds=max(leaves_after - 2, 0))
        if leaves_after:
            assert not await is_leaving(cluster, "single")
        await cluster.advance(seconds=4)
        assert await is_leaving(cluster, "single")

    played(story, how=settings(affinity_eviction_grace=default))


async def is_leaving(cluster: VirtualCluster, name: str) -> bool:
    pods = (await cluster.client.list(core_v1.Pod, "default")).items
    return all(one.metadata.deletion_timestamp for one in pods if one.metadata.name == name)


def test_a_rule_that_holds_again_in_time_keeps_its_pod() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 2, ON_SSD)
        before = {one.metadata.uid for one in await pods_of(cluster)}
        for _ in range(5):
            await label(cluster, "node-1", disk=None)
            await cluster.advance(seconds=50)
            await label(cluster, "node-1", disk="ssd")
            await cluster.advance(seconds=20)
        assert {one.metadata.uid for one in await pods_of(cluster)} == before

    played(story, how=settings(affinity_eviction_grace=60.0))


def test_a_zone_loses_no_more_pods_at_once_than_its_rate_allows() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 10, ON_SSD)
        await label(cluster, "node-2", disk="ssd")
        await label(cluster, "node-1", disk=None)
        gone = []
        for _ in range(5):
            await cluster.advance(seconds=10)
            gone.append(10 - sum(1 for one in await pods_of(cluster) if one.spec.node_name == "node-1"))
        assert all(count <= 2 * step + 1 for step, count in enumerate(gone, 1)), "one at once, then one in five seconds"
        assert all(count >= 2 * step - 2 for step, count in enumerate(gone, 1))
        assert gone[-1] == 10

    played(story, how=settings(affinity_eviction_rate=0.2))


@pytest.mark.parametrize("silent", [3, 4], ids=["a small zone is disrupted", "all zones are lost"])
def test_nothing_is_evicted_while_the_network_is_broken(silent: int) -> None:
    async def story(cluster: VirtualCluster) -> None:
        async def hush(value: str | None) -> None:
            for number in range(silent):
                changed = {"metadata": {"annotations": {"bayplan.dev/silent": value}}}
                await cluster.client.patch(core_v1.Node, f"node-{4 - number}", "", changed)

        one_zone = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}
        for number in (1, 2, 3, 4):
            await label(cluster, f"node-{number}", **one_zone)
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 2, ON_SSD)
        await hush("true")
        await cluster.advance(seconds=90)
        await label(cluster, "node-1", disk=None)
        await cluster.advance(seconds=60)
        assert not await events(cluster, "NodeAffinityEviction")
        await hush(None)
        await cluster.advance(seconds=120)
        assert len(await events(cluster, "NodeAffinityEviction")) == 2

    played(story, nodes=4, how=settings())


def test_pods_that_are_evicted_again_and_again_leave_later_and_later() -> None:
    """Their template names a node, so that no scheduler looks at the rule."""

    async def story(cluster: VirtualCluster) -> None:
        made = deployment("web", 1)
        made.spec.template.spec.affinity = from_tree(core_v1.Affinity, {"podAffinity": {REQUIRED: [NEAR_DB]}})
        made.spec.template.spec.node_name = "node-1"
        await cluster.client.create(made)
        await cluster.advance(minutes=30)
        evicted = await events(cluster, "PodAffinityEviction")
        assert 6 <= len(evicted) <= 10, "without back-off there would be hundreds"

    played(story)


def test_equal_seeds_give_equal_traces() -> None:
    async def once() -> str:
        async with VirtualCluster(nodes=3, seed=7, settings=settings()) as cluster:
            await label(cluster, "node-1", disk="ssd")
            await web(cluster, 6, ON_SSD)
            await label(cluster, "node-3", disk="ssd")
            await label(cluster, "node-1", disk=None)
            await cluster.advance(minutes=5)
            assert await are_ready(cluster, 6, "node-3")
            return cluster.trace.digest()

    assert run(once()) == run(once())


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TransportError("no route"), id="no answer"),
        pytest.param(error_of(409, "Conflict"), id="a conflict"),
        pytest.param(error_of(500, "InternalError"), id="an error of the server"),
    ],
)
def test_an_eviction_that_goes_wrong_is_asked_for_again(error: Exception) -> None:
    async def main() -> None:
        spoiler = Spoiler("POST", "/eviction", error)
        async with VirtualCluster(nodes=2, settings=settings(), transport=spoiler.over) as cluster:
            await label(cluster, "node-1", disk="ssd")
            await web(cluster, 3, ON_SSD)
            await label(cluster, "node-2", disk="ssd")
            await label(cluster, "node-1", disk=None)
            await cluster.eventually(lambda: are_ready(cluster, 3, "node-2"))
        assert spoiler.seen == 4, "one eviction went wrong and was asked for again"

    run(main())


@pytest.mark.parametrize("annotated", [False, True], ids=["as fields", "as an annotation"])
def test_daemons_run_where_their_rules_hold_and_do_not_come_back_elsewhere(annotated: bool) -> None:
    async def story(cluster: VirtualCluster) -> None:
        made = apps_v1.DaemonSet(
            metadata=metadata("agent", "default"),
            spec=apps_v1.DaemonSetSpec(selector=selector({"app": "agent"}), template=template({"app": "agent"})),
        )
        if annotated:
            made.spec.template.metadata.annotations = {ANNOTATION: json.dumps(ON_SSD)}
        else:
            made.spec.template.spec.affinity = from_tree(core_v1.Affinity, ON_SSD)
        await label(cluster, "node-1", disk="ssd")
        await label(cluster, "node-2", disk="ssd")
        await cluster.client.create(made)
        await cluster.advance(minutes=1)
        assert await places(cluster) == ["node-1", "node-2"]
        await label(cluster, "node-1", disk=None)
        await cluster.advance(minutes=5)
        assert await places(cluster) == ["node-2"]
        assert len(await events(cluster, "SuccessfulCreate")) == 2, "nothing is made for a node that lost its label"
        await label(cluster, "node-1", disk="ssd")
        await cluster.advance(minutes=1)
        assert await places(cluster) == ["node-1", "node-2"]

    async def places(cluster: VirtualCluster) -> list[str]:
        return sorted(one.spec.node_name for one in await pods_of(cluster, "agent"))

    played(story)


@pytest.mark.parametrize("later", [False, True], ids=["from the beginning", "later"])
def test_an_annotation_that_cannot_be_read_is_told_of_once_and_has_no_other_effect(later: bool) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broken = {ANNOTATION: "{broken"}
        await cluster.client.create(
            core_v1.Pod(
                metadata=metadata("alone", "default", annotations={} if later else broken), spec=pod("alone").spec
            )
        )
        await cluster.advance(seconds=30)
        if later:
            await cluster.client.patch(core_v1.Pod, "alone", "default", {"metadata": {"annotations": broken}})
        await cluster.advance(seconds=30)
        await label(cluster, "node-1", disk="hdd")
        await cluster.advance(seconds=30)
        (message,) = await events(cluster, "InvalidAffinityRules")
        assert ANNOTATION in message

    played(story)


def test_metrics_have_the_names_of_the_proposal() -> None:
    async def story(cluster: VirtualCluster) -> None:
        registry = Registry()
        randomness = SeededRandomness("metrics")
        manager = ControllerManager(
            cluster.client,
            clock=cluster.clock,
            randomness=randomness,
            root_ca="",
            enabled=lambda name: name == "affinity-eviction-controller",
            settings=replace(CLUSTER_CONTROLLERS, affinity_eviction_rate=100.0),
            metrics=registry,
        )
        task = asyncio.ensure_future(manager.run())
        await label(cluster, "node-1", disk="ssd")
        await web(cluster, 2, ON_SSD, annotated=True)
        await cluster.client.create(
            policy_v1.PodDisruptionBudget(
                metadata=metadata("web", "default"),
                spec=policy_v1.PodDisruptionBudgetSpec(min_available=1, selector=selector({"app": "web"})),
            )
        )
        await cluster.advance(seconds=10)
        await label(cluster, "node-1", disk=None)
        await cluster.advance(minutes=1)
        text = registry.render().decode()
        (stays,) = [one for one in await pods_of(cluster) if one.spec.node_name]
        assert "evictions_node_affinity_total 1\n" in text
        assert "evictions_pod_affinity_total 0\n" in text
        assert f'pod_failed_eviction_node_affinity_total{{pod="default/{stays.metadata.name}"}}' in text
        await cluster.client.delete(core_v1.Pod, stays.metadata.name, "default")
        await cluster.advance(minutes=1)
        assert f'pod="default/{stays.metadata.name}"' not in registry.render().decode()
        task.cancel()
        await asyncio.wait([task])

    played(story, how=settings(gate=False))
