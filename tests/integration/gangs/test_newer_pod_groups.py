"""Pod groups and composite groups of Kubernetes 1.37, of the server's own or as custom resources: whole clusters in virtual time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.conversions.pod_groups import KEPT
from bayplan.api.errors import ApiError
from bayplan.api.feature_gates import (
    COMPOSITE_POD_GROUPS,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_PREEMPTION,
)
from bayplan.api.types import core_v1
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import node

MANIFEST = Path(__file__).parents[3] / "deploy" / "pod-groups-1.37.yaml"
GATES = frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING, TOPOLOGY_AWARE, COMPOSITE_POD_GROUPS))


OWN = ("scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true")


def played(
    story: Callable[[VirtualCluster], Awaitable[None]], gates: frozenset[str] = GATES, versions: tuple[str, ...] = OWN
) -> None:
    """Two nodes of four cores; the versions are served, or with none the definitions are there."""

    async def main() -> None:
        settings = ClusterSettings(api=replace(CLUSTER_API, feature_gates=gates, runtime_config=versions))
        async with VirtualCluster(nodes=2, settings=settings) as cluster:
            if not versions:
                await cluster.apply(MANIFEST)
            await cluster.advance(seconds=10)
            await story(cluster)
            await cluster.validate()

    run(main())


def group(name: str, count: int, parent: str = "", **spec: Any) -> dict[str, Any]:
    under = {"parentCompositePodGroupName": parent} if parent else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}}, **under, **spec},
    }


def composite(name: str, count: int, **spec: Any) -> dict[str, Any]:
    reference = {"workloadName": "w", "templateName": "t"}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": count}}, "workloadRef": reference, **spec},
    }


def pods(of: str, count: int, cpu: str, **spec: Any) -> list[dict[str, Any]]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{of}-{index}", "namespace": "default"},
            "spec": {"containers": [container], "schedulingGroup": {"podGroupName": of}, **spec},
        }
        for index in range(count)
    ]


async def put(cluster: VirtualCluster, *trees: dict[str, Any]) -> None:
    for tree in trees:
        await cluster.apply(tree)


async def placed(cluster: VirtualCluster) -> list[str]:
    found = (await cluster.client.list(core_v1.Pod, "default")).items
    return sorted(pod.metadata.name for pod in found if pod.spec.node_name)


async def condition(cluster: VirtualCluster, version: str, plural: str, name: str) -> tuple[str, str, str]:
    path = f"/apis/scheduling.k8s.io/{version}/namespaces/default/{plural}/{name}"
    status = json.loads(await cluster.client.raw("GET", path)).get("status", {})
    (one,) = status["conditions"]
    return one["type"], one["status"], one["message"]


BESIDE = (*OWN, "scheduling.k8s.io/v1alpha2=true")


@pytest.mark.parametrize("versions", [(), OWN, BESIDE], ids=["custom", "own", "beside v1alpha2"])
def test_a_group_of_version_1_37_is_a_gang(versions: tuple[str, ...]) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, group("g", 3), *pods("g", 2, "3"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == []
        await put(cluster, group("h", 2), *pods("h", 2, "3"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["h-0", "h-1"]
        assert await condition(cluster, "v1beta1", "podgroups", "h") == ("PodGroupInitiallyScheduled", "True", "")
        await put(cluster, group("g", 1))
        for name in ("h-0", "h-1"):
            await cluster.client.delete(core_v1.Pod, name, "default")
        await cluster.advance(minutes=1)
        assert await placed(cluster) == ["g-0", "g-1"], "minCount may change"

    played(story, versions=versions)


@pytest.mark.parametrize("versions", [(), BESIDE], ids=["custom", "own"])
def test_a_composite_group_is_placed_as_a_whole(versions: tuple[str, ...]) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, composite("job", 2), group("a", 1, "job"), group("b", 2, "job"))
        await put(cluster, *pods("a", 1, "3"), *pods("b", 2, "3"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == []
        assert await condition(cluster, "v1alpha3", "compositepodgroups", "job") == (
            "CompositePodGroupInitiallyScheduled",
            "False",
            "pod group is unschedulable; 1 of the 2 groups that are needed fit",
        )
        await cluster.client.create(node("more"))
        await cluster.advance(minutes=1)
        assert await placed(cluster) == ["a-0", "b-0", "b-1"]
        for name in ("a", "b"):
            assert (await condition(cluster, "v1beta1", "podgroups", name))[1] == "True"
        assert (await condition(cluster, "v1alpha3", "compositepodgroups", "job"))[1] == "True"

    played(story, versions=versions)


def test_a_group_is_the_same_in_all_versions() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, composite("job", 1), group("a", 1, "job", disruptionMode={"all": {}}), *pods("a", 1, "3"))
        await cluster.advance(seconds=5)
        path = "/apis/scheduling.k8s.io/{}/namespaces/default/podgroups/a"
        seen = {
            version: json.loads(await cluster.client.raw("GET", path.format(version)))
            for version in ("v1alpha2", "v1alpha3", "v1beta1")
        }
        for version, tree in seen.items():
            assert tree["apiVersion"] == f"scheduling.k8s.io/{version}"
            del tree["apiVersion"]
        assert seen["v1alpha3"] == seen["v1beta1"]
        assert seen["v1beta1"]["spec"]["parentCompositePodGroupName"] == "job"
        older = seen["v1alpha2"]
        assert KEPT not in seen["v1beta1"]["metadata"]["annotations"]
        assert older["metadata"]["annotations"][KEPT] == '{"parentCompositePodGroupName":"job"}'
        assert older["spec"]["disruptionMode"] == "PodGroup"
        assert [one["type"] for one in older["status"]["conditions"]] == ["PodGroupScheduled"]
        change = json.dumps({"spec": {"parentCompositePodGroupName": "other"}}).encode()
        with pytest.raises(ApiError, match="parentCompositePodGroupName: Invalid value"):
            await cluster.client.raw("PATCH", path.format("v1beta1"), {}, change, "application/merge-patch+json")

    played(story, GATES | {WORKLOAD_PREEMPTION}, BESIDE)


def test_fields_of_gates_that_are_off_are_dropped() -> None:
    async def story(cluster: VirtualCluster) -> None:
        constraints = {"topology": [{"key": "rack"}]}
        await put(cluster, group("a", 1, "job", preemptionPolicy="Never", schedulingConstraints=constraints))
        path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/a"
        spec = json.loads(await cluster.client.raw("GET", path))["spec"]
        assert spec == {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": {"single": {}}}
        with pytest.raises(ApiError, match="could not find the requested resource"):
            await cluster.client.raw("GET", "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups")

    played(story, frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING)))


def test_with_the_gate_off_each_group_stands_alone() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await put(cluster, group("a", 1, "job"), group("b", 2, "job"))
        await put(cluster, *pods("b", 2, "3"))
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["b-0", "b-1"]

    played(story, GATES - {COMPOSITE_POD_GROUPS})


def test_room_is_made_for_a_composite_group() -> None:
    async def story(cluster: VirtualCluster) -> None:
        low = pods("none", 2, "3")
        for one in low:
            del one["spec"]["schedulingGroup"]
        await put(cluster, *low)
        await cluster.advance(seconds=5)
        assert await placed(cluster) == ["none-0", "none-1"]
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
        await put(cluster, high, composite("job", 2, priorityClassName="high"))
        for name in ("a", "b"):
            await put(cluster, group(name, 1, "job", priorityClassName="high"))
            await put(cluster, *pods(name, 1, "3", priorityClassName="high"))
        await cluster.advance(minutes=2)
        assert await placed(cluster) == ["a-0", "b-0"]

    played(story, GATES | {WORKLOAD_PREEMPTION})


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (group("g", 0), "spec.schedulingPolicy.gang.minCount"),
        (composite("c", 0), "spec.schedulingPolicy.gang.minGroupCount"),
        (group("g", 1, schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), "topology"),
        (group("g", 1, disruptionMode={"single": {}, "all": {}}), "spec.disruptionMode"),
    ],
)
@pytest.mark.parametrize("versions", [(), OWN], ids=["custom", "own"])
def test_what_is_refused(tree: dict[str, Any], told: str, versions: tuple[str, ...]) -> None:
    async def story(cluster: VirtualCluster) -> None:
        plural = "podgroups" if tree["kind"] == "PodGroup" else "compositepodgroups"
        path = f"/apis/{tree['apiVersion']}/namespaces/default/{plural}"
        with pytest.raises(ApiError, match=told):
            await cluster.client.raw("POST", path, {}, json.dumps(tree).encode())

    played(story, versions=versions)
