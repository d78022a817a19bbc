"""Pod groups in a live cluster: served when asked for, all pods or none, gone with their namespace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bayplan.api.codec import from_tree, to_tree
from bayplan.api.errors import ApiError
from bayplan.api.feature_gates import (
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_PREEMPTION,
    WORKLOAD_WITH_JOB,
)
from bayplan.api.optional_kinds import POD_GROUP, WORKLOAD, optional_kinds
from bayplan.api.types import batch_v1, core_v1, events_v1, scheduling_v1
from bayplan.api.types.scheduling_v1alpha2 import PodGroup, Workload
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.cluster import LiveCluster, running_cluster

GROUPS = ClusterSettings(
    nodes=SimulatorSettings(nodes=2, start_seconds=0.01, stop_seconds=0.01),
    api=replace(CLUSTER_API, runtime_config=("scheduling.k8s.io/v1alpha2=true",)),
)


def make(cls: type[Any], name: str, **spec: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def member(name: str, cpu: str) -> Any:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return make(core_v1.Pod, name, containers=[container], schedulingGroup={"podGroupName": "gang"})


ALONE = {
    "metadata": {"name": "alone", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}


async def is_bound(cluster: LiveCluster, name: str) -> bool:
    return bool((await cluster.client.get(core_v1.Pod, name, "default")).spec.node_name)


def test_a_gang_runs_when_all_of_it_fits_and_not_before() -> None:
    async def run() -> None:
        async with running_cluster(settings=GROUPS) as cluster:
            client = cluster.client
            await client.create(make(PodGroup, "gang", schedulingPolicy={"gang": {"minCount": 3}}))
            for name in ("a", "b"):
                await client.create(member(name, "1"))

            await client.create(from_tree(core_v1.Pod, ALONE))
            await cluster.eventually(lambda: is_bound(cluster, "alone"))
            assert not await is_bound(cluster, "a"), "it was there before the other one"
            assert not await is_bound(cluster, "b")
            await client.create(member("c", "1"))

            async def bound() -> bool:
                return all(pod.spec.node_name for pod in await cluster.pods())

            await cluster.eventually(bound)
            group = await client.get(PodGroup, "gang", "default")
            with pytest.raises(ApiError) as refused:
                await client.patch(
                    PodGroup, "gang", "default", {"spec": {"schedulingPolicy": {"gang": {"minCount": 9}}}}
                )
            assert refused.value.code == 422
            assert group.status.conditions[0].type == "PodGroupScheduled"

    asyncio.run(run())


GATED = {
    "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
    "disruptionMode": "PodGroup",
    "priorityClassName": "high",
}


def with_gates(*gates: str) -> ClusterSettings:
    return replace(GROUPS, api=replace(GROUPS.api, feature_gates=frozenset(gates)))


@pytest.mark.parametrize(
    ("gates", "kept"),
    [
        ((), set()),
        ((TOPOLOGY_AWARE,), {"schedulingConstraints"}),
        ((WORKLOAD_PREEMPTION,), {"disruptionMode", "priorityClassName", "priority"}),
    ],
)
def test_fields_of_gates_that_are_off_are_dropped(gates: tuple[str, ...], kept: set[str]) -> None:
    async def run() -> None:
        async with running_cluster(settings=with_gates(*gates)) as cluster:
            client = cluster.client
            priority = {"metadata": {"name": "high"}, "value": 7}
            await client.create(from_tree(scheduling_v1.PriorityClass, priority))
            policy = {"gang": {"minCount": 1}}
            made = to_tree(await client.create(make(PodGroup, "g", schedulingPolicy=policy, **GATED)))["spec"]
            assert made.keys() & {*GATED, "priority"} == kept | {"disruptionMode"}
            if WORKLOAD_PREEMPTION in gates:
                assert (made["disruptionMode"], made["priority"]) == ("PodGroup", 7)
            else:
                assert made["disruptionMode"] == "Pod"  # the default
            template = {"name": "t", "schedulingPolicy": policy, **GATED}
            workload = to_tree(await client.create(make(Workload, "w", podGroupTemplates=[template])))["spec"]
            written = {key for key, value in workload["podGroupTemplates"][0].items() if value is not None}
            assert written & GATED.keys() == kept - {"priority"}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        ),
        ({"schedulingConstraints": {"topology": [{"key": ""}]}}, "topology[0].key: Required value"),
        ({"schedulingConstraints": {"topology": [{"key": "a b"}]}}, "topology[0].key: Invalid value"),
        ({"disruptionMode": "Some"}, 'spec.disruptionMode: Unsupported value: "Some"'),
        ({"priority": 9}, "priority set in the pod group (9) must match the priority computed (0)"),
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
    ],
)
def test_what_fields_of_gates_may_say(fields: dict[str, Any], told: str) -> None:
    async def run() -> None:
        async with running_cluster(settings=with_gates(TOPOLOGY_AWARE, WORKLOAD_PREEMPTION)) as cluster:
            with pytest.raises(ApiError) as refused:
                await cluster.client.create(make(PodGroup, "g", schedulingPolicy={"basic": {}}, **fields))
            assert told in str(refused.value)

    asyncio.run(run())


def test_a_group_in_a_live_cluster_runs_within_one_zone() -> None:
    async def run() -> None:
        settings = with_gates(TOPOLOGY_AWARE, GENERIC_WORKLOAD)
        async with running_cluster(settings=replace(settings, nodes=replace(settings.nodes, nodes=0))) as cluster:
            client = cluster.client
            for index in range(4):
                labels = {"example.com/rack": f"r{index // 2}"}
                status = {"allocatable": {"cpu": "1", "memory": "4Gi", "pods": "10"}}
                tree = {"metadata": {"name": f"n{index}", "labels": labels}, "status": status}
                await client.create(from_tree(core_v1.Node, tree))
            constraints = {"topology": [{"key": "example.com/rack"}]}
            gang = {"gang": {"minCount": 2}}
            await client.create(make(PodGroup, "gang", schedulingPolicy=gang, schedulingConstraints=constraints))
            for name in ("a", "b"):
                await client.create(member(name, "700m"))

            async def bound() -> bool:
                return all(pod.spec.node_name for pod in await cluster.pods())

            await cluster.eventually(bound)
            nodes = sorted(pod.spec.node_name for pod in await cluster.pods())
            assert nodes in (["n0", "n1"], ["n2", "n3"])

    asyncio.run(run())


def test_a_group_makes_room_for_all_its_pods_at_once() -> None:
    async def run() -> None:
        settings = with_gates(GENERIC_WORKLOAD, GANG_SCHEDULING, WORKLOAD_PREEMPTION)
        settings = replace(
            settings, nodes=replace(settings.nodes, capacity={"cpu": "1", "memory": "4Gi", "pods": "10"})
        )
        async with running_cluster(settings=settings) as cluster:
            client = cluster.client
            await client.create(from_tree(scheduling_v1.PriorityClass, {"metadata": {"name": "high"}, "value": 7}))
            for name in ("low-0", "low-1"):
                low = member(name, "700m")
                low.spec.scheduling_group = None
                await client.create(low)

            async def bound(*names: str) -> bool:
                return all([await is_bound(cluster, name) for name in names])

            await cluster.eventually(lambda: bound("low-0", "low-1"))
            gang = {"gang": {"minCount": 2}}
            await client.create(make(PodGroup, "gang", schedulingPolicy=gang, priorityClassName="high"))
            for name in ("a", "b"):
                one = member(name, "700m")
                one.spec.priority_class_name = "high"
                await client.create(one)
            await cluster.eventually(lambda: bound("a", "b"))
            assert {pod.metadata.name for pod in await cluster.pods()} == {"a", "b"}
            group = await client.get(PodGroup, "gang", "default")

            async def told() -> bool:
                events = (await client.list(events_v1.Event, "default")).items
                notes = [event.note for event in events if event.reason == "Preempted"]
                return notes == [f"Preempted by podgroup {group.metadata.uid} on node cluster"] * 2

            await cluster.eventually(told)

    asyncio.run(run())


def parallel_job(name: str, size: int) -> Any:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1500m"}}}
    metadata = {"annotations": {"bayplan.dev/run-seconds": "1000"}}
    template = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return make(batch_v1.Job, name, completionMode="Indexed", parallelism=size, completions=size, template=template)


@pytest.mark.parametrize("gates", [(), (GENERIC_WORKLOAD, WORKLOAD_WITH_JOB)])
def test_a_job_whose_pods_all_run_at_once_is_a_gang(gates: tuple[str, ...]) -> None:
    """Four places of 1,500m: a job of three runs, one of two holds none of the last place if it is a gang."""

    async def run() -> None:
        settings = with_gates(*gates)
        settings = replace(settings, controller=replace(settings.controller, feature_gates=frozenset(gates)))
        async with running_cluster(settings=settings) as cluster:
            client = cluster.client
            await client.create(parallel_job("first", 3))

            async def running() -> list[str]:
                found = [pod.metadata.name for pod in await cluster.pods() if pod.spec.node_name]
                return sorted(name.partition("-")[0] for name in found)

            async def first_runs() -> bool:
                return await running() == ["first"] * 3

            await cluster.eventually(first_runs)
            await client.create(parallel_job("second", 2))

            async def refused() -> bool:
                pods = [pod for pod in await cluster.pods() if pod.metadata.name.startswith("second")]
                return any(one.reason == "Unschedulable" for pod in pods for one in pod.status.conditions)

            await cluster.eventually(refused)
            groups = (await client.list(PodGroup, "default")).items
            workloads = (await client.list(Workload, "default")).items
            if not gates:
                assert not groups
                assert await running() == ["first"] * 3 + ["second"]
                return
            assert await running() == ["first"] * 3
            assert sorted(one.metadata.name.partition("-")[0] for one in groups) == ["first", "second"]
            assert len(workloads) == 2
            await client.delete(batch_v1.Job, "first", "default", propagation_policy="Background")

            async def second_runs() -> bool:
                return await running() == ["second"] * 2

            await cluster.eventually(second_runs)

            async def is_cleaned_up() -> bool:
                left = (await client.list(PodGroup, "default")).items
                return [one.metadata.name.partition("-")[0] for one in left] == ["second"]

            await cluster.eventually(is_cleaned_up)

    asyncio.run(run())


def test_groups_go_with_their_namespace() -> None:
    async def run() -> None:
        async with running_cluster(settings=GROUPS) as cluster:
            await cluster.client.create(from_tree(core_v1.Namespace, {"metadata": {"name": "shop"}}))
            template = {"name": "workers", "schedulingPolicy": {"basic": {}}}
            workload = make(Workload, "w", podGroupTemplates=[template])
            workload.metadata.namespace = "shop"
            await cluster.client.create(workload)
            await cluster.client.delete(core_v1.Namespace, "shop")
            assert await cluster.eventually(lambda: cluster.gone(core_v1.Namespace, "shop", ""))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ((), ()),
        (("scheduling.k8s.io/v1alpha2",), (POD_GROUP, WORKLOAD)),
        (("api/all=true",), (POD_GROUP, WORKLOAD)),
        (("api/alpha=true", "scheduling.k8s.io/v1alpha2=false"), ()),
    ],
)
def test_what_is_served(config: tuple[str, ...], kinds: tuple[object, ...]) -> None:
    assert tuple(kind for kind in optional_kinds(config) if kind.group == POD_GROUP.group) == kinds


@pytest.mark.parametrize("config", ["apps/v2=true", "scheduling.k8s.io/v1alpha2=maybe"])
def test_what_is_not_known_is_refused(config: str) -> None:
    with pytest.raises(ValueError, match=config.partition("=")[0]):
        optional_kinds([config])
