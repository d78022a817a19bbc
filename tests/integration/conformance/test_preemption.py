"""Pods that make room for more important ones. Conformance: SchedulerPreemption."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from bayplan.api.quantity import value
from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import (
    PAUSE,
    Space,
    Workloads,
    condition,
    template,
    workload,
)

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = "/api/v1/nodes"
RESOURCE = "example.com/berth"
LEVELS = {"low": 1, "medium": 100, "high": 1000}


@contextlib.asynccontextmanager
async def classes(space: Space, **values: int) -> AsyncIterator[None]:
    """There are these priority classes for a while."""
    for name, number in values.items():
        await space.api.create(CLASSES, {"metadata": {"name": name}, "value": number})
    try:
        yield
    finally:
        for name in values:
            await space.api.delete(f"{CLASSES}/{name}", {"gracePeriodSeconds": 0})


@contextlib.asynccontextmanager
async def berths(space: Space, amount: int, *names: str) -> AsyncIterator[None]:
    """Nodes offer a resource for a while; the patch also holds what clients of types write without meaning to."""
    more = {RESOURCE: str(amount)}
    empty = dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeletVersion"), "")
    status = {
        "capacity": more,
        "allocatable": more,
        "nodeInfo": empty,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    }
    for name in names:
        await space.api.patch(f"{NODES}/{name}/status", {"spec": {}, "status": status}, STRATEGIC_PATCH)
        await space.until(f"{NODES}/{name}", lambda one: value(one["status"]["allocatable"].get(RESOURCE, 0)) == amount)
    try:
        yield
    finally:
        for name in names:
            await space.changed(f"{NODES}/{name}/status", without)


def without(node: Object) -> None:
    """Take the resource from a node."""
    for kind in ("capacity", "allocatable"):
        node["status"][kind].pop(RESOURCE, None)


def on_node(name: str) -> Object:
    """Only this node will do."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def wants(amount: int) -> Object:
    """So much of the resource."""
    return {"requests": {RESOURCE: str(amount)}, "limits": {RESOURCE: str(amount)}}


def pod(name: str, priority: str, amount: int, **spec: object) -> Object:
    """A pod of a priority class that wants some of the resource."""
    container = {"name": "pause", "image": PAUSE, "resources": wants(amount)}
    metadata = {"name": name, "deletionGracePeriodSeconds": 1}
    base = {"containers": [container], "priorityClassName": priority, "terminationGracePeriodSeconds": 1}
    return {"metadata": metadata, "spec": {**base, **spec}}


async def full(space: Space, nodes: list[str]) -> list[str]:
    """Four fifths of each node are taken by two pods; one of all is less important. Returns their names, this one first."""
    names: list[str] = []
    for node in nodes:
        for number in (1, 2):
            name = f"pod-{node}-{number}"
            await space.api.create(space.core("pods"), pod(name, "medium" if names else "low", 2, **on_node(node)))
            names.append(name)
    await space.running(len(names))
    return names


async def check_only_first_left(space: Space, names: list[str]) -> None:
    """The first of these pods is gone or on its way, all others stay."""
    found = {one["metadata"]["name"]: one["metadata"] for one in await space.pods()}
    assert names[0] not in found or "deletionTimestamp" in found[names[0]]
    assert all("deletionTimestamp" not in found[name] for name in names[1:])


def test_a_less_important_pod_makes_room(workloads: Workloads) -> None:
    """SchedulerPreemption validates basic preemption works."""

    async def scenario(space: Space) -> None:
        nodes = await space.api.names(NODES)
        async with classes(space, **LEVELS), berths(space, 5, *nodes):
            names = await full(space, nodes)
            await space.api.create(space.core("pods"), pod("important", "high", 2))
            await space.until(space.core("pods/important"), lambda one: one["status"]["phase"] == "Running")
            await check_only_first_left(space, names)

    workloads.run(scenario)


def test_a_critical_pod_gets_room(workloads: Workloads) -> None:
    """SchedulerPreemption validates lower priority pod preemption by critical pod."""

    async def scenario(space: Space) -> None:
        nodes = await space.api.names(NODES)
        async with classes(space, **LEVELS), berths(space, 5, *nodes):
            names = await full(space, nodes)
            path = "/api/v1/namespaces/kube-system/pods"
            await space.api.create(path, pod("critical", "system-cluster-critical", 2))
            try:
                await space.until(f"{path}/critical", lambda one: one["status"]["phase"] == "Running")
                await check_only_first_left(space, names)
            finally:
                await space.api.delete(f"{path}/critical", {"gracePeriodSeconds": 0})

    workloads.run(scenario)


def test_a_preempted_pod_says_so(workloads: Workloads) -> None:
    """SchedulerPreemption validates pod disruption condition is added to the preempted pod."""

    async def scenario(space: Space) -> None:
        node, path = (await space.api.names(NODES))[0], space.core("pods")
        async with classes(space, **LEVELS), berths(space, 1, node):
            victim = pod("victim", "low", 1, **on_node(node))
            victim["metadata"]["finalizers"] = ["example.com/hold"]
            await space.api.create(path, victim)
            await space.until(f"{path}/victim", lambda one: one["status"]["phase"] == "Running")
            await space.api.create(path, pod("preemptor", "high", 1, **on_node(node)))
            going = await space.until(f"{path}/victim", lambda one: "deletionTimestamp" in one["metadata"])
            assert condition(going, "DisruptionTarget")["status"] == "True"
            await space.changed(f"{path}/victim", lambda one: one["metadata"].update(finalizers=[]))
            await space.gone(f"{path}/victim")
            await space.until(f"{path}/preemptor", lambda one: one["status"]["phase"] == "Running")

    workloads.run(scenario)


def test_pods_are_not_preempted_again_and_again(workloads: Workloads) -> None:
    """SchedulerPreemption PreemptionExecutionPath runs ReplicaSets to verify preemption running path."""

    async def scenario(space: Space) -> None:
        name = (await space.api.names(NODES))[0]
        host = (await space.api.get(f"{NODES}/{name}"))["metadata"]["labels"]["kubernetes.io/hostname"]
        selector = {"kubernetes.io/hostname": host}
        seen: Counter[str] = Counter()

        async def count() -> None:
            async with space.api.watch(space.core("pods")) as watch:
                while True:
                    kind, found = await watch.next()
                    if kind == "ADDED":
                        seen[found["metadata"]["name"].rpartition("-")[0]] += 1

        async with classes(space, p1=1, p2=2, p3=3, p4=4), berths(space, 1000, name):
            counting = asyncio.create_task(count())
            try:
                for number, amount in ((1, 200), (2, 300), (3, 450)):
                    labels = {"name": f"pod{number}"}
                    pods = template(labels, PAUSE, grace=1, nodeSelector=selector, priorityClassName=f"p{number}")
                    pods["spec"]["containers"][0]["resources"] = wants(amount)
                    await space.api.create(space.apps("replicasets"), workload(f"rs{number}", labels, pods, replicas=1))
                    own = space.apps(f"replicasets/rs{number}")
                    await space.until(own, lambda one: one["status"].get("availableReplicas") == 1)
                await space.api.create(space.core("pods"), pod("more-important", "p4", 500, nodeSelector=selector))
                await space.until(space.core("pods/more-important"), lambda one: one["spec"].get("nodeName"))
                wanted = {"rs1": 2, "rs2": 2, "rs3": 1, "more": 1}

                async def replaced() -> bool:
                    return seen == wanted

                await eventually(replaced)
                await asyncio.sleep(2)  # whoever were preempted too often would be so by now
                assert seen == wanted
            finally:
                counting.cancel()

    workloads.run(scenario)


def test_what_of_a_priority_class_can_be_changed(workloads: Workloads) -> None:
    """SchedulerPreemption PriorityClass endpoints verify PriorityClass endpoints can be operated with different HTTP methods."""

    async def scenario(space: Space) -> None:
        labels = {"classes-of": space.name}
        made = [
            await space.api.create(CLASSES, {"metadata": {"name": f"p{number}", "labels": labels}, "value": number})
            for number in (1, 2)
        ]
        one, two = (f"{CLASSES}/{each['metadata']['name']}" for each in made)
        refusal = await space.api.refused("PATCH", one, {"value": 10}, media_type=STRATEGIC_PATCH)
        assert refusal.reason in ("Invalid", "Forbidden")
        refusal = await space.api.refused("PUT", two, {**made[1], "value": 20})
        assert refusal.reason in ("Invalid", "Forbidden")
        await space.api.patch(one, {"description": "another"}, STRATEGIC_PATCH)
        await space.api.update(two, {**made[1], "description": "another"})
        assert {"p1", "p2"} <= set(await space.api.names(CLASSES))
        for before in made:
            now = await space.api.get(f"{CLASSES}/{before['metadata']['name']}")
            assert (now["value"], now["description"]) == (before["value"], "another")
            assert int(now["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
        await space.api.delete(CLASSES, labelSelector=f"classes-of={space.name}")
        assert not await space.api.names(CLASSES, labelSelector=f"classes-of={space.name}")

    workloads.run(scenario)
